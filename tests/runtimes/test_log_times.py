"""When the lines of a log were written."""

import pytest

from runtimes.log_reading import LogReader
from runtimes.log_store import LogStore
from runtimes.log_times import UNKNOWN, read_moments, times_path

TASK = "0123456789abcdef" * 2


@pytest.fixture
def store(tmp_path):
    return LogStore(tmp_path)


def times(store) -> list[int]:
    log = LogReader(store, TASK)
    return log.read_times(0, log.size)[1]


def test_a_log_of_which_nothing_is_told_has_no_times(store):
    store.append(TASK, 0, b"one\ntwo\n")
    assert times(store) == [UNKNOWN, UNKNOWN] and not times_path(store.path(TASK)).exists()


def test_each_line_has_the_time_of_its_first_byte(store):
    store.append(TASK, 0, b"one\ntw", [(0, 100), (4, 101)])
    store.append(TASK, 6, b"o\nthree\n", [(6, 105), (8, 106)])
    assert times(store) == [100, 101, 106]


def test_what_is_sent_twice_keeps_its_first_time_and_a_piece_without_a_word_has_none(store):
    store.append(TASK, 0, b"one\n", [(0, 100)])
    store.append(TASK, 0, b"one\ntwo\n", [(0, 200), (4, 201)])
    store.append(TASK, 8, b"three\n")
    store.append(TASK, 14, b"four\n", [(16, 300)])
    assert times(store) == [100, 201, UNKNOWN, UNKNOWN]


def test_a_part_has_the_moment_that_holds_where_it_begins(store):
    store.append(TASK, 0, b"x\n" * 500, [(at, 1000 + at) for at in range(0, 1000, 10)])
    log = store.path(TASK)
    assert read_moments(log, 0, 1) == [(0, 1000)]
    assert read_moments(log, 25, 41) == [(20, 1020), (30, 1030), (40, 1040)]
    assert read_moments(log, 999, 2000) == [(990, 1990)]
    window, found = LogReader(store, TASK).read_times(24, 30)
    assert (window.start, window.line, found) == (24, 13, [1020, 1020, 1020])


def test_what_was_there_before_times_were_told_has_none(store):
    store.append(TASK, 0, b"one\n")
    store.append(TASK, 4, b"two\n", [(4, 100)])
    assert times(store) == [UNKNOWN, 100]


def test_a_broken_last_record_is_left_out(store):
    store.append(TASK, 0, b"one\n", [(0, 100)])
    with times_path(store.path(TASK)).open("ab") as file:
        file.write(b"half")
    assert times(store) == [100]
