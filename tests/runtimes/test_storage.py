"""People's files by the child: nothing outside the place, nothing as root, nothing half done."""

import ctypes
import errno
import io
import json
import os
import socket
import stat
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.errors import Conflict, InvalidInput, NameTaken, NotFound, NotPermitted, PlatformError
from runtimes.storage import file_child, file_store, open_beneath, pack_folder_child
from runtimes.storage.areas import AreaId, ensure_area, get_area_path
from runtimes.storage.file_store import FileStore, check_path, measure_area

UID, TEAM_GID, OTHER_UID = 23_001, 23_900, 23_002
AS_ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not AS_ROOT, reason="gives files to other accounts")


@pytest.fixture
def files(tmp_path):
    return tmp_path / "files"


@pytest.fixture
def home(files):
    return FileStore(files, AreaId("home", UID), uid=UID, gid=TEAM_GID)


@pytest.fixture
def team(files):
    return FileStore(files, AreaId("team", TEAM_GID), uid=UID, gid=TEAM_GID)


@pytest.fixture
def top(home, files):
    """Where the home lies, as its person finds it."""
    home.list_folder()
    return get_area_path(files, home.place)


def put(store, path, data=b"x", *, replace=False):
    folder, _, _name = path.rpartition("/")
    fd = store.open_part(folder, "0" * 32, make=True)
    os.write(fd, data)
    os.close(fd)
    store.finish_part(folder, "0" * 32, path, replace=replace)


def content(store, path):
    fd, entry = store.open_to_read(path)
    with open(fd, "rb") as file:
        data = file.read()
    assert len(data) == entry.size
    return data


def names(store, path=""):
    return [entry.name for entry in store.list_folder(path).entries]


def test_a_file_comes_and_goes(home):
    assert home.list_folder() == file_store.Listing([], False, 0)
    home.make_folder("runs")
    put(home, "runs/a.txt", b"hello")
    assert [(entry.name, entry.kind) for entry in home.list_folder().entries] == [("runs", "folder")]
    assert content(home, "runs/a.txt") == b"hello" and home.stat("runs/a.txt").size == 5
    home.move("runs/a.txt", "b.txt")
    assert names(home) == ["runs", "b.txt"] and names(home, "runs") == []
    home.remove("runs")
    home.remove("b.txt")
    assert names(home) == []


def test_folders_come_first_and_what_programs_keep_last(home):
    for path in ("b.txt", "A.txt", ".bashrc"):
        put(home, path)
    for path in (".cache", "runs"):
        home.make_folder(path)
    assert names(home) == ["runs", "A.txt", "b.txt", ".cache", ".bashrc"]


def test_nothing_is_overwritten_unless_asked(home):
    put(home, "a", b"old")
    with pytest.raises(NameTaken):
        put(home, "a", b"new")
    home.drop_part("", "0" * 32)
    put(home, "a", b"new", replace=True)
    put(home, "b", b"other")
    with pytest.raises(NameTaken):
        home.move("b", "a")
    assert content(home, "a") == b"new"


@pytest.mark.parametrize("knows", [True, False], ids=["as here", "as on NFS"])
def test_a_rename_replaces_nothing_whatever_the_file_system_knows(tmp_path, knows, monkeypatch):
    def refused(*_):
        ctypes.set_errno(errno.EINVAL)
        return -1

    if not knows:
        monkeypatch.setattr(
            open_beneath, "_libc", SimpleNamespace(renameat2=refused, syscall=open_beneath._libc.syscall)
        )
    for name in ("d", "taken", "d/in"):
        (tmp_path / name).mkdir()
    (tmp_path / "f").write_text("f")
    (tmp_path / "link").symlink_to("f")
    root = os.open(tmp_path, os.O_RDONLY)
    for old, to in (("f", "g"), ("link", "l"), ("d", "e")):
        file_child.move_entry(root, old, to, replace=False)
        with pytest.raises(FileExistsError):
            file_child.move_entry(root, to, "taken", replace=False)
    with pytest.raises(OSError) as refused_too:
        file_child.move_entry(root, "e", "e/in/e", replace=False)
    os.close(root)
    assert refused_too.value.errno == errno.EINVAL
    assert sorted(os.listdir(tmp_path)) == ["e", "g", "l", "taken"] and (tmp_path / "l").readlink().name == "f"


