"""Windows, line numbers and searches of a log."""

import time
import tracemalloc

import pytest

from runtimes import log_reading
from runtimes.log_errors import find_errors
from runtimes.log_reading import LogReader, find_text, leading_rest, open_tail
from runtimes.log_store import LogStore

TASK = "0123456789abcdef" * 2


@pytest.fixture
def write(tmp_path):
    """write(bytes) → a reader of a log that has them."""

    def reader(data: bytes) -> LogReader:
        store = LogStore(tmp_path)
        store.append(TASK, store.size(TASK), data)
        return LogReader(store, TASK)

    return reader


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of two lines, so that everything crosses them."""
    monkeypatch.setattr(log_reading, "BLOCK", 16)
    log_reading._count_full_block.cache_clear()
    yield
    log_reading._count_full_block.cache_clear()


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % (n + 1) for n in range(count))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("text", [numbered(50), numbered(50) + b"open", b"\n" * 33, b"", b"x" * 40, b"a\n" + b"x" * 40])
def test_line_numbers_and_offsets_agree_with_a_plain_split(write, text):
    log = write(text)
    begins = [0, *(n + 1 for n, byte in enumerate(text) if byte == 10)]
    for number, begin in enumerate(begins, 1):
        assert log.find_line(number) == begin
        assert log.count_line(begin) == number
    assert log.count_line(10**9) == len(begins)


@pytest.mark.usefixtures("small_blocks")
def test_beyond_the_last_line_is_the_last_line(write):
    assert write(numbered(9)).read_around(10**12).data.endswith(b"line 9\n")
    assert write(b"open").read_from(10**12).data == b""


@pytest.mark.usefixtures("small_blocks")
def test_the_windows_of_a_log_join_to_the_log_forwards_and_backwards(write):
    log, forwards, backwards, at = write(numbered(99)), b"", b"", 0
    while at < log.size:
        window = log.read_from(at, 100)
        assert window.data.startswith(b"line %d\n" % window.line) and window.data.endswith(b"\n")
        forwards, at = forwards + window.data, window.end
    while at > 0:
        window = log.read_before(at, 100)
        assert window.data.startswith(b"line %d\n" % window.line) and window.end == at
        backwards, at = window.data + backwards, window.start
    assert forwards == backwards == numbered(99)


def test_a_window_ends_in_no_character_though_its_line_is_longer(write):
    log, read, at = write("第".encode() * 100), b"", 0
    while at < log.size:
        window = log.read_from(at, 10)
        assert window.data.decode() and window.line == 1
        read, at = read + window.data, window.end
    assert len(read) == 300
    assert log.read_before(300, 10).data.decode() == "第第第"


def test_an_offset_is_aligned_to_the_next_line_or_else_character(write):
    log = write(b"one\ntwo\n" + "第".encode() * 50_000)
    assert [log.align(at) for at in (-5, 0, 1, 3, 4, 5, 8, 9, 10, 10**9)] == [0, 0, 4, 4, 4, 8, 8, 11, 11, log.size]


def test_around_a_line_stand_those_before_and_after_it(write):
    window = write(numbered(50_000)).read_around(25_000)
    lines = window.data.splitlines()
    assert lines[25_000 - window.line] == b"line 25000" and 1 < window.line < 25_000 < window.line + len(lines) - 1


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("word", ["LINE 7", "line", "7", "nothing", "e 1"])
def test_a_search_in_turns_finds_what_a_plain_one_finds(write, word, monkeypatch):
    monkeypatch.setattr(log_reading, "SEARCH_BYTES", 48)
    log, lines, offset, turns = write(numbered(99)), [], 0, 0
    while True:
        found = log.search(find_text(word), offset)
        lines, offset, turns = lines + found.lines, found.start, turns + 1
        assert [log.count_line(place) for place in found.offsets] == found.lines
        if found.searched == found.size:
            break
    plain = numbered(99).decode().splitlines()
    assert lines == [n for n, line in enumerate(plain, 1) if word.lower() in line]
    assert turns > 10


def test_a_last_line_that_grows_is_searched_again(write):
    found = write(b"one\ntw").search(find_text("two"), 0)
    assert (found.lines, found.searched, found.size) == ([], 6, 6)
    assert write(b"o\n").search(find_text("two"), found.start).lines == [2]


def test_a_search_reads_through_colours_and_names_the_right_lines(write):
    log = write(b"\x1b[1mone\x1b[0m\n\n\x1b[32mlo\x1b[0mss: 1\nloss: 2\n")
    found = log.search(find_text("loss"), 0)
    assert (found.lines, found.offsets) == ([3, 4], [13, 30])


def test_a_turn_of_a_search_ends_in_time_and_goes_on(write):
    log = write(b"x\n" * (3 << 20))
    found = log.search(find_text("nothing"), 0, deadline_s=0)
    assert found.searched == found.start == log_reading.BLOCK < found.size
    assert found.line == log.count_line(found.start)


@pytest.mark.parametrize("character", ["é", "第", "🧩"])
def test_a_character_is_never_cut(character):
    data = character.encode()
    for n in range(1, len(data)):
        assert open_tail(b"a" + data[:n]) == n
        assert leading_rest(data[n:] + b"a") == len(data) - n
    assert open_tail(data) == open_tail(b"") == open_tail(b"\xff") == 0


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):", "RuntimeError: shape mismatch",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "[rank0]: RuntimeError: CUDA out of memory. Tried to allocate 2 GiB", "2026-01-01 ERROR trainer: no data",
        "KeyError", "[rank1]:[E] Watchdog caught collective operation timeout",
        "node1:12:40 [0] NCCL WARN Call to connect failed",
        "torch.distributed.DistBackendError: NCCL error in: x.cpp", "Killed",
        "run.sh: line 3:    71 Killed                  python train.py", "Segmentation fault (core dumped)",
        "main.c:3:1: error: expected ';'", "bash: trian.py: command not found",
        "OSError: [Errno 28] No space left on device", "exited with code 137", "Exit status 1",
        "slurmstepd: Exceeded, oom-kill: OOM Killed", "panic: runtime error: index out of range",
        "java.lang.NullPointerException: x", "Bus error", "[ERROR] failed", "process exit code: 2",
        "RuntimeError: CUDA error: device-side assert triggered",
    ],
)  # fmt: skip
def test_what_is_an_error(line):
    assert find_errors(f"fine\n{line}\nfine".encode()) == [(1, 5)]
    assert find_errors(f"fine\n\x1b[31m{line}\x1b[0m\nfine".encode()) == [(1, 5)]


@pytest.mark.parametrize(
    "line",
    [
        "0 errors, 0 warnings", "epoch 3 error: 0.031", "mean squared error 0.2", "val_error=0.1", "exit code 0",
        "exited with code 0", "NCCL INFO Using network IB", "NCCL version 2.21.5", "TestErrorHandling passed",
        "--on-error continue", "no errors found", "KillerWhale loaded", "logging level: ERROR_ONLY",
        "out of memory budget: 3 of 8 GiB", "press q to exit", "Error rate 0.02",
    ],
)  # fmt: skip
def test_what_is_none(line):
    assert find_errors(f"{line}\n".encode()) == []


@pytest.mark.parametrize(
    "line",
    [
        "A." * 50_000 + "Error x", "A" * 100_000 + "Errorx", "AError" * 16_000, "a." * 50_000 + "Exceptionx",
        "NCCL " * 20_000 + "timeou", "out of memory " + "CUDX " * 20_000, "signal " * 14_000 + "SIGX",
        "exit " + "1" * 100_000 + "x", "error: " + " " * 100_000 + "1", "Killed" + " " * 100_000 + "x",
    ],
    ids=range(10),
)  # fmt: skip
def test_a_line_made_to_hold_the_search_up_does_not(line):
    begun = time.process_time()
    find_errors(line.encode())
    assert time.process_time() - begun < 1


def test_the_first_error_is_the_first_line_whatever_sign_it_has():
    assert find_errors(b"a\nKilled\nTraceback (most recent call last):\nKeyError: 1\n") == [(1, 2), (2, 9), (3, 44)]


@pytest.mark.slow
def test_a_log_of_200_mb_is_read_and_searched_in_bounded_time_and_memory(tmp_path):
    store, line = LogStore(tmp_path), b"epoch 12 step 3400 loss 0.1234 lr 1e-4, 12345 tokens/s\n"
    piece, offset = line * 19_000, 0
    while offset < 200 << 20:
        offset = store.append(TASK, offset, piece)
    store.append(TASK, offset, b"Killed\n")
    log, lines = LogReader(store, TASK), offset // len(line) + 1
    tracemalloc.start()
    begun = time.process_time()
    assert log.read_around(lines).data.endswith(b"Killed\n")
    assert log.read_around(lines // 2).line < lines // 2
    for places in (find_text("0.9999"), find_errors):
        turns, found = 0, log.search(places, 0)
        while found.searched < found.size:
            turn_begun = time.process_time()
            found, turns = log.search(places, found.start), turns + 1
            assert time.process_time() - turn_begun < 2
        assert turns >= 6
    assert found.lines == [lines]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert time.process_time() - begun < 20
