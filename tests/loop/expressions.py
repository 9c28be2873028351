"""Django's lookups and expressions, as PostgreSQL would take them, for rows of the model of the database."""

import json
import operator
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.models import Aggregate, Case, Count, Exists, F, Func, Max, Model, OuterRef, Q, QuerySet, Sum, Value
from django.db.models.expressions import CombinedExpression, DatabaseDefault
from django.db.models.functions import Cast, Coalesce, Greatest, Now

from jobs.models import Job
from tests.loop.database import INDEXED, Database, Row

Read = Callable[[Row], Any]
Condition = Q | Exists | tuple[str, Any]
"""A tuple: (lookup, what is wanted)."""
LOOKUPS: dict[str, Callable[[Any, Any], bool]] = {
    "exact": operator.eq,
    "in": lambda value, wanted: value in wanted,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class Reader:
    """Reads rows of one model; what belongs to them in other tables is read as of now, too."""

    def __init__(self, database: Database, model: type[Model]) -> None:
        self.db, self.model = database, model
        self.outer: Callable[[str], Any] | None = None  # reads the row that a subquery is about

    # conditions

    def test_of(self, condition: Condition) -> Read:
        if isinstance(condition, tuple):
            return self.lookup(*condition)
        if isinstance(condition, Exists):
            return lambda row: self._exists(condition.query.rows, row)  # type: ignore[attr-defined]
        tests = [self.test_of(child) for child in condition.children]
        enough = any if condition.connector == Q.OR else all
        return lambda row: enough(test(row) for test in tests) != condition.negated

    def lookup(self, key: str, wanted: Any) -> Read:
        """key: as in `filter`, with or without the name of a lookup."""
        path, name = split_lookup(self.model, key)
        read = self.reader_of(path)
        if name == "isnull" or (name == "exact" and wanted is None):
            return lambda row, is_null=name == "exact" or wanted: (read(row) is None) == is_null
        compare = LOOKUPS[name]
        if hasattr(wanted, "resolve_expression") and not isinstance(wanted, QuerySet):
            value = self.value_of(wanted)
            return lambda row: known(compare, read(row), value(row))
        plain = plain_values(self.model, path, name, wanted)
        if name == "exact":
            return lambda row: read(row) == plain
        return lambda row: known(compare, read(row), plain)

    def _exists(self, inner: Any, row: Row) -> bool:
        inner.reader.outer = lambda path: self.reader_of(path)(row)
        return bool(inner.found())

    # values

    def reader_of(self, path: str) -> Read:
        """Reads what a path like `job__team` leads to; the key of what it names at its end."""
        steps, name = resolve(self.model, path)
        if not steps:
            return lambda row: row[name]
        return lambda row: (found := self._follow(row, steps)) and found[name]

    def _follow(self, row: Row | None, steps: tuple[tuple[str, type[Model]], ...]) -> Row | None:
        for name, model in steps:
            row = self.db.get(model, row[name]) if row is not None and row[name] is not None else None
        return row

    def value_of(self, expression: Any) -> Read:
        """Reads an expression of one row. expression: also a plain value."""
        if isinstance(expression, OuterRef):
            return lambda row: self.outer and self.outer(expression.name)  # type: ignore[attr-defined]
        if isinstance(expression, F):
            return self.reader_of(expression.name)  # type: ignore[attr-defined]
        if isinstance(expression, Value):
            return lambda row: expression.value
        if isinstance(expression, Now | DatabaseDefault):  # the only default that the database makes is Now()
            return lambda row: self.db.now
        if isinstance(expression, Case):
            return self._case(expression)
        if not isinstance(expression, Func | CombinedExpression):
            return lambda row: expression
        parts = [self.value_of(each) for each in expression.get_source_expressions()]
        if isinstance(expression, CombinedExpression):
            combine = {"+": operator.add, "-": operator.sub}[expression.connector]
            return lambda row: combine(*(part(row) for part in parts))
        if isinstance(expression, Greatest):
            return lambda row: max(value for part in parts if (value := part(row)) is not None)
        if isinstance(expression, Cast):
            return parts[0]
        said = expression.extra.get("template") or expression.extra.get("function") or expression.template
        return self._by_template(said, parts)

    def _case(self, case: Case) -> Read:
        ways = [(self.test_of(when.condition), self.value_of(when.result)) for when in case.cases]
        default = self.value_of(case.default)
        return lambda row: next((read for test, read in ways if test(row)), default)(row)

    def _by_template(self, template: str, parts: list[Read]) -> Read:
        """A function of the product's own, which it writes as SQL."""
        if "clock_timestamp" in template:
            return lambda row: self.db.now
        if "jobs_task" in template and "jobs_job" in template:  # of a task and its job
            return lambda row: row["_version"] << 32 | self.db.get(Job, row["job_id"])["_version"]  # type: ignore[index]
        if "xmin" in template:
            return lambda row: row["_version"]
        if template == "json_build_array":
            return lambda row: [part(row) for part in parts]
        (part,) = parts
        if "IS NOT NULL" in template:
            return lambda row: part(row) is not None
        if "::text" in template:
            return lambda row: json.dumps(part(row))
        if "extract(epoch" in template:
            return lambda row: (value := part(row)) and value.timestamp()
        raise NotImplementedError(f"the model of the database knows no {template}")

    # over many rows

    def aggregate(self, expression: Any, rows: list[Row]) -> Any:
        if isinstance(expression, Coalesce):
            found = (self.aggregate(each, rows) for each in expression.source_expressions)
            return next((value for value in found if value is not None), None)
        if not isinstance(expression, Aggregate):
            return self.value_of(expression)({})
        read = self.value_of(expression.source_expressions[0])
        known = [value for row in rows if (value := read(row)) is not None]
        if isinstance(expression, Count):
            return len(known)
        if not known:
            return expression.default and self.value_of(expression.default)({})  # type: ignore[attr-defined]
        if isinstance(expression, Sum):
            return sum(known)
        if isinstance(expression, Max):
            return max(known)
        raise NotImplementedError(f"the model of the database knows no {expression}")


def is_aggregate(expression: Any) -> bool:
    return isinstance(expression, Aggregate)


def pins(condition: Condition, model: type[Model]) -> Iterator[tuple[str, set]]:
    """(column, the only values that may pass), so that not all rows need to be looked at."""
    if isinstance(condition, Q) and condition.connector == Q.AND and not condition.negated:
        for child in condition.children:
            yield from pins(child, model)
    elif isinstance(condition, tuple) and condition[1] is not None:
        path, name = split_lookup(model, condition[0])
        steps, column = resolve(model, path)
        if name in ("exact", "in") and not steps and column in (model._meta.pk.attname, INDEXED.get(model)):
            values = plain_values(model, path, name, condition[1])
            yield column, values if name == "in" else {values}


def plain_values(model: type[Model], path: str, name: str, wanted: Any) -> Any:
    field = field_of(model, path)
    if name != "in":
        return plain_value(field, wanted)
    return {plain_value(field, value) for value in (wanted.answer() if isinstance(wanted, QuerySet) else wanted)}  # type: ignore[attr-defined]


def plain_value(field: Any, value: Any) -> Any:
    """As the column stores it."""
    if isinstance(value, int | datetime | UUID):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Model):
        return value.pk
    if isinstance(value, tuple | dict):  # of a subquery
        (value,) = value.values() if isinstance(value, dict) else value
        return value
    return value if field.is_relation else field.to_python(value)


