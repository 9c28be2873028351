"""Sorting, pages and field selection of lists."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Choices, Q, QuerySet
from django.utils.dateparse import parse_datetime
from rest_framework import serializers
from rest_framework.response import Response

from common.errors import FieldError, InvalidInput
from portal.api.view import MAX_ID

Sorts = dict[str, Callable[[str], Any]]
"""{column: parser of its cursor value}. The columns are never null."""


@dataclass(frozen=True)
class Sort:
    """A sort order by column and id. read: the column's cursor parser; None for id alone."""

    column: str
    down: bool
    read: Callable[[str], Any] | None

    def __str__(self) -> str:
        return f"{'-' * self.down}{self.column}"


class SortField(serializers.ChoiceField):
    """ "name" or "-name" of `sorts` or id, read to a Sort."""

    def __init__(self, sorts: Sorts | None = None, default: str = "-id", **options: Any):
        known = [
            Sort(name, down, read) for name, read in {"id": None, **(sorts or {})}.items() for down in (False, True)
        ]
        self.known = {str(one): one for one in known}
        super().__init__(choices=[*self.known], default=self.known[default], **options)

    def to_internal_value(self, data: Any) -> Sort:
        return self.known[super().to_internal_value(data)]

    def to_representation(self, value: Any) -> str:
        return str(value)


class StatesField(serializers.CharField):
    """States of `known` with commas, read to an upper-case list."""

    def __init__(self, known: type[Choices], **options: Any):
        super().__init__(max_length=200, required=False, **options)
        self.known = [state.lower() for state in known.values]

    def to_internal_value(self, data: Any) -> list[str]:
        words = [word.strip().lower() for word in super().to_internal_value(data).split(",") if word.strip()]
        if wrong := [word for word in words if word not in self.known]:
            about = {"got": wrong[0][:40], "allowed": self.known}
            raise InvalidInput([FieldError(f"/{self.field_name}", "unknown_value", about)])
        return [word.upper() for word in words]


class FieldsQuery(serializers.Serializer):
    """fields: wanted ones of each row, with commas."""

    fields = serializers.CharField(max_length=500, required=False)  # type: ignore[assignment]


class PageQuery(FieldsQuery):
    """limit: rows of a page. cursor: `next_cursor` of the page before, with the same sort. sort: "-" reverses it."""

    sort = SortField()
    limit = serializers.IntegerField(min_value=1, max_value=500, default=50)
    cursor = serializers.CharField(max_length=500, required=False)


class Row(serializers.Serializer):
    """Marks rows for portal.api.schema: `fields` may leave out any field."""


def list_of(shape: type[serializers.Serializer], name: str) -> type[serializers.Serializer]:
    """Build a list's envelope for the API's description."""
    row = type(f"{shape.__name__.removesuffix('Shape')}Row", (shape, Row), {"__doc__": shape.__doc__})
    fields = {"results": row(many=True), "next_cursor": serializers.CharField(allow_null=True)}
    return type(name, (serializers.Serializer,), fields)


def page(rows: QuerySet, query: dict[str, Any], shape: type[serializers.Serializer]) -> Response:
    """Return {"results": [...], "next_cursor": text or null}.

    Pages begin after the last row before, so that changes never shift them.
    """
    sort: Sort = query["sort"]
    order = ["pk"] if sort.read is None else [sort.column, "pk"]
    if (cursor := query.get("cursor")) is not None:
        rows = rows.filter(_behind(_read_cursor(cursor, sort), sort))
    limit = query["limit"]
    found = list(rows.order_by(*(f"-{name}" if sort.down else name for name in order))[: limit + 1])
    more = _cursor_of(found[limit - 1], sort) if len(found) > limit else None
    return Response({"results": show_rows(found[:limit], shape, query.get("fields")), "next_cursor": more})


def all_of(rows: object, shape: type[serializers.Serializer], fields: str | None = None) -> Response:
    """Return a short list whole, in the same envelope."""
    return Response({"results": show_rows(rows, shape, fields), "next_cursor": None})


def show_rows(rows: object, shape: type[serializers.Serializer], fields: str | None) -> list:
    """Serialize the wanted fields only. Raises InvalidInput for unknown ones."""
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


def _behind(at: tuple[Any, int], sort: Sort) -> Q:
    value, pk = at
    way = "lt" if sort.down else "gt"
    if sort.read is None:
        return Q(**{f"pk__{way}": pk})
    return Q(**{f"{sort.column}__{way}": value}) | Q(**{sort.column: value, f"pk__{way}": pk})


def _cursor_of(row: Any, sort: Sort) -> str:
    value = "" if sort.read is None else getattr(row, sort.column)
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return urlsafe_b64encode(json.dumps([str(sort), text, row.pk]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: Sort) -> tuple[Any, int]:
    """Return (value, id). Raises InvalidInput if malformed or of another sort."""
    try:
        of, text, pk = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if of != str(sort) or type(text) is not str or type(pk) is not int or not 0 <= pk <= MAX_ID:
            raise ValueError(cursor)
        return (sort.read(text) if sort.read else None), pk
    except (Base64Error, ValueError, TypeError, RecursionError):
        raise InvalidInput([FieldError("/cursor", "bad_cursor")]) from None
