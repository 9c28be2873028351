"""Headers of requests: Idempotency-Key, which jobs.idempotency applies; ETag and If-Match against lost updates."""

import json
import re
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from common.errors import FieldError, InvalidInput

MAX_KEY = 200
KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[!-~]+$"},
    OpenApiParameter.HEADER,
    description="The same key with the same body answers with what the first request made.",
)
TAG = re.compile(r'(W/)?"([^"]*)"')
ETAG = OpenApiParameter(
    "ETag",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[200],
    description="For If-Match: another one after each change by somebody, the same while only its state moves.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "maxLength": 500},
    OpenApiParameter.HEADER,
    description='The ETag it must still have, else 412. "*": whatever it has.',
)


def read_key(request: Request) -> str:
    """Return the key, or ""."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput([FieldError("/Idempotency-Key", "bad_idempotency_key", {"max": MAX_KEY})])
    return key


def read_once(request: Request, said: dict[str, Any]) -> dict[str, Any]:
    """Return key and body; the body stands for URL and data."""
    return {"key": read_key(request), "body": f"{request.path}\n{json.dumps(said, sort_keys=True)}".encode()}


def etag_of(version: str) -> str:
    return f'"{version}"'


def read_if_match(request: Request) -> set[str] | None:
    """Return the accepted versions, None for any. Weak tags never match (RFC 9110)."""
    said = request.headers.get("If-Match", "*").strip()
    return None if said == "*" else {version for weak, version in TAG.findall(said) if not weak}
