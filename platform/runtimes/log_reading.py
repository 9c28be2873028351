"""Parts of a stored log: windows of lines, line numbers, and a search that goes on where its last turn ended.

Nothing here reads more than a bounded part at once. A log only grows, so the lines of a full block are counted once.
"""

import re
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from runtimes.log_store import LogStore
from runtimes.log_times import UNKNOWN, read_moments

BLOCK = 1 << 20
WINDOW = 1 << 16
SEARCH_BYTES, SEARCH_LINES, SEARCH_S = 32 * BLOCK, 1000, 0.5
"""Most that one turn of a search reads, finds and takes."""
LONGEST_LINE = 1 << 14
TIMES_BYTES = 1 << 19
NEWLINE = re.compile(rb"\n")
COLOURS = re.compile(rb"\x1b\[[0-9;:]*[A-Za-z]")

Places = Callable[[bytes], list[tuple[int, int]]]
"""Lines of a text in which something stands, in order, as (newlines before it, offset at which it begins)."""


@dataclass(frozen=True)
class Window:
    """Bytes `start` to `end` of a log that has `size`; `line`: the number of the line that `start` lies in."""

    start: int
    end: int
    size: int
    line: int
    data: bytes


@dataclass(frozen=True)
class Found:
    """Numbers of the lines that one turn found. start, line: of the line at which the next turn begins.

    searched: bytes of the log that are searched by now. offsets: where the lines begin.
    """

    lines: list[int]
    offsets: list[int]
    start: int
    line: int
    searched: int
    size: int


