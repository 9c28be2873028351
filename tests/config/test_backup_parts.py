"""Parts of a backup: its key, its manifest, and archives of trees that people write into."""

import base64
import os
import stat
import tarfile
import threading

import pytest

from config.backup import sealing
from config.backup.database import skip_number
from config.backup.manifest import Manifest, Part, Unusable, check_parts, check_version, read_manifest, write_manifest
from config.backup.trees import FRESH, is_empty, pack_tree, unpacking

PART = Part("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", 5)


def manifest(**fields) -> Manifest:
    usual = {"version": "1.2.0", "made_at": "2026-11-26T12:00:00+00:00", "homes": "copy", "rows": {}, "running": []}
    return Manifest(**{**usual, "migrations": {"jobs": ["0001_schema"]}, "files_root": "/f", "install": "", **fields})


@pytest.fixture
def keys(tmp_path):
    return tmp_path / "key", sealing.make_key_files(tmp_path / "key")


def test_what_the_public_key_seals_only_the_private_one_opens(keys):
    private, public = keys
    sealed = sealing.seal(b"the platform's key", sealing.read_public_key(public))
    assert b"platform" not in sealed
    assert sealing.unseal(sealed, sealing.read_private_key(private)) == b"the platform's key"
    assert sealing.seal(b"x", sealing.read_public_key(private)) != sealing.seal(b"x", sealing.read_public_key(private))
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}


def test_a_wrong_or_broken_key_is_told_in_words(keys, tmp_path):
    private, public = keys
    sealed = sealing.seal(b"x", sealing.read_public_key(public))
    sealing.make_key_files(tmp_path / "other")
    with pytest.raises(sealing.BadKey, match="sealed for another key"):
        sealing.unseal(sealed, sealing.read_private_key(tmp_path / "other"))
    with pytest.raises(sealing.BadKey, match="sealed for another key"):
        sealing.unseal(sealed[:20], sealing.read_private_key(private))
    with pytest.raises(sealing.BadKey, match="only seals"):
        sealing.read_private_key(public)
    public.write_text("hello")
    for path in (public, tmp_path / "nowhere"):
        with pytest.raises(sealing.BadKey, match=str(path)):
            sealing.read_public_key(path)


def test_a_key_is_never_replaced(keys):
    with pytest.raises(FileExistsError):
        sealing.make_key_files(keys[0])


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    (tmp_path / "database.dump").write_bytes(b"hello")
    write_manifest(tmp_path, manifest(parts={"database.dump": PART}))
    found = read_manifest(tmp_path)
    assert found == manifest(parts={"database.dump": PART})
    check_parts(tmp_path, found)


def test_damage_is_found_and_named(tmp_path):
    (tmp_path / "database.dump").write_bytes(b"hellp")
    write_manifest(tmp_path, manifest(parts={"database.dump": PART}))
    with pytest.raises(Unusable, match=r"damaged: database.dump is not what was written"):
        check_parts(tmp_path, read_manifest(tmp_path))
    (tmp_path / "database.dump").unlink()
    with pytest.raises(Unusable, match=r"database\.dump: No such file"):
        check_parts(tmp_path, read_manifest(tmp_path))
    text = (tmp_path / "manifest.json").read_text()
    for wrong in (text.replace("1.2.0", "1.3.0"), text[:90], "[]"):
        (tmp_path / "manifest.json").write_text(wrong)
        with pytest.raises(Unusable, match=r"damaged: its manifest.json"):
            read_manifest(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(Unusable, match="is no backup"):
        read_manifest(tmp_path)


def test_a_newer_backup_is_refused_with_the_version_that_it_needs(tmp_path):
    check_version(manifest(), {"jobs": {"0001_schema", "0002_more"}})
    for known in ({"jobs": {"0000"}}, {}):
        with pytest.raises(Unusable, match=r"newer Tessera \(1.2.0\).*jobs.0001_schema\.\n  Install Tessera 1.2.0"):
            check_version(manifest(), known)
    write_manifest(tmp_path, manifest(format=99))
    with pytest.raises(Unusable, match=r"Restore it with Tessera 1\.2\.0"):
        read_manifest(tmp_path)


def test_a_tree_comes_back_with_rights_times_links_and_attributes(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "home/20001").mkdir(parents=True)
    (source / "home/20001/a file").write_bytes(b"x" * 70_000)
    os.link(source / "home/20001/a file", source / "home/20001/same")
    (source / "home/20001/out").symlink_to("/etc/passwd")
    (source / "home/20001/folder").symlink_to("/etc")
    os.mkfifo(source / "home/20001/pipe")
    (source / "home/20001/a file").chmod(0o640)
    (source / "home/20001").chmod(0o2750)
    os.utime(source / "home/20001/a file", (1_700_000_000, 1_700_000_000))
    try:
        os.setxattr(source / "home/20001/a file", "user.note", b"\xff\x00kept")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    part = pack_tree(source, tmp_path / "tree.tar.gz")
    assert part.files == 2  # the file, under two names
    with unpacking(tmp_path / "tree.tar.gz", target):
        assert is_empty(target / "home")  # nothing is in place before all else is done
    home = target / "home/20001"
    found = home / "a file"
    assert found.read_bytes() == b"x" * 70_000 and found.samefile(home / "same")
    assert (home / "out").readlink().as_posix() == "/etc/passwd" and (home / "folder").is_symlink()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, found)] == [0o2750, 0o640]
    assert found.stat().st_mtime == 1_700_000_000 and os.getxattr(found, "user.note") == b"\xff\x00kept"
    assert not (home / "pipe").exists() and not (target / FRESH).exists()


def test_a_log_that_grows_and_shrinks_while_it_is_read_breaks_no_archive(tmp_path):
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs/a.log"
    log.write_bytes(b"a" * 3_000_000)
    ended = threading.Event()

    def write():
        while not ended.is_set():
            with open(log, "r+b") as file:
                file.truncate(10)
                file.write(b"b" * 3_000_000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            pack_tree(tmp_path / "logs", tmp_path / f"{number}.tar.gz")
            with unpacking(tmp_path / f"{number}.tar.gz", tmp_path / f"back{number}"):
                pass
    finally:
        ended.set()
        writer.join()


@pytest.mark.parametrize("name", ["../out", "/etc/out", "link/out"])
def test_an_archive_never_writes_outside_of_its_folder(name, tmp_path):
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(Unusable, match="cannot be unpacked"), unpacking(tmp_path / "bad.tar.gz", tmp_path / "target"):
        pass
    assert not (tmp_path / "out").exists() and is_empty(tmp_path / "target")


def test_a_cut_archive_leaves_nothing(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/a.log").write_bytes(base64.b64encode(os.urandom(300_000)))
    pack_tree(tmp_path / "logs", tmp_path / "a.tar.gz")
    whole = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Unusable, match="cannot be unpacked"), unpacking(tmp_path / "a.tar.gz", tmp_path / "target"):
        pass
    assert is_empty(tmp_path / "target")


def test_new_numbers_lie_beyond_what_may_have_been_given_since():
    day = 86_400
    assert skip_number(12, 60, 100 * day) == 2000
    assert skip_number(900_000, day, 100 * day) == 936_000  # 9,000 a day so far, four times as many at most
    assert skip_number(12, -day, 0) == 2000  # a clock that was set back
