"""One task's log on its way to the platform, with a position that survives restarts.

Files alone determine the output, so resent bytes are kept once. An overlong log loses its middle.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.logs.capping import NewestBytes, format_marker
from agent.logs.cri import NO_SECOND, Moment, Text, last_moment
from agent.logs.files import SETTLE_S, Files, Place
from agent.state import read_json_object, write_json_object

READ = 1 << 18
TAIL = 1 << 20
"""Bytes kept of an overlong log's end."""
ROUNDS = 16
"""Pieces read per call, at most."""
MOST_MOMENTS = 8192
"""Seconds after which no further piece is read: a line may be shorter than the moment at which it was written."""
GAP = format_marker("A part of the log is missing here: the machine removed it before it was brought.")
UNASKED, UNKNOWN, OPEN, ENDED, DONE = "", "unknown", "open", "ended", "done"


class ContainerLog:
    """A container's log. note: file of its position. state: the platform's latest answer."""

    def __init__(self, task: str, folder: Path, note: Path):
        self.task, self.folder, self.note = task, folder, note
        self.state, self.ended_at = UNASKED, 0.0
        self.offset, self.most, self.ready, self.closed = 0, 0, b"", False
        self.held = 0
        """Bytes of what is ready that the platform takes only together with what follows."""
        self.read_to: float | None = None
        self.moments: list[Moment] = []
        """When what is ready was written, and the last moment before it."""
        self._begin(read_json_object(note))

    def open_new(self) -> None:
        """Open new files before they are removed."""
        if self.state != DONE:
            self.files.open_new()

    def fill(self) -> None:
        if self.has_news or self.closed or self.state not in (OPEN, ENDED):
            return
        for _ in range(ROUNDS):
            if not (lines := self.files.read(READ)):
                if not self.has_news:
                    self._close_if_over()
                return
            self._read_at, self._was_full = time.monotonic(), len(lines) > READ // 2
            self.read_to = last_moment(lines)
            text, moments = self._text.feed(lines)
            self._queue_text(GAP if self.files.gap else b"", text, moments)
            if len(self.ready) > READ // 2 or len(self.moments) > MOST_MOMENTS:
                return

    @property
    def has_news(self) -> bool:
        return len(self.ready) > self.held

    @property
    def end(self) -> str:
        """Return the final state to send after all bytes; "" while open."""
        return "" if not self.closed else "cut" if self.files.lost else "whole"

    def behind_s(self, sent: int) -> float:
        """Return the oldest unsent line's age in seconds, or 0."""
        more = (self.has_news and sent < len(self.ready)) or self.files.has_more or self._was_full
        if self.closed or not more or self.read_to is None:
            return 0.0
        return max(time.time() - self.read_to, 0.0)

    def receive_answer(self, state: str, size: int, sent: int) -> None:
        """Process the answer to `sent` bytes. Raises OSError if the position cannot be saved."""
        if state == ENDED and self.state != ENDED:
            self.ended_at = time.monotonic()
        self.state = state
        if state == DONE:
            self.forget()
        elif state != UNKNOWN and size < self.offset:  # the store lost data: restart
            self.files.close()
            self._begin({})
        elif sent and state != UNKNOWN:
            taken = min(size - self.offset, sent)
            self.offset, self.ready, self.held = self.offset + taken, self.ready[taken:], sent - taken
            begun = [at for at, moment in enumerate(self.moments) if moment[0] <= self.offset]
            self.moments = self.moments[begun[-1] if begun else 0 :]
            if not self.ready:
                self._keep_note()

    def list_moments(self, size: int) -> list[Moment]:
        """Return when the next bytes were written, so many of them."""
        return [moment for moment in self.moments if moment[0] < self.offset + size]

    def close(self) -> None:
        self.files.close()

    def forget(self) -> None:
        self.close()
        self.ready = b""
        self.note.unlink(missing_ok=True)

    def _begin(self, noted: Mapping[str, Any]) -> None:
        place = noted.get("place")
        self.files = Files(self.folder, Place(*place) if place else None)
        self._text = Text(noted.get("open"))
        self._from = self.files.place, self._text.state
        self.offset, self.ready, self.held, self.closed = noted.get("offset", 0), b"", 0, False
        self.moments = []
        self._tail = NewestBytes(TAIL)
        self._read_at, self._was_full = time.monotonic(), False

    def _queue_text(self, before: bytes, text: bytes, moments: list[Moment]) -> None:
        """Queue the head; keep only the newest rest, without moments. Restarts resume at the head's end.

        before: what stands before the text, whose moments count from its own begin.
        """
        room = max(self.most - TAIL - self.offset - len(self.ready), 0)
        begin = self.offset + len(self.ready) + len(before)
        self.moments += [(begin + at, second) for at, second in moments if len(before) + at < room]
        text = before + text
        rest = text[room:]
        if room:
            self.ready += text[:room]
            self._from = self.files.place, self._text.state
        if rest:
            self._tail.add(rest)

    def _close_if_over(self) -> None:
        """Close the ended log once all is read."""
        quiet_since = max(self.ended_at, self._read_at)
        if self.state != ENDED or self.files.has_more or time.monotonic() - quiet_since < SETTLE_S:
            return
        words = f"{self._tail.dropped} bytes are not kept here: the log is full; its last part follows"
        self.ready = b"".join(
            [self.ready, format_marker(words) if self._tail.dropped else b"", *self._tail.pieces, self._text.finish()]
        )
        self.moments.append((self.offset + self.held, NO_SECOND))
        self._tail = NewestBytes(TAIL)
        self.closed = True

    def _keep_note(self) -> None:
        place, open_lines = self._from
        write_json_object(self.note, {"place": place, "offset": self.offset, "open": open_lines})