def test_what_is_being_sent_is_in_no_listing(home):
    os.close(home.open_part("", "1" * 32, make=True))
    assert names(home) == []


@pytest.mark.parametrize(
    "path", ["..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", ".", "a/./b", "a\0b", "\udc80"]
)
def test_a_path_that_is_none_is_told_so(path):
    with pytest.raises(InvalidInput):
        check_path(path)


@pytest.mark.parametrize("path", ["n" * 256, "é" * 128, "/".join(["d" * 200] * 30)])
def test_a_path_too_long_is_told_so(path):
    with pytest.raises(InvalidInput):
        check_path(path)


@pytest.mark.parametrize("path", ["..;", "%2e%2e", "..%2f", "a\\..\\b", "a\nb", "\u202etxt.exe", "…", " ", "-rf"])
def test_odd_names_are_only_names(home, path):
    put(home, path, b"odd")
    assert content(home, path) == b"odd" and names(home) == [path]


@pytest.mark.parametrize("path", ["..", "../../secret", "/etc/passwd", "up/secret", "passwd", "magic", "up/../secret"])
@pytest.mark.parametrize("kernel", [True, False])
def test_the_child_reaches_nothing_outside_whatever_path_it_gets(files, top, path, kernel, monkeypatch):
    """check_path is left out: by openat2 and by the walk the result is the same."""
    (files / "secret").write_text("not yours")
    (top / "up").symlink_to("../..")
    (top / "passwd").symlink_to("/etc/passwd")
    (top / "magic").symlink_to("/proc/self/root/etc/passwd")
    monkeypatch.setattr(open_beneath, "_known", [kernel])
    root = os.open(top, os.O_RDONLY)
    for do in (file_child.read_entry, file_child.open_to_read, file_child.list_folder):
        with pytest.raises(OSError) as refused:
            do(root, path)
        assert refused.value.errno in {errno.EXDEV, errno.ELOOP, errno.ENOTDIR}
    with pytest.raises(OSError):
        file_child.remove_entry(root, "up/secret")
    assert (files / "secret").exists()
    os.close(root)


def test_a_link_that_leads_out_is_refused_in_words(home, top):
    (top / "out").symlink_to("/etc")
    for act in (home.list_folder, home.stat, home.open_to_read):
        with pytest.raises(NotPermitted) as refused:
            act("out")
        assert refused.value.code == "leads_outside"
    with pytest.raises(NotPermitted):
        home.make_folder("out/tessera-was-here")
    with pytest.raises(NotPermitted):
        home.open_part("out", "2" * 32, make=True)
    assert [(e.name, e.kind, e.size) for e in home.list_folder().entries] == [("out", "link", 0)]


def test_a_link_that_stays_inside_is_followed_and_removed_alone(home, top):
    home.make_folder("data")
    put(home, "data/a", b"inside")
    (top / "latest").symlink_to("data")
    assert content(home, "latest/a") == b"inside"
    home.remove("latest")
    assert names(home) == ["data"] and content(home, "data/a") == b"inside"