@lru_cache(None)
def split_lookup(model: type[Model], key: str) -> tuple[str, str]:
    path, _, name = key.rpartition("__")
    return (path, name) if name in LOOKUPS or name == "isnull" else (key, "exact")


@lru_cache(None)
def resolve(model: type[Model], path: str) -> tuple[tuple[tuple[str, type[Model]], ...], str]:
    """(key column and model of each step on the way, the column at its end)"""
    steps, names = [], path.split("__")
    for name in names[:-1]:
        field = _field(model, name)
        if field.concrete:
            steps.append((field.attname, field.related_model))
        elif field.one_to_one and field.field.primary_key:  # the other row has this one's key
            steps.append((model._meta.pk.attname, field.related_model))
        else:
            raise NotImplementedError(f"the model of the database follows no {name} of {model.__name__}")
        model = field.related_model
    return tuple(steps), _field(model, names[-1]).attname


@lru_cache(None)
def field_of(model: type[Model], path: str) -> Any:
    steps, _ = resolve(model, path)
    return _field(steps[-1][1] if steps else model, path.rpartition("__")[2] or path)


@lru_cache(None)
def _field(model: type[Model], name: str) -> Any:
    if name == "pk":
        return model._meta.pk
    fields = {field.attname: field for field in model._meta.concrete_fields}
    return fields.get(name) or model._meta.get_field(name)


def known(compare: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    """A comparison with NULL is not true."""
    return value is not None and wanted is not None and compare(value, wanted)
