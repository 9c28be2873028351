"""Parse CRI log lines into what the program wrote.

    2026-11-22T01:57:07.039163892Z stdout F text

F ends a line; P is a partial line, or unterminated last output. Streams stay in written order. Sources: Kubernetes' CRI
logging design; containerd 2.
"""

from datetime import datetime

from agent.logs.capping import format_marker

Moment = tuple[int, int]
"""(offset, Unix second in which the bytes from there on were written); it holds until the next one."""

STREAMS = (b"stdout", b"stderr")
NO_SECOND = 0
"""The second of a line that does not say when it was written."""
SECOND = 19
"""Bytes of a line's moment down to its second."""
LONGEST = 16384
"""Longest line in bytes, as in the local runtime; a carriage return ends a line too (progress bars)."""


class Text:
    """Incremental parser. open: {stream: [bytes of the unfinished line, bytes dropped]}."""

    def __init__(self, open_lines: dict[str, list[int]] | None = None):
        self.open = {stream.encode(): list(of) for stream, of in (open_lines or {}).items()}
        self._stamp, self._second = b"", -1

    @property
    def state(self) -> dict[str, list[int]]:
        return {stream.decode(): list(of) for stream, of in self.open.items()}

    def feed(self, lines: bytes) -> tuple[bytes, list[Moment]]:
        """Parse whole lines into (text, when its bytes were written); unknown formats pass unchanged."""
        kept: list[bytes] = []
        moments: list[Moment] = []
        size = counted = 0
        for line in lines.removesuffix(b"\n").split(b"\n"):
            if line[:SECOND] != self._stamp:
                size, counted = size + sum(map(len, kept[counted:])), len(kept)
                self._read_second(line, size, moments)
            stream, whole, content = _parse(line)
            if whole and len(content) <= LONGEST and stream not in self.open:
                kept += (content, b"\n")
            else:
                self._shorten(stream, whole, content, kept)
        return b"".join(kept), moments

    def _read_second(self, line: bytes, at: int, moments: list[Moment]) -> None:
        """Note the second in which the text from `at` on was written, if it is another one."""
        moment = read_moment(first_moment(line))
        second = NO_SECOND if moment is None else max(int(moment.timestamp()), NO_SECOND)
        if second != self._second:
            moments.append((at, second))
        self._stamp, self._second = line[:SECOND], second

    def finish(self) -> bytes:
        """Return markers for unfinished, shortened lines."""
        cuts = [cut for _, cut in self.open.values() if cut]
        self.open.clear()
        return b"".join(map(_too_long, cuts))

    def _shorten(self, stream: bytes, whole: bool, content: bytes, kept: list[bytes]) -> None:
        column, cut = self.open.pop(stream, [0, 0])
        parts = content.split(b"\r")
        for place, part in enumerate(parts):
            room = max(LONGEST - column, 0)
            kept.append(part[:room])
            column, cut = column + len(part), cut + len(part[room:])
            last = place == len(parts) - 1
            if last and not whole:
                self.open[stream] = [column, cut]
                return
            kept.append(_too_long(cut) if cut else b"\n" if last else b"\r")
            column = cut = 0


def first_moment(lines: bytes) -> str:
    return lines.partition(b" ")[0][:40].decode("ascii", "replace") if b" " in lines[:41] else ""


def last_moment(lines: bytes) -> float | None:
    """Return the last line's Unix time, or None."""
    at = read_moment(first_moment(lines.removesuffix(b"\n").rpartition(b"\n")[2]))
    return at.timestamp() if at is not None else None


def read_moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def _parse(line: bytes) -> tuple[bytes, bool, bytes]:
    parts = line.split(b" ", 3)
    if len(parts) < 4 or parts[1] not in STREAMS:
        return STREAMS[0], True, line
    return parts[1], not parts[2].startswith(b"P"), parts[3]


def _too_long(cut: int) -> bytes:
    return format_marker(f"{cut} bytes of this line are not kept: a line ends at {LONGEST}")
