"""Reads what is written for a series engine, by the specifications alone: snappy's block format and protobuf's.

https://github.com/google/snappy/blob/main/format_description.txt
"""

import struct
from collections.abc import Iterator


def decompress(block: bytes) -> bytes:
    length, at = read_varint(block, 0)
    found = bytearray()
    while at < len(block):
        tag, at = block[at], at + 1
        if tag & 3 == 0:
            count = tag >> 2
            if count >= 60:
                extra = count - 59
                count, at = int.from_bytes(block[at : at + extra], "little"), at + extra
            found += block[at : at + count + 1]
            at += count + 1
            continue
        if tag & 3 == 1:
            count, back, at = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | block[at], at + 1
        else:
            size = 2 if tag & 3 == 2 else 4
            count, back, at = (tag >> 2) + 1, int.from_bytes(block[at : at + size], "little"), at + size
        for _ in range(count):
            found.append(found[-back])
    assert len(found) == length
    return bytes(found)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def read_fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        if key & 7 == 0:
            value, at = read_varint(message, at)
        elif key & 7 == 1:
            value, at = message[at : at + 8], at + 8
        else:
            assert key & 7 == 2
            length, at = read_varint(message, at)
            value, at = message[at : at + length], at + length
            assert len(value) == length
        yield key >> 3, value


def read_body(body: bytes) -> list[tuple[list[tuple[str, str]], list[tuple[int, float]]]]:
    """Return (labels, points) of each series, in the order in which they stand."""
    found = []
    for number, series in read_fields(decompress(body)):
        assert number == 1
        labels, points = [], []
        for place, part in read_fields(series):
            told = dict(read_fields(part))
            if place == 1:
                labels.append((told[1].decode(), told[2].decode()))
            else:
                points.append((told[2], struct.unpack("<d", told[1])[0]))
        found.append((labels, points))
    return found
