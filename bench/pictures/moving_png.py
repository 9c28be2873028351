"""Put pictures one after the other into one moving PNG (APNG, PNG 3), with the standard library alone."""

import struct
import zlib
from collections.abc import Iterable, Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def join_pictures(pictures: Iterable[tuple[bytes, float]]) -> bytes:
    """Return one file that shows each picture for its seconds, for ever. pictures: PNGs of the same size and kind.

    Raises ValueError where they are not.
    """
    frames = [(list(_read_chunks(picture)), seconds) for picture, seconds in pictures]
    heads = {dict(chunks)[b"IHDR"] for chunks, _ in frames}
    if len(heads) != 1:
        raise ValueError("All pictures must have the same size and kind.")
    [head] = heads
    parts, number = [_chunk(b"IHDR", head), _chunk(b"acTL", struct.pack(">II", len(frames), 0))], 0
    for chunks, seconds in frames:
        timing = struct.pack(">8s4x4xHHBB", head[:8], round(seconds * 100), 100, 0, 0)
        parts.append(_chunk(b"fcTL", struct.pack(">I", number) + timing))
        number += 1
        data = b"".join(content for kind, content in chunks if kind == b"IDAT")
        if number == 1:  # the first is what a program without moving pictures shows
            parts.append(_chunk(b"IDAT", data))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", number) + data))
            number += 1
    return SIGNATURE + b"".join(parts) + _chunk(b"IEND", b"")


def _read_chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not picture.startswith(SIGNATURE):
        raise ValueError("This is no PNG.")
    at = len(SIGNATURE)
    while at < len(picture):
        size, kind = struct.unpack_from(">I4s", picture, at)
        yield kind, picture[at + 8 : at + 8 + size]
        at += size + 12


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
