import gzip
import hashlib
import io
import tarfile

import pytest

from common.errors import InvalidInput
from jobs.code import archive
from jobs.code.archive import check_code, code_file, store_code


def pack_of(**files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


def test_an_upload_is_kept_under_its_hash(tmp_path):
    data = pack_of(a=b"one", b=b"two")
    info = store_code([data[:10], data[10:]], tmp_path / "code")
    assert info.digest == "sha256:" + hashlib.sha256(data).hexdigest()
    assert (info.files, info.bytes, info.packed_bytes) == (2, 6, len(data))
    kept = code_file(tmp_path / "code", info.digest)
    assert kept.read_bytes() == data and check_code(kept) == info


def test_the_same_upload_is_kept_once(tmp_path):
    for _ in range(2):
        store_code([pack_of(a=b"one")], tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_refused_upload_leaves_nothing(tmp_path):
    with pytest.raises(InvalidInput):
        store_code([b"no archive"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_upload_is_cut_off_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_PACKED", 1000)
    pieces = iter([b"x" * 600] * 10)
    with pytest.raises(InvalidInput) as caught:
        store_code(pieces, tmp_path)
    assert caught.value.errors[0].code == "archive_too_large"
    assert len(list(pieces)) == 8 and list(tmp_path.iterdir()) == []
