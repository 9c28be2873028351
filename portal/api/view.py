"""What every view of the API is, and how a list is sorted, cut into pages and narrowed to some fields."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpResponseBase
from django.utils.dateparse import parse_datetime
from rest_framework import serializers
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.errors import FieldError, InvalidInput
from portal.api.rates import count_call, tell_rates

MAX_ID = 2**63 - 1

Sorts = dict[str, Callable[[str], Any]]
"""{column: what reads its value out of a cursor}. None of the columns is ever null."""


class ByAcceptOnly(DefaultContentNegotiation):
    """Without REST framework's `?format=`: a parameter that nobody declared changes nothing."""

    settings = SimpleNamespace(URL_FORMAT_OVERRIDE=None)  # type: ignore[assignment]


class ApiView(APIView):
    """A view catches nothing: portal.api.problems turns what is raised into an answer.

    scopes: {"GET": ("jobs:read",)}; see portal.api.permissions. A method without an entry is refused.
    rates: {"POST": ("submits",)}, policies of settings.TESSERA_RATES beside "calls", which every call counts for.
    """

    scopes: dict[str, tuple[str, ...]] = {}
    rates: dict[str, tuple[str, ...]] = {}
    http_method_names = ["get", "head", "post", "patch", "delete"]
    metadata_class = None
    content_negotiation_class = ByAcceptOnly

    def perform_authentication(self, request: Request) -> None:
        """Calls are counted as soon as it is known whose they are, also those that are refused later."""
        super().perform_authentication(request)
        count_call(request, ("calls", *self.rates.get(request.method or "", ())))

    def finalize_response(self, request: Request, response: HttpResponseBase, *args: Any, **named: Any) -> Any:
        """A problem is JSON at every address, also where the address itself answers in another form."""
        response = super().finalize_response(request, response, *args, **named)
        if getattr(response, "exception", False):
            response.accepted_renderer = JSONRenderer()  # type: ignore[attr-defined]
        tell_rates(request, response)
        return response


class FieldsQuery(serializers.Serializer):
    """fields: of each row, those that are wanted, with commas; all where it is left out."""

    fields = serializers.CharField(max_length=500, required=False)  # type: ignore[assignment]


class PageQuery(FieldsQuery):
    """limit: rows of a page. cursor: `next_cursor` of the page before. fields: those that are wanted, with commas."""

    limit = serializers.IntegerField(min_value=1, max_value=500, default=50)
    cursor = serializers.CharField(max_length=500, required=False)


def read_query(request: Request, shape: type[serializers.Serializer]) -> dict[str, Any]:
    """The query's parameters, validated; names that `shape` does not know are left alone."""
    query = shape(data=request.query_params.dict())
    query.is_valid(raise_exception=True)
    return query.validated_data


def page(
    rows: QuerySet,
    query: dict[str, Any],
    shape: type[serializers.Serializer],
    *,
    newest_first: bool,
    sorts: Sorts | None = None,
) -> Response:
    """{"results": [...], "next_cursor": text or null}, by id or by query["sort"], one of `sorts` or "-" and one.

    A page begins behind the last row of the one before, so rows that come or go meanwhile never shift it.
    """
    sort = query.get("sort") or ("-id" if newest_first else "id")
    column, down = sort.removeprefix("-"), sort.startswith("-")
    order = ["pk"] if column == "id" else [column, "pk"]
    if (cursor := query.get("cursor")) is not None:
        rows = rows.filter(_behind(_read_cursor(cursor, sort, (sorts or {}).get(column)), column, down))
    limit = query["limit"]
    found = list(rows.order_by(*(f"-{name}" if down else name for name in order))[: limit + 1])
    more = _cursor_of(found[limit - 1], sort, column) if len(found) > limit else None
    return Response({"results": show_rows(found[:limit], shape, query.get("fields")), "next_cursor": more})


def all_of(rows: object, shape: type[serializers.Serializer], fields: str | None = None) -> Response:
    """A list that is short by nature, in the same envelope."""
    return Response({"results": show_rows(rows, shape, fields), "next_cursor": None})


def show_rows(rows: object, shape: type[serializers.Serializer], fields: str | None) -> list:
    """Fields that are not wanted are not worked out either. Raises InvalidInput for one that there is not."""
    shown = shape(rows, many=True)  # type: ignore[arg-type]
    if fields is not None:
        known = shown.child.fields  # type: ignore[attr-defined]
        wanted = [name.strip() for name in fields.split(",")]
        if unknown := [name for name in wanted if name not in known]:
            raise InvalidInput([FieldError("/fields", "unknown_value", {"got": unknown[0][:40], "allowed": [*known]})])
        for name in set(known) - set(wanted):
            known.pop(name)
    return list(shown.data)


def read_moment(text: str) -> datetime:
    moment = parse_datetime(text)
    if moment is None or moment.tzinfo is None:
        raise ValueError(text)
    return moment


def read_small_number(text: str) -> int:
    number = int(text)
    if not -(2**15) <= number < 2**15:
        raise ValueError(text)
    return number


def read_name(text: str) -> str:
    if "\0" in text or len(text) > 200:
        raise ValueError(text)
    return text


def _behind(at: tuple[Any, int], column: str, down: bool) -> Q:
    """The rows that come after the one with this value and id."""
    value, pk = at
    way = "lt" if down else "gt"
    if column == "id":
        return Q(**{f"pk__{way}": pk})
    return Q(**{f"{column}__{way}": value}) | Q(**{column: value, f"pk__{way}": pk})


def _cursor_of(row: Any, sort: str, column: str) -> str:
    value = "" if column == "id" else getattr(row, column)
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return urlsafe_b64encode(json.dumps([sort, text, row.pk]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: str, read: Callable[[str], Any] | None) -> tuple[Any, int]:
    """(value, id) of the last row before. Raises InvalidInput for a cursor that is none, or of another sort."""
    try:
        of, text, pk = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if of != sort or type(text) is not str or type(pk) is not int or not 0 <= pk <= MAX_ID:
            raise ValueError(cursor)
        return (read(text) if read else None), pk
    except (Base64Error, ValueError, TypeError, RecursionError):
        raise InvalidInput([FieldError("/cursor", "bad_cursor")]) from None