def test_removing_a_folder_does_not_follow_what_lies_in_it(home, top, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    (outside / "kept").write_text("kept")
    home.make_folder("bin")
    (top / "bin" / "link").symlink_to(outside)
    home.remove("bin")
    assert (outside / "kept").exists() and names(home) == []


def test_the_place_itself_is_never_removed_or_moved(home):
    for act in (lambda: home.remove(""), lambda: home.move("", "x"), lambda: home.make_folder("")):
        with pytest.raises(PlatformError):
            act()


def test_a_pipe_is_no_file_and_keeps_nobody_waiting(home, top):
    os.mkfifo(top / "pipe")
    os.chmod(top / "pipe", 0o666)
    with pytest.raises(Conflict) as refused:
        home.open_to_read("pipe")
    assert refused.value.code == "not_a_file"
    home.make_folder("folder")
    with pytest.raises(Conflict):
        home.open_to_read("folder")


def test_a_part_is_never_opened_through_a_link(home, top, tmp_path):
    (tmp_path / "target").write_text("")
    (top / f"{file_child.PART}{'3' * 32}").symlink_to(tmp_path / "target")
    with pytest.raises(PlatformError):
        home.open_part("", "3" * 32, make=False)
    with pytest.raises(PlatformError):
        home.open_part("", "3" * 32, make=True)


def test_a_child_that_hands_over_something_else_is_not_believed(home, monkeypatch):
    ours, theirs = os.pipe()
    entry = {"name": "a", "kind": "file", "size": 1, "changed_ns": 0}
    monkeypatch.setattr(file_store, "_exchange", lambda request: ({"entry": entry}, [ours]))
    with pytest.raises(Conflict):
        home.open_to_read("a")
    os.close(theirs)


def test_a_folder_goes_into_itself_never(home):
    home.make_folder("a")
    with pytest.raises(Conflict) as refused:
        home.move("a", "a/b")
    assert refused.value.code == "cannot_move_there"


def test_a_listing_is_cut_and_says_so(home, top, monkeypatch):
    for number in range(5):
        (top / f"f{number}").touch()
    os.mknod(os.fsencode(top) + b"/\xff")
    assert home.list_folder().unreadable == 1 and len(names(home)) == 5
    monkeypatch.setattr(file_child, "LIST_MOST", 3)
    root = os.open(top, os.O_RDONLY)
    answer, _ = file_child.list_folder(root, "")
    os.close(root)
    assert answer["cut"] and len(answer["entries"]) == 3


def test_removing_too_much_stops_and_says_so(home, top, monkeypatch):
    home.make_folder("many")
    for number in range(5):
        (top / "many" / str(number)).touch()
    monkeypatch.setattr(file_child, "REMOVE_MOST", 3)
    root = os.open(top, os.O_RDONLY)
    assert file_child.remove_entry(root, "many")[0]["left"]
    assert len(names(home, "many")) == 2
    assert not file_child.remove_entry(root, "many")[0]["left"]
    os.close(root)


def test_usage_counts_blocks_once_and_holes_never(home, team, files, top):
    put(home, "a", os.urandom(100_000))
    os.link(top / "a", top / "second-name")
    with open(top / "sparse", "wb") as file:
        file.truncate(100 * 2**30)
    (top / "out").symlink_to("/usr")
    usage = measure_area(files, home.place)
    assert 100_000 <= usage.bytes < 200_000 and usage.files == 4 and usage.whole
    assert not measure_area(files, home.place, most=2).whole
    assert measure_area(files, AreaId("home", 29_999)) == file_store.Usage(0, 0, True)
    assert not get_area_path(files, AreaId("home", 29_999)).exists()


def test_what_removing_frees_is_what_measuring_counted(home, files, top):
    home.make_folder("runs")
    put(home, "runs/a", os.urandom(100_000))
    put(home, "kept", os.urandom(50_000))
    os.link(top / "kept", top / "runs" / "second-name")
    before = measure_area(files, home.place).bytes
    freed = home.remove("runs")
    assert freed >= 100_000 and measure_area(files, home.place).bytes == before - freed
    assert home.remove("kept") >= 50_000 and measure_area(files, home.place).bytes == 0


def test_what_an_upload_left_goes_once_it_is_old_and_nothing_else(home, files, top):
    home.make_folder("d")
    old, fresh, plain = (
        top / "d" / f"{file_child.PART}{'5' * 32}",
        top / f"{file_child.PART}{'6' * 32}",
        top / "plain",
    )
    for path in (old, fresh, plain):
        path.touch()
    (top / f"{file_child.PART}folder").mkdir()
    for path in (old, plain, top / f"{file_child.PART}folder"):
        os.utime(path, (1000, 1000))
    assert measure_area(files, home.place).files == 5 and old.exists()
    assert measure_area(files, home.place, parts_before=2000).files == 4
    assert not old.exists() and fresh.exists() and plain.exists() and (top / f"{file_child.PART}folder").exists()


@root_only
def test_a_closed_folder_counts_too(home, files, top):
    home.make_folder("closed")
    put(home, "closed/a", os.urandom(50_000))
    os.chmod(top / "closed", 0)
    with pytest.raises(NotPermitted) as refused:
        home.list_folder("closed")
    assert refused.value.code == "files_closed"
    assert measure_area(files, home.place).bytes >= 50_000


@root_only
def test_what_is_made_belongs_to_the_person(home, team, files):
    home.make_folder("d")
    put(home, "d/f")
    team.make_folder("d")
    put(team, "d/f")
    mine, ours = get_area_path(files, home.place), get_area_path(files, team.place)
    assert _owner(mine) == (UID, TEAM_GID, 0o700) and _owner(ours) == (0, TEAM_GID, 0o2770)
    assert _owner(mine / "d") == (UID, TEAM_GID, 0o755) and _owner(mine / "d/f") == (UID, TEAM_GID, 0o644)
    assert _owner(ours / "d") == (UID, TEAM_GID, 0o2770) and _owner(ours / "d/f") == (UID, TEAM_GID, 0o660)


def packed(store, path, name="top"):
    """{name: content, or where a link leads, or "/" for a folder} of an archive, and the archive."""
    archive = store.open_archive(path, name)
    data = b"".join(iter(lambda: archive.read(10_000), b""))
    archive.close()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {one.name: tar.extractfile(one).read() if one.isfile() else "/" for one in tar}
        return found | {one.name: one.linkname for one in tar if one.issym()}


def test_an_archive_holds_files_folders_and_links_and_follows_none(home, top):
    home.make_folder("d")
    home.make_folder("d/empty")
    put(home, "d/run.sh", b"#!/bin/sh")
    (top / "d/run.sh").chmod(0o755)
    (top / "d/out").symlink_to("/etc")
    os.mkfifo(top / "d/pipe")
    put(home, "d/ü", b"x")
    found = packed(home, "d")
    left_out = found.pop(f"top/{pack_folder_child.LEFT_OUT}")
    assert json.loads(left_out) == ["top/pipe"]
    assert found == {"top": "/", "top/empty": "/", "top/run.sh": b"#!/bin/sh", "top/out": "/etc", "top/ü": b"x"}


@root_only
def test_an_archive_leaves_out_what_the_person_may_not_read_and_says_so(home, top):
    put(home, "open", b"x")
    (top / "roots").write_text("secret")
    (top / "closed").mkdir(mode=0o700)
    for path in (top / "roots", top / "closed"):
        os.chmod(path, 0o600)
    found = packed(home, "")
    assert sorted(json.loads(found.pop(f"top/{pack_folder_child.LEFT_OUT}"))) == ["top/closed", "top/roots"]
    assert found == {"top": "/", "top/open": b"x"}


def test_what_shrinks_while_it_is_packed_is_filled_up_and_the_rest_is_whole(tmp_path, monkeypatch):
    (tmp_path / "shrinks").write_bytes(b"x" * 5000)
    (tmp_path / "stays").write_bytes(b"stays")
    read, out = os.read, os.open(tmp_path / "out.tar", os.O_WRONLY | os.O_CREAT)

    def reads(fd, count):
        if os.fstat(fd).st_size == 5000:
            os.truncate(tmp_path / "shrinks", 10)
        return read(fd, count)

    monkeypatch.setattr(os, "read", reads)
    folder = os.open(tmp_path, os.O_RDONLY)
    pack_folder_child.pack_folder(folder, "top", out)
    os.close(folder)
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert tar.extractfile("top/shrinks").read() == b"x" * 10 + bytes(4990)
        assert tar.extractfile("top/stays").read() == b"stays"


def test_an_archive_that_nobody_takes_or_that_breaks_off_leaves_no_child(home, top):
    (top / "large").write_bytes(bytes(4 << 20))
    before = open_files_and_children()
    given_up = home.open_archive("", "top")
    assert given_up.read(1000)
    given_up.close()
    given_up.close()
    broken = home.open_archive("", "top")
    broken._child.kill()
    with pytest.raises(OSError, match="broke off"):
        while broken.read(1 << 20):
            pass
    broken.close()
    with pytest.raises(NotFound):
        home.open_archive("none", "top")
    assert open_files_and_children() == before


@root_only
def test_two_members_change_each_others_files(team, files):
    bob = FileStore(files, team.place, uid=OTHER_UID, gid=TEAM_GID)
    team.make_folder("d")
    put(team, "d/f", b"ada")
    put(bob, "d/f", b"bob", replace=True)
    put(bob, "d/g", b"bob")
    team.move("d/g", "d/h")
    bob.remove("d")
    assert names(team) == []


def test_a_place_that_was_left_half_made_is_made_whole(files):
    place = AreaId("team", TEAM_GID)
    half = get_area_path(files, place).with_name(f".new-{TEAM_GID}")
    half.mkdir(parents=True)
    owner = (UID, TEAM_GID) if AS_ROOT else (None, None)
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: ensure_area(files, place, uid=owner[0], gid=owner[1]).stat().st_ino, range(16)))
    path = get_area_path(files, place)
    assert made == {path.stat().st_ino} and path.stat().st_mode & 0o7777 == 0o2770 and not half.exists()


