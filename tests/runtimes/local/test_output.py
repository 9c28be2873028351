"""Caps on a job's output: how much is left out is always said, and nothing is left out that fits."""

import os
import re

import pytest

from runtimes.local.shim.output import CappedLog
from runtimes.log_times import UNKNOWN, read_moments
from tests.runtimes.worlds import LocalWorld


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def make_log(tmp_path):
    """make_log(**caps) -> (log, clock, read); read() finishes the log."""
    files = []

    def make(**caps):
        path, clock = tmp_path / f"log{len(files)}", Clock()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        files.append(fd)
        log = CappedLog(fd, clock=clock, **{"rate": 100, "burst": 1000, "total": 10**6, "line": 50, "tail": 100} | caps)

        def read() -> str:
            log.finish()
            return path.read_bytes().decode()

        return log, clock, read

    yield make
    for fd in files:
        os.close(fd)


def test_what_fits_is_kept_as_it_is(make_log):
    log, _, read = make_log()
    log.feed(b"one\ntwo\r50%\r")
    log.feed(b"\x1b[31mred\x1b[0m no newline")
    assert read() == "one\ntwo\r50%\r\x1b[31mred\x1b[0m no newline"


def test_a_long_line_is_cut_and_says_so(make_log):
    log, _, read = make_log()
    for piece in (b"a" * 40, b"b" * 40, b"c" * 40 + b"\nnext\n"):
        log.feed(piece)
    text = read()
    assert text.startswith("a" * 40 + "b" * 10 + "\n[tessera] 70 bytes of this line") and text.endswith("\nnext\n")


def test_a_progress_bar_is_not_one_long_line(make_log):
    log, _, read = make_log()
    for percent in range(20):
        log.feed(b"\r%d%% done" % percent)
    assert "[tessera]" not in read()


def test_what_comes_too_fast_is_left_out_and_counted(make_log):
    log, clock, read = make_log()
    fed = b"0123456789\n" * 200
    log.feed(fed)
    log.feed(b"still too fast\n")
    clock.now += 60
    log.feed(b"rest of a line\nslow again\n")
    text = read()
    lost = int(re.search(r"\[tessera\] (\d+) bytes are not kept here: they came faster", text)[1])
    kept = re.sub(r"\n\[tessera\].*\n", "", text)
    assert len(kept) + lost == len(fed) + len(b"still too fast\nrest of a line\nslow again\n")
    assert kept.endswith("slow again\n") and len(kept) <= 1000 + 11


def test_the_rate_is_sustained(make_log):
    log, clock, read = make_log()
    for _ in range(100):
        clock.now += 0.1
        log.feed(b"123456789\n")
    assert read() == "123456789\n" * 100


def test_of_too_much_the_head_and_the_tail_are_kept(make_log):
    log, _, read = make_log(total=300, burst=10**6)
    lines = [f"line {i:03d}\n" for i in range(100)]
    for line in lines:
        log.feed(line.encode())
    text = read()
    head, marker, tail = re.fullmatch(
        r"(.*?)\n\[tessera\] (\d+) bytes are not kept here[^\n]*\n(.*)", text, re.S
    ).groups()
    whole = "".join(lines)
    assert whole.startswith(head) and whole.endswith(tail) and (len(head), len(tail)) == (200, 100)
    assert len(head) + int(marker) + len(tail) == len(whole)


def test_a_full_disk_costs_lines_and_not_the_job():
    with open("/dev/full", "wb", buffering=0) as full:
        log = CappedLog(full.fileno())
        log.feed(b"hello\n")
        log.finish()
        assert log.unwritten > 0


def test_a_flood_does_not_stop_the_job_and_stays_small():
    world = LocalWorld(log_caps={"rate": 1 << 20, "burst": 1 << 18, "total": 1 << 19, "line": 16384, "tail": 4096})
    spec = world.spec("yes | head -c 3000000; echo last words")
    world.runtime.start(spec)
    view = world.until(spec.uuid, "exited")
    log = world.log(spec.uuid)
    assert view.exit_code == 0 and len(log) < (1 << 19) + 1000 and "bytes are not kept" in log
    assert log.startswith("y\ny\n") and log.endswith("y\nlast words\n")
    world.close()


def test_the_log_can_be_read_while_the_job_runs():
    world = LocalWorld()
    spec = world.spec("echo first; sleep 60")
    world.runtime.start(spec)
    world.until(spec.uuid, "running")
    first, offset = b"", 0
    while not first:
        first, offset = world.runtime.logs.read(spec.uuid, 0)
    assert (first, offset) == (b"first\n", 6)
    world.close()


def test_it_is_noted_when_each_part_came_and_not_made_up_for_what_was_held_back(tmp_path):
    files = [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("x.log", "x.times")]
    clock = Clock()
    log = CappedLog(*files, clock=clock, now=lambda: 1000 + clock.now, total=40, tail=20, line=99)
    log.feed(b"one\n")
    log.feed(b"two\n")
    clock.now += 0.9
    log.feed(b"three\n")
    clock.now += 1
    log.feed(b"four\n")
    log.feed(b"held back, as the log is full\n")
    log.finish()
    for file in files:
        os.close(file)
    assert read_moments(tmp_path / "x.log", 0, 1000) == [(0, 1000), (14, 1001), (20, UNKNOWN)]
