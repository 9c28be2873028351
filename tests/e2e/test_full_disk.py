"""The platform on a disk that somebody fills, and goes on filling: what runs goes on, and it heals by itself."""

import json
import os
import signal
import subprocess
import time
import urllib.error
from collections import Counter
from contextlib import suppress

import pytest

from bench.stack import Stack, free_port
from config.embedded.disk_reserve import RESERVE_BYTES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")]

HEALED_WITHIN_S = 30
JOB = {"run": "while sleep 1; do date; done", "cpu": "50m", "memory": "64MiB"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A platform on a disk of 400 MB of its own."""
    disk = tmp_path_factory.mktemp("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs", str(disk)], check=True)
    stack = Stack(disk / "data", free_port())
    try:
        stack.start()
        yield stack
    finally:
        (disk / "ballast").unlink(missing_ok=True)
        with suppress(OSError):
            stack.end_jobs()
        stack.stop()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def fill(small):
    """Fill the disk, and go on whenever there is room, as a job that fills its home does."""
    ballast = small.data.parent / "ballast"
    program = f"while :; do cat /dev/zero >> {ballast} 2>/dev/null; sleep 0.05; done"
    filling: list[subprocess.Popen] = []

    def stop():
        for process in filling:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        ballast.unlink(missing_ok=True)

    def start():
        filling.append(subprocess.Popen(["bash", "-c", program], start_new_session=True))
        until(lambda: os.statvfs(small.data).f_bavail == 0 and not (small.data / "reserve").exists())
        return stop

    yield start
    stop()


def until(condition, within_s: float = 30):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def submit(stack: Stack) -> tuple[int, str]:
    """The status, and the job's id or the code of the refusal."""
    try:
        return 201, stack.api("POST", "/jobs", JOB)["id"]
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())["code"]
    except OSError:
        return 0, "nobody answers"


def started(stack: Stack) -> list[str]:
    jobs = [submit(stack)[1] for _ in range(8)]
    for job in jobs:
        stack.wait_for(job, "running")
    return jobs


def test_a_full_disk_refuses_what_is_new_in_words_and_ends_nothing(small, fill):
    jobs, children = started(small), small.children()
    empty = fill()
    answers = Counter(submit(small) for _ in range(30))
    assert answers == {(507, "platform_disk_full"): 30}
    assert small.process.poll() is None and small.children() == children
    assert {small.api("GET", f"/jobs/{job}")["state"] for job in jobs} == {"running"}
    empty()
    until(lambda: submit(small)[0] == 201, HEALED_WITHIN_S)
    until((small.data / "reserve").exists)
    assert (small.data / "reserve").stat().st_size == RESERVE_BYTES
    small.end_jobs()
    assert {small.api("GET", f"/jobs/{job}")["state"] for job in jobs} == {"cancelled"}


def test_processes_killed_on_a_full_disk_come_back_when_there_is_room(small, fill):
    jobs = started(small)
    empty = fill()
    for pid in small.children().values():
        os.kill(pid, signal.SIGKILL)
    time.sleep(5)  # a while without room
    assert small.process.poll() is None
    empty()
    until(lambda: submit(small)[0] == 201, HEALED_WITHIN_S)
    assert {small.api("GET", f"/jobs/{job}")["state"] for job in jobs} == {"running"}


def test_it_starts_on_a_full_disk_from_its_reserve(small):
    until((small.data / "reserve").exists)
    small.stop()
    ballast = small.data.parent / "ballast"
    subprocess.run(["dd", "if=/dev/zero", f"of={ballast}", "bs=1M"], stderr=subprocess.DEVNULL, check=False)
    small.start()
    assert submit(small) == (507, "platform_disk_full")
    ballast.unlink()
    until(lambda: submit(small)[0] == 201)
