"""Which parts of a file are read: each whole line once, bounded, also while it grows."""

from hypothesis import given
from hypothesis import strategies as st

from reported_numbers.windows import (
    KEPT_OF_IT,
    MOST_AT_ONCE,
    MOST_BEHIND,
    Position,
    choose_window,
    cut_lines,
)


def look(content: bytes, at: Position, *, is_last: bool = False) -> tuple[bytes, Position, bool]:
    window = choose_window(len(content), at, is_last=is_last)
    if window is None:
        return b"", at, False
    return cut_lines(content[window.offset : window.offset + window.length], window, is_last=is_last)


@given(st.lists(st.integers(0, 30), max_size=30), st.lists(st.integers(0, 400), max_size=12))
def test_each_line_is_read_once_however_the_file_grows(lengths, cuts):
    lines = [b"x" * length for length in lengths]
    content = b"\n".join(lines)
    at, seen = Position(), b""
    for cut in [*sorted(min(cut, len(content)) for cut in cuts), len(content)]:
        read, at, is_long = look(content[:cut], at)
        assert not read or read.endswith(b"\n")
        assert not is_long and not at.skipped
        seen += read
    read, at, _ = look(content, at, is_last=True)
    assert seen + read == content


def test_a_torn_line_is_waited_for_and_read_when_the_task_has_ended():
    assert look(b'{"a": 1}\n{"b"', Position()) == (b'{"a": 1}\n', Position(9), False)
    assert look(b'{"a": 1}\n{"b"', Position(9)) == (b"", Position(9), False)
    assert look(b'{"a": 1}\n{"b": 2}', Position(9), is_last=True)[0] == b'{"b": 2}'


def test_a_look_reads_a_bounded_part_and_the_next_goes_on():
    content = b'{"loss": 1}\n' * (3 * MOST_AT_ONCE // 12)
    first, at, _ = look(content, Position())
    assert MOST_AT_ONCE - 12 < len(first) <= MOST_AT_ONCE and at.skipped == 0
    assert look(content, at)[0] == content[len(first) :][: MOST_AT_ONCE // 12 * 12]


def test_of_what_is_far_behind_the_end_is_read_and_what_is_left_out_is_counted():
    content = b'{"loss": 1}\n' * (2 * MOST_BEHIND // 12)
    lines, at, _ = look(content, Position())
    assert lines.startswith(b'{"loss"') and lines.endswith(b"}\n") and len(lines) <= MOST_AT_ONCE
    assert at.skipped + len(lines) == at.offset and len(content) - KEPT_OF_IT <= at.skipped < len(content)
    last, end, _ = look(content, Position(), is_last=True)
    assert end.skipped + len(last) == len(content) and len(last) > KEPT_OF_IT - 12


def test_the_rest_of_a_line_without_end_is_no_line():
    lines, at, is_long = look(b"y" * 5000, Position())
    assert (lines, at, is_long) == (b"", Position(5000, in_line=True), True)
    content = b"y" * 5000 + b'{"loss": 1}\n{"loss": 2}\n'
    assert look(content, at) == (b'{"loss": 2}\n', Position(len(content), skipped=12), False)


def test_a_file_that_became_shorter_begins_anew():
    assert look(b'{"a": 1}\n', Position(500, in_line=True)) == (b'{"a": 1}\n', Position(9), False)
