"""A version is all of a folder, as it was, and nothing of what lies elsewhere."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from common.errors import Conflict, NotFound
from runtimes.dataset_store import contents, taking
from runtimes.dataset_store.layout import StoreLayout
from runtimes.dataset_store.manifest import compare_manifests, read_manifest
from runtimes.dataset_store.removing import remove_version, sweep_store
from runtimes.dataset_store.taking import find_version, take_folder
from tests.runtimes.dataset_store.trees import KEY, check_version, fill, home, list_objects, read_version, take

LARGE = os.urandom((1 << 20) + 17)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tmp_path.chmod(0o711)
    for above in tmp_path.parents[:2]:  # pytest's own, closed to the person
        above.chmod(0o711)
    folder = tmp_path / "files"
    folder.mkdir(mode=0o711)
    return folder


def test_a_version_is_the_folder_as_it_was_and_stays_so(root):
    fill(home(root) / "corpus", {"a.txt": "one", "deep/b.bin": LARGE, "deep/er/c": "", "twice": "one"})
    taken = take(root, "corpus")
    assert (taken.summary.files, taken.summary.bytes) == (4, 6 + len(LARGE))
    assert taken.progress.new_bytes == 3 + len(LARGE)  # "one" is kept once
    before = read_version(root)
    assert before == {"a.txt": b"one", "deep/b.bin": LARGE, "deep/er/c": b"", "twice": b"one"}
    fill(home(root) / "corpus", {"a.txt": "changed", "deep/b.bin": b"x"})
    os.unlink(home(root) / "corpus/twice")
    second = take(root, "corpus", 2)
    assert read_version(root) == before
    check_version(root, 1)
    check_version(root, 2)
    assert second.progress.new_bytes == len("changed") + 1 and second.summary.digest != taken.summary.digest
    assert find_version(StoreLayout(root), KEY, 1) == taken.summary and find_version(StoreLayout(root), KEY, 3) is None


def test_a_version_cannot_be_written_and_equal_folders_have_one_digest(root):
    fill(home(root) / "one", {"run.sh": "#!/bin/sh", "data": "#!/bin/sh", "sub/x": "1"})
    (home(root) / "one/run.sh").chmod(0o4755)
    fill(home(root) / "two", {"sub/x": "1", "data": "#!/bin/sh", "run.sh": "#!/bin/sh"})
    (home(root) / "two/run.sh").chmod(0o755)
    first, second = take(root, "one", 1), take(root, "two", 2)
    assert first.summary == second.summary and second.progress.new_bytes == 0
    tree = StoreLayout(root).version(KEY, 1)
    modes = {path.relative_to(tree).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in (tree, *tree.rglob("*"))}
    assert modes == {".": 0o555, "sub": 0o555, "run.sh": 0o555, "data": 0o444, "sub/x": 0o444}


def test_what_is_no_file_or_leads_out_is_left_out_and_named(root):
    top = home(root) / "corpus"
    fill(top, {"kept": "1", "closed": "2", "shut/in": "3"})
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(top / "socket"))
    if os.geteuid() == 0:
        os.mknod(top / "disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
        (top / "closed").chmod(0o000)
        (top / "shut").chmod(0o000)
    else:
        pytest.skip("NOT ROOT: device nodes cannot be made.")
    for name, target in {
        "inside": "kept",
        "dangling": "nothing",
        "up": "../secret",
        "absolute": "/etc/passwd",
        "by-link": "up/x",
        "loop": "loop",
    }.items():
        (top / name).symlink_to(target)
    taken = take(root, "corpus")
    assert read_version(root) == {"kept": b"1", "inside": "kept", "dangling": "nothing"}
    assert dict(taken.progress.left_out) == {
        "pipe": "special",
        "socket": "special",
        "disk": "special",
        "closed": "closed",
        "shut": "closed",
        "up": "leads_out",
        "absolute": "leads_out",
        "by-link": "leads_out",
        "loop": "leads_out",
    }


def test_hostile_names_stay_names(root):
    top = home(root) / "corpus"
    names = [
        "new\nline",
        "…",
        "x" * 255,
        "-rf",
        "\\",
        "'\"",
        "spare",
        "tree",
        ".hidden",
        b"\xff\xfe".decode(errors="surrogateescape"),
    ]
    fill(top, dict.fromkeys(names, "1"))
    (top / "..folder\n").mkdir()
    take(root, "corpus")
    assert set(read_version(root)) == set(names)
    check_version(root, 1)


@pytest.mark.parametrize(
    "packet",
    [
        {"files": ["../escape"]},
        {"files": [".."]},
        {"files": ["a/b"]},
        {"files": [""]},
        {"enter": ".."},
        {"enter": "/tmp"},
        {"leave": True},
        {"links": [["../escape", "x"]]},
        {"left_out": [["../escape", "x"]]},
    ],
)
def test_a_walk_that_lies_makes_nothing(root, packet):
    (root.parent / "content").write_text("1")
    fds = [os.open(root.parent / "content", os.O_RDONLY)] if "files" in packet else []
    with pytest.raises(Conflict, match="bad_source"):
        take_folder(StoreLayout(root), [(packet, fds)], key=KEY, number=1)
    _assert_nothing_left(root)


def test_a_link_in_place_of_a_folder_is_not_followed(root):
    outside = root.parent / "outside"
    outside.mkdir()
    enter, leave = ({"enter": "x"}, []), ({"leave": True}, [])
    for target in ("../outside", os.fspath(outside)):
        take_folder(
            StoreLayout(root), [({"links": [["x", target]]}, []), enter, enter, leave, leave], key=KEY, number=1
        )
        remove_version(StoreLayout(root), KEY, 1)
    with pytest.raises(OSError):
        take_folder(StoreLayout(root), [({"links": [["x", "y"]]}, []), enter, enter, leave, leave], key=KEY, number=1)
    assert not list(outside.iterdir())
    _assert_nothing_left(root)


def test_a_file_that_changes_while_it_is_read_is_read_again_and_then_refused_by_name(root, monkeypatch):
    fill(home(root) / "corpus", {"steady": "1", "log": LARGE})
    monkeypatch.setattr(contents.ContentKeeper, "_clone", lambda *_: False)
    path, reads = home(root) / "corpus/log", []
    real = contents._hash_file

    def hash_while_written(fd: int, tick) -> str:
        reads.append(fd)
        if len(reads) in changing:
            with open(path, "ab") as file:
                file.write(b"more")
        return real(fd, tick)

    monkeypatch.setattr(contents, "_hash_file", hash_while_written)
    changing = range(1, 2)
    take(root, "corpus")
    check_version(root, 1)
    assert read_version(root)["log"] == LARGE + b"more"
    changing = range(100)
    with pytest.raises(Conflict) as refusal:
        take(root, "corpus", 2)
    assert (refusal.value.code, refusal.value.params) == ("source_changes", {"path": "log"})
    assert not StoreLayout(root).version(KEY, 2).exists()


def test_a_copy_is_hashed_for_what_changed_without_a_trace(root, monkeypatch):
    fill(home(root) / "corpus", {"log": LARGE})
    monkeypatch.setattr(contents.ContentKeeper, "_clone", lambda *_: False)
    real, copies = contents._copy, []

    def copy_torn(source: int, made: int, tick) -> None:
        real(source, made, tick)
        copies.append(made)
        if len(copies) == 1:
            os.pwrite(made, b"torn", 0)

    monkeypatch.setattr(contents, "_copy", copy_torn)
    take(root, "corpus")
    assert len(copies) == 2 and read_version(root) == {"log": LARGE}


def test_too_many_files_and_too_many_bytes_leave_nothing(root, monkeypatch):
    fill(home(root) / "corpus", {str(n): str(n) * 100 for n in range(10)})
    with pytest.raises(Conflict, match="dataset_no_room"):
        take(root, "corpus", most_bytes=400)
    _assert_nothing_left(root)
    monkeypatch.setattr(taking, "MOST_FILES", 9)
    with pytest.raises(Conflict, match="too_many_files"):
        take(root, "corpus")
    _assert_nothing_left(root)
    with pytest.raises(NotFound):
        take(root, "nowhere")


def test_a_content_with_as_many_links_as_it_may_gets_a_successor(root, monkeypatch):
    fill(home(root) / "corpus", {f"{n:03}": "same" for n in range(9)})
    real = os.link

    def link(source, target, **options):
        if os.stat(source, dir_fd=options.get("src_dir_fd")).st_nlink >= 4:
            raise OSError(31, "Too many links")
        real(source, target, **options)

    monkeypatch.setattr(os, "link", link)
    take(root, "corpus", 1)
    take(root, "corpus", 2)
    check_version(root, 1)
    check_version(root, 2)
    layout = StoreLayout(root)
    assert {path.stat().st_nlink for path in layout.version(KEY, 1).iterdir()} <= {2, 3, 4}
    remove_version(layout, KEY, 1)
    remove_version(layout, KEY, 2)
    sweep_store(layout, lambda: ())
    _assert_nothing_left(root)


def test_removing_keeps_what_others_have(root):
    fill(home(root) / "corpus", {"a": "a", "b": "b"})
    take(root, "corpus", 1)
    fill(home(root) / "corpus", {"b": "c"})
    take(root, "corpus", 2)
    layout = StoreLayout(root)
    remove_version(layout, KEY, 1)
    assert sweep_store(layout, lambda: {(KEY, 2)}).objects == 1
    check_version(root, 2)
    assert sorted(list_objects(root).values()) == [2, 2]
    assert sweep_store(layout, lambda: ()).versions == 1
    _assert_nothing_left(root)


def test_two_at_once_share_what_is_equal(root):
    fill(home(root) / "corpus", {str(n): str(n % 7) for n in range(200)})
    threads = [threading.Thread(target=take, args=(root, "corpus", number)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_version(root, 1)
    check_version(root, 2)
    sweep_store(StoreLayout(root), lambda: {(KEY, 1), (KEY, 2)})
    check_version(root, 1)


def test_a_comparison_names_what_is_new_gone_and_other(root):
    fill(home(root) / "corpus", {"a/x": "1", "a.b": "1", "b": "1", "z/deep/er": "1"})
    take(root, "corpus", 1)
    (home(root) / "corpus/b").unlink()
    fill(home(root) / "corpus", {"a/x": "2", "a/new": "1"})
    (home(root) / "corpus/link").symlink_to("a")
    take(root, "corpus", 2)
    layout = StoreLayout(root)
    found = compare_manifests(read_manifest(layout.manifest(KEY, 1)), read_manifest(layout.manifest(KEY, 2)))
    assert [(one.change, one.path) for one in found] == [
        ("removed", "b"),
        ("added", "a/new"),
        ("changed", "a/x"),
        ("added", "link"),
    ]


def _assert_nothing_left(root: Path) -> None:
    layout = StoreLayout(root)
    sweep_store(layout, lambda: ())
    left = [path for path in (layout.versions, layout.objects.parent) for path in path.rglob("*") if path.is_file()]
    assert [path.name for path in left if path.name != ".lock"] == []
