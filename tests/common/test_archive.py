"""Archives from people who mean harm: each is refused, and nothing is ever written outside."""

import gzip
import io
import tarfile

import pytest

from common import archive
from common.archive import check_archive, stays_beneath, unpack_archive
from common.errors import InvalidInput


def tar_of(*members, compress=True) -> bytes:
    """Members as (name, content), (name, ">" + target) for a link, (name, None) for a directory, or a TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            info, content = (member, None) if isinstance(member, tarfile.TarInfo) else member_of(*member)
            tar.addfile(info, content)
    return gzip.compress(out.getvalue()) if compress else out.getvalue()


def member_of(name, content):
    info = tarfile.TarInfo(name)
    if content is None:
        info.type = tarfile.DIRTYPE
    elif isinstance(content, str):
        info.type, info.linkname = tarfile.SYMTYPE, content[1:]
    else:
        info.size = len(content)
        return info, io.BytesIO(content)
    return info, None


def typed(name: str, kind: bytes, linkname: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, linkname
    return info


def code_of(data: bytes, directory) -> str:
    """The refusal, which is the same for looking and for unpacking."""
    with pytest.raises(InvalidInput) as looked:
        check_archive(io.BytesIO(data), len(data))
    with pytest.raises(InvalidInput) as unpacked:
        unpack_archive(io.BytesIO(data), len(data), str(directory))
    assert looked.value.errors == unpacked.value.errors
    [error] = looked.value.errors
    assert error.pointer == "/code"
    return error.code


def test_files_folders_and_links_are_unpacked(tmp_path):
    data = tar_of(("d", None), ("d/a", b"one"), ("e/f/g", b"two"), ("d/l", ">../e/f"), ("./h", b""))
    info = unpack_archive(io.BytesIO(data), len(data), str(tmp_path))
    assert (info.files, info.bytes) == (4, 6)
    assert (tmp_path / "d/l/g").read_bytes() == b"two" and (tmp_path / "h").read_bytes() == b""
    assert info == check_archive(io.BytesIO(data), len(data))


def test_only_the_executable_bit_is_kept(tmp_path):
    info, content = member_of("a", b"x")
    info.mode = 0o6777
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.addfile(info, content)
    out.seek(0)
    unpack_archive(out, len(out.getvalue()), str(tmp_path))
    assert (tmp_path / "a").stat().st_mode & 0o7022 == 0 and (tmp_path / "a").stat().st_mode & 0o100


@pytest.mark.parametrize("name", ["../a", "/etc/a", "a/../../b", "a/..", "..", "x" * 300, "d/" * 70 + "x", "y/" * 2500])
def test_a_name_that_leaves_is_refused(tmp_path, name):
    assert code_of(tar_of((name, b"x")), tmp_path) == "archive_bad_name"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../x", "d/../../x", "", "l"])
def test_a_link_that_leaves_is_refused(tmp_path, target):
    assert code_of(tar_of(("d", None), ("l", ">" + target)), tmp_path) == "archive_link"
    assert not (tmp_path / "l").is_symlink()


def test_a_link_made_later_cannot_open_an_earlier_one(tmp_path):
    assert code_of(tar_of(("y", ">d/x/.."), ("d", None), ("d/x", ">..")), tmp_path) == "archive_link"


@pytest.mark.parametrize("members", [
    [("l", ">d"), ("l/a", b"x")],
    [("f", b"x"), ("f/a", b"x")],
])  # fmt: skip
def test_nothing_lies_below_a_link_or_a_file(tmp_path, members):
    assert code_of(tar_of(*members), tmp_path) == "archive_bad_name"


@pytest.mark.parametrize("members", [
    [("a", b"1"), ("a", b"2")],
    [("d/a", b"1"), ("d", b"2")],
    [("d/a", b"1"), ("d", ">/etc")],
    [("a", b"1"), ("./a", None)],
])  # fmt: skip
def test_nothing_is_there_twice(tmp_path, members):
    assert code_of(tar_of(*members), tmp_path) == "archive_twice"


@pytest.mark.parametrize(
    "kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"V"]
)
def test_hard_links_and_devices_are_refused(tmp_path, kind):
    assert code_of(tar_of(("b", b""), typed("a", kind, "b")), tmp_path) == "archive_special"


def test_a_sparse_file_is_refused(tmp_path):
    info = typed("a", tarfile.REGTYPE)
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,0",
        "GNU.sparse.size": "10",
    }
    assert code_of(tar_of(info), tmp_path) == "archive_special"


def test_a_bomb_is_refused_by_its_ratio(tmp_path):
    assert code_of(tar_of(("a", bytes(5_000_000))), tmp_path) == "archive_ratio"


def test_a_bomb_behind_the_end_is_refused(tmp_path):
    assert code_of(gzip.compress(tar_of(("a", b"x"), compress=False) + bytes(30_000_000)), tmp_path) == "archive_ratio"


def test_too_much_is_refused_by_the_header_already(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1000)
    assert code_of(tar_of(("a", b"x" * 600), ("b", b"x" * 600)), tmp_path) == "archive_unpacked"


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 10)
    assert code_of(tar_of(*((str(i), b"") for i in range(11))), tmp_path) == "archive_too_many"


def test_too_many_links_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_LINKS", 3)
    assert code_of(tar_of(*((str(i), ">x") for i in range(4))), tmp_path) == "archive_too_many_links"
    assert code_of(tar_of(("a", ">" + "x" * 2000)), tmp_path) == "archive_too_many_links"


def test_too_much_to_send_is_refused_unread(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        check_archive(io.BytesIO(b""), archive.MAX_PACKED + 1)
    assert caught.value.errors[0].code == "archive_too_large"


def test_a_long_header_is_refused_before_it_is_read(tmp_path):
    info = typed("a", tarfile.REGTYPE)
    info.pax_headers = {"comment": "x" * 100_000}
    assert code_of(tar_of(info), tmp_path) == "archive_unreadable"


def test_headers_about_headers_are_refused(tmp_path):
    header = typed("x", tarfile.XHDTYPE).tobuf(tarfile.USTAR_FORMAT)
    assert code_of(gzip.compress(header * 5000), tmp_path) == "archive_unreadable"


DAMAGED = [
    b"", b"no archive", b"\x1f\x8b", tar_of(("a", b"x"), compress=False), gzip.compress(b"no tar"),
    tar_of(("a", b"x" * 5000))[:-10], tar_of(("a", b"x"))[:-8] + b"12345678",
]  # fmt: skip


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_archive_is_refused(tmp_path, data):
    assert code_of(data, tmp_path) == "archive_unreadable"


@pytest.mark.parametrize("links, path, yes", [
    ({}, "a/b", True),
    ({("a",): "b/c"}, "a/../..", True),
    ({("a",): "b"}, "a/../..", False),
    ({("a",): "b", ("b",): "a"}, "a", False),
    ({("a",): "./b//c/"}, "a", True),
])  # fmt: skip
def test_where_a_path_leads(links, path, yes):
    assert stays_beneath(links, tuple(path.split("/"))) is yes
