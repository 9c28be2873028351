"""Django's QuerySet on the model of the database: the statements of the product run here as they stand.

Each method that asks the database is one statement: others may come in before it. What it does not know, it refuses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F, Model, Q, QuerySet, UUIDField

from jobs.models import Job, Task
from tests.loop.database import EXCLUSIVE, NO_PINS, SHARE, Database, Pins, Row
from tests.loop.expressions import Reader, is_aggregate, pins

QUERY_SQL = "(a query of the model)"
"""What a query is in SQL that is written by hand; the query itself is the parameter."""


def queryset_of(model: type[Model], base: type[QuerySet], database: Database, dice: Random) -> "ModelQuerySet":
    """The model's own QuerySet, which keeps its methods such as `live` or `waiting`, on this database."""
    kind = database.querysets.get(base)
    if kind is None:
        members = {"database": database, "dice": dice}
        kind = database.querysets[base] = type(f"Model{base.__name__}", (ModelQuerySet, base), members)
    return kind(model)


class ModelQuerySet(QuerySet):
    """columns: of the answers, None for objects. grouped_by: those of them that make a group. locks: of its rows."""

    database: Database
    dice: Random
    tests: tuple[Callable[[Row], Any], ...] = ()
    pinned: Pins = NO_PINS
    order: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    shape: Callable[[Any, tuple, tuple], Any]
    named: Mapping[str, Any] = {}
    grouped_by: tuple[str, ...] | None = None
    is_distinct = False
    most: int | None = None
    locks = ""
    related: tuple[str, ...] = ()
    prefetched: tuple[str, ...] = ()
    fields: frozenset[str] | None = None

    def __init__(self, model: Any = None, query: Any = None, using: Any = None, hints: Any = None) -> None:
        self.model = model
        self._db, self._hints, self._result_cache, self._known_related_objects = using, hints or {}, None, {}
        self.reader = Reader(self.database, model)

    def _with(self, **changes: Any) -> Any:
        clone = object.__new__(type(self))
        clone.__dict__ = self.__dict__ | {"_result_cache": None} | changes
        return clone

    # what is asked

    def all(self) -> Any:
        return self._with()

    def none(self) -> Any:
        return self._with(tests=(lambda row: False,))

    def filter(self, *conditions: Any, **lookups: Any) -> Any:
        tests, pinned = [*self.tests], dict(self.pinned)
        for child in (*conditions, *lookups.items()):
            tests.append(self.reader.test_of(child))
            for column, values in pins(child, self.model):
                pinned[column] = pinned[column] & values if column in pinned else values
        return self._with(tests=tuple(tests), pinned=pinned)

    def exclude(self, *conditions: Any, **lookups: Any) -> Any:
        return self.filter(~Q(*conditions, **lookups))

    def order_by(self, *names: str) -> Any:
        return self._with(order=names)

    def select_related(self, *names: str) -> Any:
        return self._with(related=names)

    def prefetch_related(self, *names: str) -> Any:
        return self._with(prefetched=names)

    def select_for_update(self, **how: Any) -> Any:
        return self._with(locks=EXCLUSIVE)

    def only(self, *names: str) -> Any:
        columns = {self.model._meta.get_field(name).attname if name != "pk" else name for name in names}
        return self._with(fields=frozenset(columns | {self.model._meta.pk.attname}))

    def using(self, alias: Any) -> Any:
        return self._with()

    def distinct(self) -> Any:
        return self._with(is_distinct=True)

    def annotate(self, **named: Any) -> Any:
        keys = self.columns if self.columns is not None and any(map(is_aggregate, named.values())) else self.grouped_by
        columns = (*self.columns, *named) if self.columns is not None else None
        return self._with(named=self.named | named, grouped_by=keys, columns=columns)

    def values_list(self, *columns: str, flat: bool = False) -> Any:
        return self._with(columns=columns, shape=(lambda names, line: line[0]) if flat else lambda names, line: line)

    def values(self, *columns: str) -> Any:
        columns = columns or tuple(field.attname for field in self.model._meta.concrete_fields)
        return self._with(columns=columns, shape=lambda names, line: dict(zip(names, line, strict=True)))

    def __getitem__(self, part: Any) -> Any:
        if isinstance(part, slice):
            assert not part.start, "the model of the database begins with the first"
            return self._with(most=part.stop)
        return self._with(most=part + 1).answer_once()[part]

    @property
    def query(self) -> "SqlOfQuery":
        return SqlOfQuery(self)

    # what is answered

    def _fetch_all(self) -> None:
        if self._result_cache is None:
            self._result_cache = self.answer_once()

    def answer_once(self) -> list:
        """One statement."""
        self._pause()
        return self.answer()

    def answer(self) -> list:
        """As part of a statement that has begun."""
        rows = self.found()
        if self.columns is None:
            built = [self._build(row) for row in rows]
            for name in self.prefetched:
                self._prefetch(built, name)
            return built
        lines = self._grouped(rows) if self.grouped_by is not None else self._lines(rows)
        if self.is_distinct:
            lines = list(dict.fromkeys(lines))
        return [self.shape(self.columns, line) for line in lines]  # type: ignore[call-arg]

    def found(self) -> list[Row]:
        """Its rows, locked if that is asked."""
        if self.locks:
            rows = self.database.lock(self.model, self._passes, self.locks, self.pinned)
        else:
            rows = self.database.rows(self.model, self._passes, self.pinned)
        for name in reversed(self.model._meta.ordering if self.order is None else self.order):
            read = self.reader.reader_of(name.removeprefix("-"))
            rows.sort(key=lambda row, read=read: nulls_last(read(row)), reverse=name.startswith("-"))
        if self.model in (Job, Task) and rows:
            self.database.focus_on(rows[0]["id" if self.model is Job else "job_id"])
        return rows[: self.most]

    def get(self, *conditions: Any, **lookups: Any) -> Any:
        found = self.filter(*conditions, **lookups).answer_once()
        if len(found) == 1:
            return found[0]
        raise (self.model.MultipleObjectsReturned if found else self.model.DoesNotExist)(self.model.__name__)  # type: ignore[attr-defined]

    def first(self) -> Any:
        ordered = self if self.order or (self.order is None and self.model._meta.ordering) else self.order_by("pk")
        return next(iter(ordered[:1]), None)

    def exists(self) -> bool:
        return self.count() > 0

    def count(self) -> int:
        self._pause()
        return len(self.answer() if self.is_distinct else self.found())

    def in_bulk(self, keys: Iterable[Any]) -> dict:
        return {row.pk: row for row in self.filter(pk__in=list(keys))}

    def aggregate(self, **named: Any) -> dict[str, Any]:
        self._pause()
        rows = self.found()
        return {name: self.reader.aggregate(expression, rows) for name, expression in named.items()}

    def raw(self, sql: str, params: Sequence[Any] = ()) -> list:
        assert sql.endswith("FOR SHARE"), f"the model of the database knows no {sql}"
        return params[0]._with(locks=SHARE).answer_once()

    # what is written

    def update(self, **changes: Any) -> int:
        self._pause()
        changes = {self.model._meta.get_field(name).attname: value for name, value in changes.items()}
        if not any(hasattr(value, "resolve_expression") for value in changes.values()):
            return self.database.update(self.model, self._passes, changes, self.pinned)
        reads = {name: self.reader.value_of(value) for name, value in changes.items()}
        new = lambda row: {name: read(row) for name, read in reads.items()}  # noqa: E731
        return self.database.update(self.model, self._passes, new, self.pinned)

    def delete(self) -> None:
        self._pause()
        self.database.delete(self.model, self._passes, self.pinned)

    def create(self, **values: Any) -> Any:
        return self.bulk_create([self.model(**values)])[0]

    def bulk_create(self, objs: Iterable[Any], **how: Any) -> list:
        objs = list(objs)
        if objs:
            self._pause()
            with self.database.statement():
                for one in objs:
                    self._insert(one)
        return objs

    def get_or_create(self, defaults: dict[str, Any] | None = None, **lookups: Any) -> tuple[Any, bool]:
        if found := self.filter(**lookups).answer_once():
            return found[0], False
        try:
            return self.create(**lookups, **(defaults or {})), True
        except IntegrityError:  # somebody else was first
            return self.get(**lookups), False

    def _insert(self, one: Any) -> None:
        for field in self.model._meta.concrete_fields:
            if isinstance(field, UUIDField) and field.has_default():
                setattr(one, field.attname, UUID(int=self.dice.getrandbits(128)))  # the same in each life of a seed
        columns = {field.attname for field in self.model._meta.concrete_fields}
        row = self.database.insert(self.model, {name: one.__dict__[name] for name in columns & one.__dict__.keys()})
        one.pk, one._state.adding, one._state.db = row[self.model._meta.pk.attname], False, "default"

    # shared

    def _pause(self) -> None:
        pinned = self.pinned.get("id") if self.model is Job else self.pinned.get("job_id") if self.model is Task else ()
        if pinned:
            self.database.focus_on(min(pinned))
        self.database.pause()

    def _passes(self, row: Row) -> bool:
        return all(test(row) for test in self.tests)

    def _lines(self, rows: list[Row]) -> Iterator[tuple]:
        reads = [self.reader.value_of(self.named.get(column) or F(column)) for column in self.columns or ()]
        return (tuple(read(row) for read in reads) for row in rows)

    def _grouped(self, rows: list[Row]) -> Iterator[tuple]:
        assert self.grouped_by is not None
        reads, groups = [self.reader.reader_of(key) for key in self.grouped_by], dict[str, list[Row]]()
        for row in rows:
            groups.setdefault(repr([read(row) for read in reads]), []).append(row)
        for some in groups.values():
            own = (self.reader.aggregate(self.named[name], some) for name in self.columns or () if name in self.named)
            yield (*(read(some[0]) for read in reads), *own)

    def _build(self, row: Row) -> Any:
        one = self.database.build(self.model, row)
        for name in self.related:
            self._link(one, name)
        if self.fields is not None:
            for column in one.__dict__.keys() - self.fields - {"_state"}:
                del one.__dict__[column]
        return one

    def _link(self, one: Any, path: str) -> None:
        """Load what a path like `node__pool` leads to, as a part of this statement."""
        for name in path.split("__"):
            field = one._meta.get_field(name)
            key = getattr(one, field.attname)
            if not field.is_cached(one):
                row = self.database.get(field.related_model, key) if key is not None else None
                field.set_cached_value(one, row and self.database.build(field.related_model, row))
            one = field.get_cached_value(one)
            if one is None:
                return

    def _prefetch(self, built: list[Any], name: str) -> None:
        """One more statement."""
        field = self.model._meta.get_field(name)
        if not field.many_to_many:
            self.database.pause()
            for one in built:
                self._link(one, name)
        elif built:
            self.database.pause()
            through, mine, theirs = field.remote_field.through, field.m2m_column_name(), field.m2m_reverse_name()
            for one in built:
                keys = sorted(row[theirs] for row in self.database.rows(through) if row[mine] == one.pk)
                rows = [self.database.get(field.related_model, key) for key in keys]
                linked = [self.database.build(field.related_model, row) for row in rows if row is not None]
                one.__dict__.setdefault("_prefetched_objects_cache", {})[name] = linked


def nulls_last(value: Any) -> tuple[bool, Any]:
    return (True, 0) if value is None else (False, value)


class SqlOfQuery:
    def __init__(self, rows: ModelQuerySet) -> None:
        self.rows = rows

    def clone(self) -> "SqlOfQuery":
        return self

    exists = clone

    def sql_with_params(self) -> tuple[str, tuple[ModelQuerySet]]:
        return QUERY_SQL, (self.rows,)
