"""A moving PNG holds all its pictures, in order and for their time; a browser that knows none shows the first."""

import struct
import zlib

import pytest

from bench.pictures.moving_png import SIGNATURE, join_pictures


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def picture(grey, width=2):
    """One row of a grey PNG, its data in two chunks."""
    data = zlib.compress(b"\0" + bytes([grey] * width))
    head = struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", data[:3]) + chunk(b"IDAT", data[3:]) + chunk(b"IEND", b"")


def read(file):
    at, found = len(SIGNATURE), []
    while at < len(file):
        size, kind = struct.unpack_from(">I4s", file, at)
        content = file[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", file, at + 8 + size)[0] == zlib.crc32(kind + content)
        found.append((kind, content))
        at += size + 12
    return found


def test_each_picture_is_in_it_in_order_and_for_its_time():
    chunks = read(join_pictures([(picture(1), 1.5), (picture(2), 0.25), (picture(3), 2)]))
    assert [kind for kind, _ in chunks] == [
        b"IHDR", b"acTL", b"fcTL", b"IDAT", b"fcTL", b"fdAT", b"fcTL", b"fdAT", b"IEND",
    ]  # fmt: skip
    shown = [zlib.decompress(content[4:] if kind == b"fdAT" else content) for kind, content in chunks if b"AT" in kind]
    assert shown == [b"\0\1\1", b"\0\2\2", b"\0\3\3"]
    times = [struct.unpack_from(">HH", content, 20) for kind, content in chunks if kind == b"fcTL"]
    assert times == [(150, 100), (25, 100), (200, 100)]
    numbers = [struct.unpack_from(">I", content)[0] for kind, content in chunks if kind in (b"fcTL", b"fdAT")]
    assert numbers == [0, 1, 2, 3, 4]


def test_pictures_of_two_sizes_are_refused():
    with pytest.raises(ValueError, match="same size"):
        join_pictures([(picture(1), 1), (picture(1, width=3), 1)])
