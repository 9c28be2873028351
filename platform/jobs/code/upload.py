"""Store code that people upload."""

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from accounts.models import User
from common.disk import check_disk
from jobs.code.archive import store_code
from jobs.models import CodePack


def keep_code(*, user: User, pieces: Iterable[bytes]) -> CodePack:
    """Store a tar.gz that `user` may then name. Raises InvalidInput at ``/code``, DiskFull."""
    check_disk()
    info = store_code(pieces, Path(settings.TESSERA_CODE))
    kept, _made = CodePack.objects.get_or_create(
        user=user, digest=info.digest, defaults={"files": info.files, "bytes": info.bytes}
    )
    return kept


def pack_one_file(name: str, content: bytes) -> bytes:
    """Return a tar.gz of one file, reproducibly."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as squeezed, tarfile.open(fileobj=squeezed, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), 0o644
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
