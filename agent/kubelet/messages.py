"""Protobuf messages of the kubelet's device plugin protocol, encoded by hand to avoid protobuf's compiler.

Source: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

VERSION = "v1beta1"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Protobuf wire types."""


@dataclass(frozen=True)
class Device:
    """One unit of a card. numa: None if unknown."""

    id: str
    health: str
    numa: int | None


class Malformed(ValueError):
    """Not a valid message."""


def register_request(endpoint: str, resource: str) -> bytes:
    """endpoint: our socket's name beside the kubelet's. resource: tessera.sh/g-..."""
    return _text(1, VERSION) + _text(2, endpoint) + _text(3, resource)


def list_response(devices: Iterable[Device]) -> bytes:
    return b"".join(_message(1, _device(device)) for device in devices)


def allocate_response(containers: Iterable[Sequence[str]]) -> bytes:
    return b"".join(_message(1, b"".join(_message(5, _text(1, name)) for name in names)) for names in containers)


def read_allocate_request(data: bytes) -> list[list[str]]:
    """Return each container's chosen device ids. Raises Malformed."""
    return [_texts(1, container) for container in _parts(1, data)]


def _device(device: Device) -> bytes:
    told = _text(1, device.id) + _text(2, device.health)
    if device.numa is None:
        return told
    node = _number(1, device.numa) if device.numa else b""  # proto3 omits 0
    return told + _message(3, _message(1, node))


def _texts(number: int, data: bytes) -> list[str]:
    try:
        return [part.decode() for part in _parts(number, data)]
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from None


def _parts(number: int, data: bytes) -> list[bytes]:
    return [part for found, part in _fields(data) if found == number]


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (number, content) of length-delimited fields."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            _, at = _varint(data, at)
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise Malformed(f"wire type {kind}")
        if at + size > len(data):
            raise Malformed("it ends too soon")
        if kind == BYTES:
            yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise Malformed("a number without an end")


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode()) if text else b""


def _message(number: int, content: bytes) -> bytes:
    return _encode(number << 3 | BYTES) + _encode(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _encode(number << 3 | VARINT) + _encode(value)


def _encode(value: int) -> bytes:
    pieces = []
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*pieces, value])
