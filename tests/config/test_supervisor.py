import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from config.embedded.supervisor import (
    LOG_CAP_BYTES,
    Child,
    Failure,
    Program,
    kill_all,
    say,
    session_members,
    stop_all,
)

SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]


@pytest.fixture
def start(tmp_path):
    """Start a program as a child; whatever is left of it is killed at the end."""
    children = []

    def start(argv):
        log = tmp_path / f"{len(children)}.log"
        child = Child(Program("it", argv, log, is_ready=lambda pid: b"up\n" in log.read_bytes()))
        children.append(child)
        child.start()
        return child

    yield start
    kill_all(children)


def until(condition, within_s=10):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_child_is_started_again(start):
    child = start(SLEEP)
    first = child.pid
    os.kill(first, signal.SIGKILL)
    until(child.restart_if_dead)
    assert child.is_running() and child.pid != first


def test_a_child_without_room_for_its_log_runs(tmp_path):
    child = Child(Program("it", SLEEP, tmp_path / "nowhere" / "it.log"))
    try:
        child.start()
        assert child.is_running()
    finally:
        kill_all([child])


def test_a_child_that_cannot_be_started_again_is_tried_later(start):
    child = start([sys.executable, "-S", "-c", ""])
    until(lambda: not child.is_running())
    child.program.before = lambda: os.stat("/nowhere/at/all")
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        assert not child.restart_if_dead()
    child.program.before = lambda: None
    until(child.restart_if_dead)


def test_what_cannot_be_printed_ends_nothing(monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        say("Started again: web")
        monkeypatch.undo()
        with suppress(OSError):
            full.close()


def test_a_child_that_keeps_dying_is_started_later_and_later(start):
    child = start([sys.executable, "-S", "-c", ""])
    for _ in range(2):
        until(child.restart_if_dead)
    assert child.delay_s == pytest.approx(0.8)


def test_a_child_that_ignores_sigterm_is_killed_in_the_end(start):
    child = start(STUBBORN)
    child.wait_until_ready(10)
    stop_all([child], within_s=0.1)
    assert child.process.returncode == -signal.SIGKILL


def test_a_child_that_ends_at_once_is_reported_with_its_last_words(start):
    child = start([sys.executable, "-S", "-c", "print('the disk is on fire')"])
    with pytest.raises(Failure, match="the disk is on fire"):
        child.wait_until_ready(10)


def test_what_a_dead_child_left_in_its_session_is_killed_and_a_session_of_its_own_is_not(start):
    grandchildren = (
        "import subprocess, sys; wait = [sys.executable, '-S', '-c', 'import time; time.sleep(60)'];"
        "pool = subprocess.Popen(wait); job = subprocess.Popen(wait, start_new_session=True);"
        "print(pool.pid, job.pid, 'up', flush=True); pool.wait()"
    )
    child = start([sys.executable, "-S", "-c", grandchildren])
    child.wait_until_ready(10)
    leader = child.pid
    pool, job = (int(word) for word in child.program.log.read_text().split()[:2])
    try:
        os.kill(leader, signal.SIGKILL)
        until(child.restart_if_dead)
        until(lambda: pool not in session_members(leader))
        assert session_members(job) == [job]
    finally:
        os.kill(job, signal.SIGKILL)


def test_a_child_dies_with_its_supervisor(tmp_path):
    supervisor = (
        "import os, signal, sys; from pathlib import Path; from config.embedded.supervisor import Child, Program;"
        "child = Child(Program('it', ['/bin/sleep', '60'], Path(sys.argv[1]))); child.start();"
        "print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", supervisor, str(tmp_path / "log")], capture_output=True, text=True)
    until(lambda: session_members(int(done.stdout)) == [])


def test_a_log_over_its_cap_is_put_aside_at_the_next_start(start, tmp_path):
    (tmp_path / "0.log").write_bytes(b"x" * (LOG_CAP_BYTES + 1))
    start(SLEEP).wait_until_ready(10)
    assert (tmp_path / "0.old.log").stat().st_size == LOG_CAP_BYTES + 1
    assert (tmp_path / "0.log").read_bytes() == b"up\n"
