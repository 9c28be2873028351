import os
import shutil
import signal
import subprocess

import pytest

from dev.cluster.paths import ClusterPaths, make_folders
from dev.cluster.processes import find_parts, find_processes, kill, start


@pytest.fixture
def place(tmp_path):
    """A cluster whose only program, called etcd, sleeps."""
    place = ClusterPaths(tmp_path / "state", tmp_path / "cache")
    make_folders(place)
    (place.bin / "etcd").symlink_to(shutil.which("sleep"))
    yield place
    kill(find_processes(place))


def test_what_was_started_is_found_by_its_part(place):
    start(place, "etcd", "600")
    assert list(find_parts(place)) == ["etcd"]


def test_a_part_that_runs_is_not_started_twice(place):
    start(place, "etcd", "600")
    start(place, "etcd", "600")
    assert len(find_processes(place)) == 1


def test_what_a_part_left_behind_is_found_too_but_is_no_part(place):
    (place.bin / "containerd").symlink_to("/bin/sh")
    start(place, "containerd", "-c", "setsid sleep 600 & sleep 600")
    parent = find_parts(place)["containerd"]
    while len(find_processes(place)) < 3:
        pass
    os.kill(parent, signal.SIGKILL)
    kill([parent])
    assert find_parts(place) == {}
    assert len(find_processes(place)) == 2


def test_the_same_program_without_the_mark_is_a_stranger(place):
    with subprocess.Popen([place.bin / "etcd", "600"], start_new_session=True) as stranger:
        assert find_processes(place) == []
        stranger.kill()


def test_killed_is_gone_when_kill_returns(place):
    start(place, "etcd", "600")
    kill(find_processes(place))
    assert find_processes(place) == []
