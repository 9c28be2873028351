import io
import os
import tarfile
from pathlib import Path

import pytest

from cli import pack as packing
from cli.pack import PackError, pack
from common.archive import check_archive
from jobs.code.archive import store_code


def make(root: Path, **files: str) -> Path:
    """Files beneath root, as make(tmp_path, **{"src/a.py": "print()"})."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names_in(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return tar.getnames()


def error_of(root: Path) -> str:
    with pytest.raises(PackError) as caught:
        pack(root)
    return str(caught.value)


def test_a_directory_is_packed_with_what_it_holds(tmp_path):
    packed = pack(make(tmp_path, **{"train.py": "x", "src/a.py": "yy", "src/b/c.txt": ""}))
    assert names_in(packed.data) == ["src", "train.py", "src/a.py", "src/b", "src/b/c.txt"]
    assert (packed.files, packed.bytes, packed.left_out) == (3, 3, ())


def test_the_same_files_give_the_same_digest_whenever_and_by_whomever(tmp_path):
    one = make(tmp_path / "one", a="1", b="2", **{"c/d": "3"})
    two = make(tmp_path / "two", b="2", a="1", **{"c/d": "3"})
    os.utime(two / "a", (1, 1))
    (two / "b").chmod(0o600)
    assert pack(one).digest == pack(two).digest
    (two / "b").chmod(0o700)
    assert pack(one).digest != pack(two).digest


def test_a_changed_byte_changes_the_digest(tmp_path):
    before = pack(make(tmp_path, a="1")).digest
    assert pack(make(tmp_path, a="2")).digest != before


def test_what_is_made_again_stays_out(tmp_path):
    out = (".git/HEAD", "sub/.venv/x", "sub/__pycache__/x", "node_modules/x", "sub/.git")
    make(tmp_path, a="1", **{".gitignore": "", "sub/b": ""}, **dict.fromkeys(out, ""))
    assert names_in(pack(tmp_path).data) == [".gitignore", "a", "sub", "sub/b"]


def test_gitignores_are_honoured_where_they_stand(tmp_path):
    names = ("a.log", "keep.log", "data/big.bin", "src/data", "src/out", "src/deep/x.tmp", "src/x.tmp", "other/x.tmp")
    make(tmp_path, **dict.fromkeys(names, ""))
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/data/\n")
    (tmp_path / "src" / ".gitignore").write_text("out\n*.tmp\n")
    (tmp_path / "src" / "deep" / ".gitignore").write_text("!x.tmp\n")
    names = names_in(pack(tmp_path).data)
    assert {"keep.log", "other/x.tmp", "src/deep/x.tmp", "src/data"} <= set(names)
    assert not {"a.log", "data", "data/big.bin", "src/out", "src/x.tmp"} & set(names)


def test_a_link_that_stays_beneath_is_kept(tmp_path):
    make(tmp_path, **{"src/a": "1"})
    (tmp_path / "src" / "up").symlink_to("../src/a")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path).data)) as tar:
        assert tar.getmember("src/up").linkname == "../src/a"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "src/../../x", "me"])
def test_a_link_that_leaves_is_refused_by_name(tmp_path, target):
    make(tmp_path, **{"src/a": "1"})
    (tmp_path / "me").symlink_to(target)
    assert "The link me leads to" in error_of(tmp_path)


def test_a_link_through_a_link_cannot_leave(tmp_path):
    make(tmp_path, **{"d/a": "1"})
    (tmp_path / "d" / "x").symlink_to("..")
    (tmp_path / "y").symlink_to("d/x/../../etc")
    assert "The link y" in error_of(tmp_path)


def test_too_large_names_the_largest_files(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MAX_UNPACKED", 3_000_000)
    make(tmp_path, small="1")
    (tmp_path / "model.bin").write_bytes(os.urandom(3_500_000))
    assert "model.bin (3.3 MiB)" in error_of(tmp_path) and "small" in error_of(tmp_path)


def test_too_large_when_packed_names_the_largest_files(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MAX_PACKED", 1_000_000)
    (tmp_path / "noise.bin").write_bytes(os.urandom(1_500_000))
    assert "noise.bin (1.4 MiB)" in error_of(tmp_path)


def test_too_many_files_names_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MAX_MEMBERS", 20)
    make(tmp_path, a="1", **{f"frames/{i}": "" for i in range(30)})
    assert "frames (" in error_of(tmp_path)


def test_a_file_of_nothing_is_refused_before_the_platform_does(tmp_path):
    (tmp_path / "zeros").write_bytes(bytes(5_000_000))
    assert "zeros (4.8 MiB)" in error_of(tmp_path)


def test_a_pipe_is_left_out_and_told(tmp_path):
    make(tmp_path, a="1")
    os.mkfifo(tmp_path / "pipe")
    assert pack(tmp_path).left_out == ("pipe",)


def test_no_directory_is_said(tmp_path):
    assert "There is no directory" in error_of(tmp_path / "nowhere")


def test_the_platform_takes_what_was_packed(tmp_path):
    root = make(tmp_path / "code", a="1", **{"src/名字": "2", "long/" + "x" * 200: "3"})
    (root / "link").symlink_to("src")
    (root / os.fsdecode(b"caf\xe9")).write_text("4")
    packed = pack(root)
    info = store_code([packed.data], tmp_path / "store")
    assert (info.digest, info.files, info.bytes) == (packed.digest, packed.files, packed.bytes)


def test_the_limits_are_those_of_the_platform():
    here = vars(packing)
    theirs = check_archive.__globals__
    for name in ("MAX_PACKED", "MAX_UNPACKED", "MAX_MEMBERS", "MAX_LINKS", "MAX_LINK_TARGET", "MAX_RATIO", "RATIO_FROM",
                 "MAX_DEPTH", "MAX_HOPS"):  # fmt: skip
        assert here[name] == theirs[name]
