"""The processes that the tasks start: a version is made, also after one was killed, and old files are swept."""

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import connections
from django.utils import timezone

from datasets import making, tasks
from datasets.models import DatasetVersion, VersionState
from datasets.services import add_version, delete_version, find_store
from runtimes.dataset_store.layout import StoreLayout
from tests import make
from tests.runtimes.dataset_store.trees import check_version

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def cast(settings, tmp_path, monkeypatch):
    settings.TESSERA_FILES = tmp_path / "files"
    for name, value in {
        "PGDATABASE": connections["default"].settings_dict["NAME"],
        "TESSERA_FILES": tmp_path / "files",
        "TESSERA_SECRET_KEY": django_settings.SECRET_KEY,
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }.items():
        monkeypatch.setenv(name, str(value))
    yield make.cast()
    wait_until(lambda: making.reap_processes() or not making._started)


def add(cast) -> DatasetVersion:
    return add_version(actor=cast.ada, team=cast.nlp, name="corpus", place="home", path="corpus")


def wait_until(done) -> None:
    until = time.monotonic() + 60
    while not done():
        assert time.monotonic() < until
        time.sleep(0.1)


def is_ready(version: DatasetVersion) -> bool:
    version.refresh_from_db()
    return version.state == VersionState.READY


def find_makers(version: DatasetVersion) -> list[int]:
    """Return the processes that make this version."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"make_dataset_version" in words and version.lease_holder.encode() in words:
            found.append(int(folder.name))
    return found


def test_a_task_starts_a_process_that_makes_it_and_another_sweeps_it(cast):
    make.files(cast.ada, {"a": "1", "deep/b": "2"})
    version = add(cast)
    tasks.start_versions()
    wait_until(lambda: is_ready(version))
    check_version(find_store().root, 1, version.dataset.key)
    delete_version(actor=cast.ada, version=version)
    DatasetVersion.objects.update(deleted_at=timezone.now() - timedelta(days=8))
    tasks.sweep()
    objects = StoreLayout(find_store().root).objects
    wait_until(lambda: not [path for path in objects.rglob("*") if path.is_file()])
    assert not find_store().version(version.dataset.key, 1).exists()


def test_killed_in_the_middle_it_is_made_by_the_next_process(cast):
    make.files(cast.ada, {str(number): str(number) * 1000 for number in range(3000)})
    version = add(cast)
    tasks.start_versions()
    version.refresh_from_db()
    taking = find_store().taking
    wait_until(lambda: taking.is_dir() and any(path.is_dir() for path in taking.iterdir()))
    for pid in find_makers(version):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not find_makers(version))
    version.refresh_from_db()
    assert version.state == VersionState.TAKING
    tasks.start_versions()
    assert find_makers(version) == []  # the lease is not over yet
    DatasetVersion.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    tasks.start_versions()
    wait_until(lambda: is_ready(version))
    assert (version.files, version.tries) == (3000, 2)
    check_version(find_store().root, 1, version.dataset.key)
    making.sweep_versions()
    assert [path for path in taking.iterdir() if path.is_dir()] == []
