"""Request bodies, read under a byte limit."""

import json
import zlib
from collections.abc import Iterator

from django.db.models import Model
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.serializers import Serializer

from common.errors import FieldError, InvalidInput, TooLarge
from portal.api.http.problems import UnsupportedMediaType

MAX_JSON = 1024 * 1024
MAX_YAML = 256 * 1024
PIECE = 64 * 1024

JSON = "application/json"
YAML = ("application/yaml", "text/yaml")
GZIP = "application/gzip"
GZIP_BITS = 16 + zlib.MAX_WBITS
"""What zlib takes for gzip's header."""


class AnyBytes(BaseRenderer):
    """For content negotiation; the view streams."""

    media_type = "application/octet-stream"
    format = "bytes"

    def render(self, data: object, *_: object) -> bytes:
        return str(data).encode()


def media_type(request: Request, *known: str) -> str:
    """Return the content type, one of `known`. Raises UnsupportedMediaType."""
    got = (request.content_type or "").partition(";")[0].strip().lower()
    if got not in known:
        raise UnsupportedMediaType(got=got or "-", known=list(known))
    return got


def read_body(request: Request, limit: int) -> bytes:
    """Read the body. Raises TooLarge (bytes) by declared or actual length."""
    return b"".join(read_pieces(request, limit))


def read_packed_body(request: Request, limit: int) -> bytes:
    """Read a body that may be packed by gzip. limit: of what it unpacks to. Raises TooLarge, InvalidInput."""
    body = read_body(request, limit)
    if request.headers.get("Content-Encoding", "").strip().lower() != "gzip":
        return body
    unpacking = zlib.decompressobj(GZIP_BITS)
    try:
        unpacked = unpacking.decompress(body, limit + 1)
    except zlib.error:
        raise InvalidInput([FieldError("", "json_syntax", {"line": 1, "column": 1})]) from None
    if len(unpacked) > limit:
        raise TooLarge(max=limit)
    return unpacked


def read_pieces(request: Request, limit: int) -> Iterator[bytes]:
    if says_length(request) > limit:
        raise TooLarge(max=limit)
    total = 0
    while piece := request._request.read(PIECE):
        total += len(piece)
        if total > limit:
            raise TooLarge(max=limit)
        yield piece


def says_length(request: Request) -> int:
    said = request.META.get("CONTENT_LENGTH") or ""
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 19 else 0


def read_json(request: Request, shape: type[Serializer], instance: Model | None = None) -> dict:
    """Validate the body as a JSON object. instance: what it changes. Raises InvalidInput, ValidationError."""
    media_type(request, JSON)
    data = parse_json(read_body(request, MAX_JSON))
    if not isinstance(data, dict):
        raise InvalidInput([FieldError("", "json_not_an_object")])
    sent = shape(instance, data=data)
    sent.is_valid(raise_exception=True)
    return sent.validated_data


def parse_json(body: bytes) -> object:
    try:
        return json.loads(body, parse_constant=_refuse)
    except (RecursionError, ValueError) as error:  # bad JSON or UTF-8, or a number too long
        where = {"line": getattr(error, "lineno", 1), "column": getattr(error, "colno", 1)}
        raise InvalidInput([FieldError("", "json_syntax", where)]) from None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
