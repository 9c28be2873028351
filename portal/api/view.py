"""What every view of the API is, and how a list is cut into pages."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from types import SimpleNamespace
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.errors import FieldError, InvalidInput

MAX_ID = 2**63 - 1


class ByAcceptOnly(DefaultContentNegotiation):
    """Without REST framework's `?format=`: a parameter that nobody declared changes nothing."""

    settings = SimpleNamespace(URL_FORMAT_OVERRIDE=None)  # type: ignore[assignment]


class ApiView(APIView):
    """A view catches nothing: portal.api.problems turns what is raised into an answer.

    scopes: {"GET": ("jobs:read",)}; see portal.api.permissions. A method without an entry is refused.
    """

    scopes: dict[str, tuple[str, ...]] = {}
    http_method_names = ["get", "head", "post", "delete"]
    metadata_class = None
    content_negotiation_class = ByAcceptOnly

    def finalize_response(self, request: Request, response: HttpResponseBase, *args: Any, **named: Any) -> Any:
        """A problem is JSON at every address, also where the address itself answers in another form."""
        response = super().finalize_response(request, response, *args, **named)
        if getattr(response, "exception", False):
            response.accepted_renderer = JSONRenderer()  # type: ignore[attr-defined]
        return response


class PageQuery(serializers.Serializer):
    """limit: rows of a page. cursor: `next_cursor` of the page before."""

    limit = serializers.IntegerField(min_value=1, max_value=500, default=50)
    cursor = serializers.CharField(max_length=100, required=False)


def read_query(request: Request, shape: type[serializers.Serializer]) -> dict[str, Any]:
    """The query's parameters, validated; names that `shape` does not know are left alone."""
    query = shape(data=request.query_params.dict())
    query.is_valid(raise_exception=True)
    return query.validated_data


def page(rows: QuerySet, query: dict[str, Any], shape: type[serializers.Serializer], *, newest_first: bool) -> Response:
    """{"results": [...], "next_cursor": text or null}, by id: rows that come or go meanwhile never shift a page."""
    after = _id_of(query.get("cursor"))
    if after is not None:
        rows = rows.filter(**{"pk__lt" if newest_first else "pk__gt": after})
    limit = query["limit"]
    found = list(rows.order_by("-pk" if newest_first else "pk")[: limit + 1])
    more = _cursor_of(found[limit - 1].pk) if len(found) > limit else None
    return Response({"results": shape(found[:limit], many=True).data, "next_cursor": more})


def all_of(rows: object, shape: type[serializers.Serializer]) -> Response:
    """A list that is short by nature, in the same envelope."""
    return Response({"results": shape(rows, many=True).data, "next_cursor": None})


def _cursor_of(pk: int) -> str:
    return urlsafe_b64encode(f"id:{pk}".encode()).decode().rstrip("=")


def _id_of(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        name, _, number = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii").partition(":")
    except (Base64Error, ValueError):
        name, number = "", ""
    if name != "id" or not number.isdecimal() or int(number) > MAX_ID:
        raise InvalidInput([FieldError("/cursor", "bad_cursor")])
    return int(number)
