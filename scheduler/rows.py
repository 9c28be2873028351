"""Many rows of few columns, fast: the database hands them over as one JSON text.

A driver builds every value of every row by itself, and a model still more around it. A cycle reads some fifty thousand
rows; parsing one text of them costs a tenth.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import BooleanField, Expression, FloatField, Func, JSONField, QuerySet, TextField


def load_rows(rows: QuerySet, *columns: str | Expression) -> list[list[Any]]:
    """[row][column], as JSON has them: a UUID is text, a moment goes through `seconds`. In the order of `rows`."""
    line = Func(*columns, function="json_build_array", output_field=JSONField())
    sql, params = rows.annotate(line=line).values_list("line").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT json_agg(line)::text FROM ({sql}) AS found(line)", params)  # noqa: S608 (Django wrote it)
        (found,) = cursor.fetchone()
    return json.loads(found) if found else []


Statement = tuple[str, tuple[Any, ...]]
"""SQL and its parameters."""


def build_pairs(tables: Mapping[str, tuple[QuerySet, Expression]]) -> Statement:
    """What `load_pairs` asks: of all rows of each table the id and one more whole number, never empty."""
    parts, values = [], []
    for name, (rows, number) in tables.items():
        found = rows.order_by().annotate(number=number).values_list("pk", "number")
        sql, params = found.query.sql_with_params()
        parts.append(f"SELECT %s, array_agg(a)::text, array_agg(b)::text FROM ({sql}) AS found(a, b)")  # noqa: S608 (as above)
        values += [name, *params]
    return " UNION ALL ".join(parts), tuple(values)


def load_pairs(statement: Statement) -> dict[str, list[np.ndarray]]:
    """{name: [ids, numbers]}, int64 [n], in the same order; all as of one moment."""
    with connection.cursor() as cursor:
        cursor.execute(*statement)
        return {name: [_as_array(ids), _as_array(numbers)] for name, ids, numbers in cursor.fetchall()}


def build_sums(tables: Mapping[str, tuple[QuerySet, Expression]]) -> Statement:
    """What `load_sums` asks: of all rows of each table how many there are, and the sum of one whole number of each."""
    parts, values = [], []
    for name, (rows, number) in tables.items():
        found = rows.order_by().annotate(number=number).values_list("number")
        sql, params = found.query.sql_with_params()
        parts.append(f"SELECT %s, count(*), sum(a)::text FROM ({sql}) AS found(a)")  # noqa: S608 (as above)
        values += [name, *params]
    return " UNION ALL ".join(parts), tuple(values)


def load_sums(statement: Statement) -> dict[str, tuple[int, str | None]]:
    """{name: (how many, their sum)}, all as of one moment."""
    with connection.cursor() as cursor:
        cursor.execute(*statement)
        return {name: (count, total) for name, count, total in cursor.fetchall()}


def _as_array(text: str | None) -> np.ndarray:
    return np.fromstring(text[1:-1], dtype=np.int64, sep=",") if text else np.zeros(0, np.int64)


def seconds(column: str) -> Func:
    """A moment in seconds of the clock."""
    return Func(column, template="extract(epoch FROM %(expressions)s)", output_field=FloatField())


def as_text(column: str) -> Func:
    """A JSON column as it is written, to be parsed once for all rows that are alike."""
    return Func(column, template="%(expressions)s::text", output_field=TextField())


def is_set(column: str) -> Func:
    return Func(column, template="(%(expressions)s IS NOT NULL)", output_field=BooleanField())
