"""The body of Prometheus remote write 1.0: a WriteRequest in protobuf's wire format, in a block of snappy. Pure.

Sources: https://prometheus.io/docs/specs/prw/remote_write_spec/ and https://protobuf.dev/programming-guides/encoding/.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cramjam import snappy

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
NAME = "__name__"
SIXTY_FOUR, COUNTED = 1, 2
"""Types on the wire: eight bytes; bytes whose number stands before them. A varint is 0."""


@dataclass(frozen=True)
class Series:
    """labels: with the name as NAME. points: (milliseconds since 1970, value), ascending."""

    labels: Mapping[str, str]
    points: list[tuple[int, float]]


def encode_body(series: Iterable[Series]) -> bytes:
    return bytes(snappy.compress_raw(b"".join(_field(1, _encode_series(one)) for one in series)))


def _encode_series(one: Series) -> bytes:
    """TimeSeries: labels, sorted as the specification asks, and samples."""
    labels = [_field(1, _text(1, name) + _text(2, value)) for name, value in sorted(one.labels.items())]
    return b"".join(labels + [_field(2, _encode_point(at_ms, value)) for at_ms, value in one.points])


def _encode_point(at_ms: int, value: float) -> bytes:
    """Sample: its value as a double, then its time as an int64 that is not negative."""
    return bytes([1 << 3 | SIXTY_FOUR]) + struct.pack("<d", value) + bytes([2 << 3]) + _varint(at_ms)


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | COUNTED]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
    told = bytearray()
    while number > 0x7F:
        told.append(number & 0x7F | 0x80)
        number >>= 7
    told.append(number)
    return bytes(told)
