"""`manage.py backup` on a database that is used: what is in it, what is refused, what a full disk leaves."""

import errno
import json
import os
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from config.backup import backup, trees
from config.backup.manifest import read_manifest
from config.backup.sealing import make_key_files, read_private_key, unseal
from runtimes.log_store import LogStore
from runtimes.storage.areas import AreaId, ensure_area
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def places(tmp_path, settings):
    for name in ("logs", "code", "files", "data"):
        setattr(settings, f"TESSERA_{name.upper()}", tmp_path / "platform" / name)
        (tmp_path / "platform" / name).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def running(places, settings):
    """A task that runs, with a log; another one's log is gone."""
    cast = make.cast()
    jobs = [make.job(cast.ada, gpu="1/4") for _ in range(2)]
    tasks = [make.start(job)[0] for job in jobs]
    LogStore(settings.TESSERA_LOGS).append(tasks[0].uuid.hex, 0, b"hello\n")
    home = ensure_area(settings.TESSERA_FILES, AreaId("home", cast.ada.uid), uid=None, gid=None)
    (home / "notes.txt").write_text("hers")
    return cast, tasks


def run(*words) -> str:
    out = StringIO()
    call_command("backup", *map(str, words), stdout=out)
    return out.getvalue()


def test_a_backup_says_what_is_in_it_and_what_is_missing(running, places):
    _, tasks = running
    public = make_key_files(places / "key")
    said = run(places / "backups", "--key", public)
    (folder,) = (places / "backups").glob("tessera-*Z")
    found = read_manifest(folder)
    assert said.splitlines()[-1] == str(folder)
    assert "2 jobs (2 tasks running)" in said and "names 1 files that are not there" in said
    assert found.missing == [f"log of job-{tasks[1].job_id} main.0 ({tasks[1].uuid.hex})"]
    assert sorted(found.running) == sorted(task.uuid.hex for task in tasks) and found.rows["jobs_task"] == 2
    assert {name: part.files for name, part in found.parts.items()} == {
        "database.dump": 0, "logs.tar.gz": 1, "code.tar.gz": 0, "homes.tar.gz": 1, "secrets.sealed": 0,
    }  # fmt: skip
    assert sum(part.bytes for part in found.parts.values()) == sum(
        path.stat().st_size for path in folder.iterdir() if path.name != "manifest.json"
    )


def test_no_secret_lies_in_it_in_plain(running, places, settings):
    settings.SECRET_KEY = "a-very-particular-key-of-this-platform"
    (settings.TESSERA_DATA / "ssh_host_ed25519_key").write_text("PRIVATE-HOST-KEY")
    session = make.session(make.admin())
    run(places / "backups", "--key", make_key_files(places / "key"))
    (folder,) = (places / "backups").glob("tessera-*Z")
    for path in folder.iterdir():
        content = path.read_bytes()
        assert not any(
            word in content for word in (settings.SECRET_KEY.encode(), b"PRIVATE-HOST-KEY", session.encode())
        )
    opened = unseal((folder / "secrets.sealed").read_bytes(), read_private_key(places / "key"))
    assert json.loads(opened) == {"secret_key": settings.SECRET_KEY, "ssh_host_ed25519_key": "PRIVATE-HOST-KEY"}


def test_homes_by_reference_are_listed_and_not_copied(running, places):
    cast, _ = running
    said = run(places / "backups", "--without-secrets", "--homes", "reference")
    (folder,) = (places / "backups").glob("tessera-*Z")
    assert read_manifest(folder).areas == [{"kind": "home", "number": cast.ada.uid, "of": "ada"}]
    assert not (folder / "homes.tar.gz").exists() and not (folder / "secrets.sealed").exists()
    assert "Homes and team folders are not in it: 1 of them" in said and "keys are not in it" in said


def test_a_full_disk_leaves_no_half_backup(running, places, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(trees.HashingWriter, "finish", full)
    with pytest.raises(CommandError, match=r"No space left on device\. Nothing of it is left.\n  Free some space"):
        run(places / "backups", "--without-secrets")
    assert [path.name for path in (places / "backups").iterdir()] == [f"{backup.PARTIAL}.lock"]


def test_a_backup_that_was_killed_is_cleared_away_by_the_next(running, places):
    left = places / "backups" / backup.PARTIAL
    left.mkdir(parents=True)
    (left / "database.dump").write_bytes(b"half")
    run(places / "backups", "--without-secrets")
    assert not left.exists() and len(list((places / "backups").glob("tessera-*Z"))) == 1


def test_it_is_refused_in_words(running, places, settings):
    with pytest.raises(CommandError, match="inside of the files that are backed up"):
        run(settings.TESSERA_FILES / "home", "--without-secrets")
    with pytest.raises(CommandError, match="one of the arguments --key --without-secrets is required"):
        run(places / "backups")
    with pytest.raises(CommandError, match="nokey cannot be read"):
        run(places / "backups", "--key", places / "nokey")
