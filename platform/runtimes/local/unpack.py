"""Unpack a job's code, as the job's own account: `python -c ... archive target uid gid`.

The archive was packed by somebody we do not trust: `common.archive` makes only what stays beneath the target. A process
of its own, so that the shim need not know tarfile.
"""

import os
import sys

from common.archive import unpack_archive
from common.errors import InvalidInput
from runtimes.local.isolation import die_with_parent, drop_to


def main(archive: str, target: str, uid: str, gid: str) -> None:
    """uid and gid: "" keeps the platform's account. Exits 1 with one sentence on stderr."""
    die_with_parent()
    file = open(archive, "rb")  # noqa: SIM115 - opened as the platform, read as the job: only we may see the archive
    drop_to(int(uid) if uid else None, int(gid) if gid else None)
    die_with_parent()  # changing the account switched it off
    try:
        unpack_archive(file, os.fstat(file.fileno()).st_size, target)
    except InvalidInput as refused:
        sys.exit(f"The code could not be unpacked: {refused.errors[0].code} {refused.errors[0].params}")
    except OSError as error:
        sys.exit(f"The code could not be unpacked: {error}")
