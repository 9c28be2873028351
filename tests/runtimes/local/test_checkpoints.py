"""Checkpoints of real processes: who is asked for one, and what is seen of their directory."""

import os

import pytest

from runtimes.contract.task import Checkpoint
from runtimes.local import plan
from runtimes.storage.newest_change import find_newest_change
from tests.runtimes.worlds import wait_for

SAVE = "mkdir -p ckpt; echo 1 > ckpt/step; exit 0"


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(plan, "CHECKPOINT_EVERY_S", 0.1)


def test_only_who_listens_is_sent_the_signal(world):
    """The signal would end the sleep, and with it the script, before the other has saved."""
    listener = "bash -c \"trap 'sleep 0.5; echo saved; exit 0' USR1; echo listens; while :; do sleep 0.1; done\" &"
    spec = world.spec(f"{listener} sleep 61; echo cut off", checkpoint=Checkpoint("ckpt", "SIGUSR1", 3))
    world.runtime.start(spec)
    wait_for(lambda: "listens" in world.log(spec.uuid))
    world.runtime.stop(spec.uuid, 5, epoch=5)
    view = world.until(spec.uuid, "exited")
    assert "saved" in world.log(spec.uuid) and "cut off" not in world.log(spec.uuid)
    assert (view.cause, view.signal) == ("stopped", 15)


def test_where_nobody_listens_the_grace_begins_with_sigterm(world):
    run = f"trap 'sleep 2; {SAVE}' TERM; echo listens; while :; do sleep 0.1; done"
    spec = world.spec(run, checkpoint=Checkpoint("ckpt", "SIGUSR1", 20))
    world.runtime.start(spec)
    wait_for(lambda: "listens" in world.log(spec.uuid))
    world.runtime.stop(spec.uuid, 1, epoch=5)
    view = world.until(spec.uuid, "exited")
    assert (view.cause, view.exit_code) == ("stopped", 0) and view.checkpointed_at


def test_a_checkpoint_is_seen_while_the_job_runs(world, often):
    run = "while [ ! -e go ]; do sleep 0.05; done; mkdir -p ~/runs/7; echo 1 > ~/runs/7/step; sleep 60"
    spec = world.spec(run, checkpoint=Checkpoint("~/runs", "", 20))
    world.runtime.start(spec)
    assert world.until(spec.uuid, "running").checkpointed_at is None
    go = world.scratch(spec.uuid) / "work/go"
    go.touch()
    seen = wait_for(lambda: world.view(spec.uuid).checkpointed_at)
    assert go.stat().st_mtime <= seen.timestamp()
    assert world.view(spec.uuid).phase == "running"


def test_the_last_checkpoint_is_seen_although_the_job_is_gone(world):
    view = world.run("mkdir ckpt; sleep 0.1; echo 1 > ckpt/step", checkpoint=Checkpoint("ckpt", "", 5))
    assert view.exit_code == 0 and view.checkpointed_at <= view.ended_at


def test_nothing_is_told_of_a_directory_that_the_job_may_not_read(world):
    if not world.runtime.machine.isolation.separate_uids:
        pytest.skip("here a job may read all that the platform may")
    secret = world.base / "secret"
    secret.mkdir(mode=0o700)
    (secret / "file").touch()
    view = world.run("exit 0", checkpoint=Checkpoint(str(secret), "", 5))
    assert view.exit_code == 0 and view.checkpointed_at is None


def test_the_one_who_looks_is_none_of_the_job(world):
    view = world.run("exit 3", checkpoint=Checkpoint("ckpt", "SIGUSR1", 20))
    assert (view.exit_code, view.cause) == (3, "")
    assert (view.ended_at - view.started_at).total_seconds() < 5


def test_the_newest_of_all_files_below_counts(tmp_path):
    assert find_newest_change(str(tmp_path / "none")) == find_newest_change(str(tmp_path)) == 0.0
    for path, at in (("a/b/step", 300), ("a/old", 200), ("a/b", 100), ("a", 100), (".", 100)):
        place = tmp_path / path
        if path.endswith(("step", "old")):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        os.utime(place, (at, at))
    assert find_newest_change(str(tmp_path)) == 300
    os.symlink("/etc", tmp_path / "a/out")  # what is behind it does not count, that it was made does
    assert find_newest_change(str(tmp_path)) == (tmp_path / "a").stat().st_mtime
