"""Which part of a file is read at one look, and up to where its lines are whole. Pure.

However much a task writes, a look reads a bounded part. Of a file that grows faster than it is read, the middle is left
out: the newest numbers matter most.
"""

from dataclasses import dataclass

from reported_numbers.lines import MOST_LINE

MOST_AT_ONCE = 64 << 10
"""Bytes of a running task at one look."""
MOST_BEHIND = 1 << 20
"""Of what is further behind than this, all but the end is left out; a task's last look reads so much at most."""
KEPT_OF_IT = 256 << 10


@dataclass(frozen=True)
class Position:
    """How far a file is read. in_line: whether that is within a line of which the begin was left out or refused.

    skipped: bytes that were left out.
    """

    offset: int = 0
    in_line: bool = False
    skipped: int = 0


@dataclass(frozen=True)
class Window:
    """A part to read. skipped: bytes that are left out before it. in_line: whether it may begin within a line."""

    offset: int
    length: int
    skipped: int
    in_line: bool


def choose_window(size: int, at: Position, *, is_last: bool) -> Window | None:
    """Return what to read of a file of this size, None if nothing is new. A file that became shorter begins anew."""
    if size < at.offset:
        at = Position()
    behind = size - at.offset
    if behind == 0:
        return None
    skipped = behind - KEPT_OF_IT if behind > MOST_BEHIND else 0
    length = behind - skipped if is_last else min(behind - skipped, MOST_AT_ONCE)
    return Window(at.offset + skipped, length, skipped, at.in_line or skipped > 0)


def cut_lines(content: bytes, window: Window, *, is_last: bool) -> tuple[bytes, Position, bool]:
    """Return (whole lines, where the next look begins, whether a line was too long and is left out).

    A last line without an end is waited for, unless the task has ended.
    """
    begin = 0
    if window.in_line:
        begin = content.find(b"\n") + 1
        if not begin:
            return b"", Position(window.offset + len(content), not is_last, window.skipped + len(content)), False
    skipped = window.skipped + begin
    end = len(content) if is_last else content.rfind(b"\n") + 1
    if end <= begin and len(content) - begin > MOST_LINE:
        return b"", Position(window.offset + len(content), True, skipped), True
    end = max(end, begin)
    return content[begin:end], Position(window.offset + end, False, skipped), False