class LogReader:
    def __init__(self, store: LogStore, task: str):
        self.store, self.task = store, task
        self.size = store.size(task)

    def count_line(self, offset: int) -> int:
        """Return the number of the line that `offset` lies in, from 1."""
        offset = min(offset, self.size)
        full = offset // BLOCK
        newlines = sum(self._count_block(index) for index in range(full))
        return 1 + newlines + self._read(full * BLOCK, offset).count(b"\n")

    def find_line(self, number: int) -> int:
        """Return the offset at which the line of this number begins; beyond the last, the last one's."""
        left = max(number, 1) - 1
        for index in range(self.size // BLOCK + 1):
            newlines = self._count_block(index)
            if left <= newlines:
                return self._find_in_block(index, left)
            left -= newlines
        return self.read_before(self.size, 1).start

    def align(self, offset: int) -> int:
        """Return where the next line begins at or after `offset`; without one nearby, the next character."""
        offset = min(max(offset, 0), self.size)
        if offset == 0:
            return 0
        data = self._read(offset - 1, offset + WINDOW)
        newline = data.find(b"\n")
        return offset + (newline if newline >= 0 else leading_rest(data[1:]))

    def read_from(self, offset: int, most: int = WINDOW) -> Window:
        """Read on from `offset`, to the end of a line if there is one."""
        offset = min(max(offset, 0), self.size)
        data = self._read(offset, offset + most)
        if offset + len(data) < self.size:
            data = data[: data.rfind(b"\n") + 1] or data[: len(data) - open_tail(data)]
        return self._window(offset, data)

    def read_line(self, offset: int) -> Window:
        """Read the line that begins at `offset`; a newline ends it even if only its beginning is told."""
        data = self._read(offset, offset + LONGEST_LINE)
        line = data[: line_end(data, 0)] + b"\n"
        return self._window(offset, line)

    def read_before(self, end: int, most: int = WINDOW) -> Window:
        """Read what stands before `end`, from the beginning of a line if there is one."""
        end = min(max(end, 0), self.size)
        start = max(end - most, 0)
        data = self._read(start, end)
        if start:
            newline = data.find(b"\n", 0, -1)
            skip = newline + 1 if newline >= 0 else leading_rest(data)
            start, data = start + skip, data[skip:]
        return self._window(start, data)

    def read_around(self, number: int) -> Window:
        """Read the line of this number with lines before and after it."""
        middle = self.find_line(number)
        before, after = self.read_before(middle, WINDOW // 2), self.read_from(middle, WINDOW // 2)
        return Window(before.start, after.end, self.size, before.line, before.data + after.data)

    def read_times(self, start: int, end: int) -> tuple[Window, list[int]]:
        """Return as much of these bytes as is read at once, and when each line in it began: Unix second or UNKNOWN."""
        window = self.read_from(start, max(min(end - start, TIMES_BYTES), 0))
        return window, self.time_lines(window.start, window.data)

    def time_lines(self, start: int, data: bytes) -> list[int]:
        """Return when each line of `data`, which stands at `start`, began: in Unix seconds, or UNKNOWN."""
        moments = read_moments(self.store.path(self.task), start, start + len(data))
        begins = [0, *(match.end() for match in NEWLINE.finditer(data))]
        offsets = [offset for offset, _second in moments]
        places = (bisect_right(offsets, start + begin) - 1 for begin in begins if begin < len(data))
        return [moments[place][1] if place >= 0 else UNKNOWN for place in places]

    def search(self, places: Places, offset: int, deadline_s: float = SEARCH_S) -> Found:
        """Look for lines from `offset` on, for one turn."""
        offset = min(max(offset, 0), self.size)
        line, begun, give_up_at = self.count_line(offset), offset, time.monotonic() + deadline_s
        lines: list[int] = []
        offsets: list[int] = []
        searched = offset
        while searched < self.size and len(lines) < SEARCH_LINES:
            block = self._read(offset, offset + BLOCK)
            is_last = offset + len(block) >= self.size
            whole = block if is_last else block[: block.rfind(b"\n") + 1] or block
            for number, place in places(whole):
                lines.append(line + number)
                offsets.append(offset + place)
                if len(lines) == SEARCH_LINES:
                    whole = whole[: line_end(whole, place) + 1]
                    break
            is_last &= offset + len(whole) >= self.size
            searched = offset + len(whole)
            whole = whole[: whole.rfind(b"\n") + 1] if is_last else whole  # the last line may still grow
            offset, line = offset + len(whole), line + whole.count(b"\n")
            if searched - begun >= SEARCH_BYTES or time.monotonic() > give_up_at:
                break
        return Found(lines, offsets, offset, line, searched, self.size)

    def _window(self, start: int, data: bytes) -> Window:
        return Window(start, start + len(data), self.size, self.count_line(start), data)

    def _read(self, start: int, end: int) -> bytes:
        return self.store.read(self.task, start, min(end, self.size) - start)[0]

    def _count_block(self, index: int) -> int:
        if (index + 1) * BLOCK > self.size:
            return self._read(index * BLOCK, self.size).count(b"\n")
        return _count_full_block(str(self.store.root), self.task, index)

    def _find_in_block(self, index: int, newlines: int) -> int:
        """Return the offset behind so many newlines of a block."""
        block, place = self._read(index * BLOCK, (index + 1) * BLOCK), 0
        for _ in range(newlines):
            place = block.index(b"\n", place) + 1
        return index * BLOCK + place


def find_text(text: str) -> Places:
    """Return what finds this text; of ASCII letters the case does not count."""
    needle = text.encode().lower()

    def places(block: bytes) -> list[tuple[int, int]]:
        found, plain, at = [], strip_colours(block).lower(), -1
        while (at := plain.find(needle, at + 1)) >= 0:
            found.append(at)
            at = line_end(plain, at)
        return number_lines(block, plain, found)

    return places


def strip_colours(text: bytes) -> bytes:
    return COLOURS.sub(b"", text) if b"\x1b[" in text else text


def number_lines(block: bytes, plain: bytes, offsets: list[int]) -> list[tuple[int, int]]:
    """Return the lines of a block in which these offsets of `plain` lie, which has the same lines without colours."""
    found: list[tuple[int, int]] = []
    newlines = at = begin = 0
    for offset in offsets:
        passed = plain.count(b"\n", at, offset)
        for _ in range(passed):
            begin = block.index(b"\n", begin) + 1
        newlines, at = newlines + passed, offset
        found.append((newlines, begin))
    return found


def line_end(text: bytes, place: int) -> int:
    """Return the offset of the newline that ends the line at `place`, or the text's end."""
    end = text.find(b"\n", place)
    return end if end >= 0 else len(text)


def open_tail(data: bytes) -> int:
    """Count trailing bytes of an incomplete UTF-8 sequence: 0 to 3."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if length > back else 0
    return 0


def leading_rest(data: bytes) -> int:
    """Count leading bytes that continue a UTF-8 sequence: 0 to 3."""
    return next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)


@lru_cache(maxsize=1 << 14)
def _count_full_block(root: str, task: str, index: int) -> int:
    return LogStore(root).read(task, index * BLOCK, BLOCK)[0].count(b"\n")
