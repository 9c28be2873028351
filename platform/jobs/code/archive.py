"""Check code archives and store them by content hash, without the database."""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from common.archive import MAX_PACKED, check_archive
from common.errors import FieldError, InvalidInput


@dataclass(frozen=True)
class CodeInfo:
    """digest: "sha256:<hex>" of the packed bytes. files: without directories. bytes: unpacked."""

    digest: str
    files: int
    bytes: int
    packed_bytes: int


def check_code(path: Path) -> CodeInfo:
    """Check a code archive. Raises InvalidInput at ``/code``."""
    packed_bytes = path.stat().st_size
    with open(path, "rb") as file:
        inside = check_archive(file, packed_bytes)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return CodeInfo(f"sha256:{digest}", inside.files, inside.bytes, packed_bytes)


def store_code(pieces: Iterable[bytes], directory: Path) -> CodeInfo:
    """Store an upload atomically, once per content. Raises InvalidInput."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=directory, prefix=".upload-")
    path = Path(name)
    try:
        with open(handle, "wb") as file:
            _write(pieces, file)
        info = check_code(path)
        os.replace(path, code_file(directory, info.digest))
    finally:
        path.unlink(missing_ok=True)
    return info


def code_file(directory: Path, digest: str) -> Path:
    return directory / f"{digest.removeprefix('sha256:')}.tar.gz"


def _write(pieces: Iterable[bytes], file) -> None:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_PACKED:
            raise InvalidInput(errors=[FieldError("/code", "archive_too_large", {"max": f"{MAX_PACKED >> 20} MiB"})])
        file.write(piece)
    file.flush()
    os.fsync(file.fileno())
