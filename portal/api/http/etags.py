"""ETag and If-Match against lost updates."""

import re

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

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


def etag_of(version: str) -> str:
    return f'"{version}"'


def read_if_match(request: Request) -> set[str] | None:
    """Return the accepted versions, None for any. Weak tags never match (RFC 9110)."""
    said = request.headers.get("If-Match", "*").strip()
    return None if said == "*" else {version for weak, version in TAG.findall(said) if not weak}
