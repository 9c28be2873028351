"""Unpack a job's code with the job's account; a separate process, as the shim does not import tarfile.

The archive is untrusted: `common.archive` stays beneath the target.
"""

import os
import sys

from common.archive import unpack_archive
from common.errors import InvalidInput
from runtimes.local.isolation import die_with_parent, drop_privileges


def main(archive: str, target: str, uid: str, gid: str) -> None:
    """Unpack as uid and gid ("" for the platform's); exit 1 with a message on failure."""
    die_with_parent()
    file = open(archive, "rb")  # noqa: SIM115 - opened as the platform, read as the job: only we may see the archive
    drop_privileges(int(uid) if uid else None, int(gid) if gid else None)
    die_with_parent()  # cleared by changing the account
    try:
        unpack_archive(file, os.fstat(file.fileno()).st_size, target)
    except InvalidInput as refused:
        sys.exit(f"The code could not be unpacked: {refused.errors[0].code} {refused.errors[0].params}")
    except OSError as error:
        sys.exit(f"The code could not be unpacked: {error}")
