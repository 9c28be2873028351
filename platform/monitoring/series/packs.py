"""Series of whole numbers as bytes: deltas of 32 bits, their bytes in planes, deflated; NaN by a bit each. Pure."""

import struct
import zlib

import numpy as np

from monitoring.series.grid import Array

HEAD = struct.Struct("<BHI")
"""Version, columns, slots."""
VERSION = 1
LEVEL = 6
LEAST, MOST = -(2**31), 2**31 - 1


class BadPack(ValueError):
    """Bytes that are no pack."""


def pack(values: Array) -> bytes:
    """Return the bytes of (columns, slots), each value rounded to a whole number within 32 bits."""
    columns, slots = values.shape
    unknown = np.isnan(values)
    whole = np.clip(np.rint(np.where(unknown, 0, values)), LEAST, MOST).astype(np.int32)
    whole = _repeat_last(whole, unknown)
    deltas = np.diff(whole, axis=1, prepend=np.zeros((columns, 1), np.int32))  # wraps around, and back when summed
    planes = np.ascontiguousarray(deltas, "<i4").view(np.uint8).reshape(-1, 4).T
    return HEAD.pack(VERSION, columns, slots) + zlib.compress(np.packbits(unknown).tobytes() + planes.tobytes(), LEVEL)


def unpack(data: bytes) -> Array:
    """Return (columns, slots). Raises BadPack."""
    try:
        version, columns, slots = HEAD.unpack_from(data)
        plain = zlib.decompress(memoryview(data)[HEAD.size :])
        count = columns * slots
        bits = np.frombuffer(plain, np.uint8, (count + 7) // 8)
        planes = np.frombuffer(plain, np.uint8, 4 * count, offset=len(bits))
    except (struct.error, zlib.error, ValueError) as wrong:
        raise BadPack(str(wrong)) from wrong
    if version != VERSION:
        raise BadPack(f"version {version}")
    deltas = np.ascontiguousarray(planes.reshape(4, count).T).view("<i4").reshape(columns, slots)
    values = np.cumsum(deltas, axis=1, dtype=np.int32).astype(np.float64)
    values[np.unpackbits(bits, count=count).reshape(columns, slots).astype(bool)] = np.nan
    return values


def _repeat_last(whole: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """Fill what is unknown with the last known value: a delta of 0 costs nothing."""
    last = np.where(unknown, 0, np.arange(1, whole.shape[1] + 1))
    last = np.maximum.accumulate(last, axis=1)
    padded = np.concatenate((np.zeros((len(whole), 1), whole.dtype), whole), axis=1)
    return np.take_along_axis(padded, last, axis=1)