@root_only
def test_another_person_is_refused_by_the_kernel(home, files):
    put(home, "mine")
    eve = FileStore(files, AreaId("home", UID), uid=OTHER_UID, gid=OTHER_UID)
    for act in (lambda: eve.list_folder(), lambda: eve.open_to_read("mine"), lambda: eve.remove("mine")):
        with pytest.raises(NotPermitted):
            act()
    assert content(home, "mine") == b"x"


@root_only
def test_the_child_has_no_rights_left_when_it_looks(home, top):
    """A file of root's that lies in the home, whoever put it there, stays closed."""
    (top / "roots").write_text("secret")
    (top / "roots").chmod(0o600)
    with pytest.raises(NotPermitted):
        home.open_to_read("roots")


@root_only
def test_a_second_name_for_a_file_of_others_opens_nothing(home, files, top):
    """A hard link carries its owner's rights along: whoever made it, the kernel asks those of the file."""
    secret = files / "secret"
    secret.write_text("not yours")
    secret.chmod(0o600)
    os.link(secret, top / "mine")
    for act in (lambda: home.open_to_read("mine"), lambda: put(home, "mine/x")):
        with pytest.raises(PlatformError):
            act()
    home.remove("mine")
    assert secret.read_text() == "not yours"


@pytest.mark.parametrize("kind", ["device", "socket"])
def test_what_is_neither_file_nor_folder_is_never_opened(home, top, kind):
    if kind == "device":
        try:
            os.mknod(top / "odd", 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # /dev/null
        except PermissionError:
            pytest.skip("only root makes devices")
        os.chmod(top / "odd", 0o666)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(top / "odd"))
    with pytest.raises(Conflict) as refused:
        home.open_to_read("odd")
    assert refused.value.code == "not_a_file" and home.list_folder().entries[0].kind == "other"
    os.rename(top / "odd", top / f"{file_child.PART}{'4' * 32}")
    with pytest.raises(PlatformError):
        home.open_part("", "4" * 32, make=False)


def test_many_operations_leave_no_descriptor_and_no_child(home):
    put(home, "a")
    before = open_files_and_children()
    for _ in range(5):
        content(home, "a")
        with pytest.raises(NotFound):
            home.open_to_read("b")
    assert open_files_and_children() == before


def test_a_child_that_never_answers_is_given_up(home, monkeypatch):
    monkeypatch.setattr(file_store, "ANSWER_WITHIN_S", 0.2)
    monkeypatch.setattr(file_store, "CODE", "import time; time.sleep(60)")
    with pytest.raises(PlatformError) as refused:
        home.list_folder()
    assert refused.value.code == "unavailable"


def open_files_and_children():
    """Of this process, which other tests may have given some."""
    children = " ".join(each.read_text() for each in Path("/proc/self/task").glob("*/children"))
    return sorted(os.listdir("/proc/self/fd")), sorted(children.split())


def _owner(path):
    facts = path.stat()
    return facts.st_uid, facts.st_gid, facts.st_mode & 0o7777
