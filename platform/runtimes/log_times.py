"""When the bytes of a log were written: records (offset, Unix second) in a file beside it. Few imports, for the shim.

A record holds for what follows it until the next one. UNKNOWN says that nobody knows it from there on; a log without
the file has no times at all, and none are made up.
"""

import os
import struct
from bisect import bisect_right
from pathlib import Path

RECORD = struct.Struct(">QQ")
UNKNOWN = 0

Moment = tuple[int, int]


def times_path(log: Path) -> Path:
    return log.with_suffix(".times")


def pack_moments(moments: list[Moment]) -> bytes:
    return b"".join(RECORD.pack(*moment) for moment in moments)


def read_moments(log: Path, start: int, end: int) -> list[Moment]:
    """Return the records of bytes `start` to `end`, the first of which holds at `start`."""
    try:
        fd = os.open(times_path(log), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        count = os.fstat(fd).st_size // RECORD.size

        def offset_of(index: int) -> int:
            return int(RECORD.unpack(os.pread(fd, RECORD.size, index * RECORD.size))[0])

        first = max(bisect_right(range(count), start, key=offset_of) - 1, 0)
        last = bisect_right(range(count), end - 1, lo=first, key=offset_of)
        data = os.pread(fd, (last - first) * RECORD.size, first * RECORD.size)
        return list(RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]))
    finally:
        os.close(fd)
