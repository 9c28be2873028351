"""A model of PostgreSQL in memory: rows, row locks and READ COMMITTED, one statement at a time.

Whoever runs a statement is a `Process` (loop.processes) or the test itself. Before each statement, before and after
each commit, a process may be interrupted for others, cut off from the database, or killed. A locking statement waits
for who holds the row, and then sees the row as it is by then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from django.db import IntegrityError, OperationalError
from django.db.models import Model
from django.db.models.base import ModelState
from django.db.models.expressions import DatabaseDefault
from django.db.models.functions import Now

from events.models import Event
from jobs.models import Task
from jobs.states import TASK_FINAL
from quotas.models import Holding, Quota, UserLimit

Row = dict[str, Any]
Key = tuple[type[Model], Any]
Pins = Mapping[str, set]
NO_PINS: Pins = {}
SHARE, EXCLUSIVE = "share", "exclusive"
START = datetime(2026, 1, 1, tzinfo=UTC)
INDEXED: dict[type[Model], str] = {Event: "object_id", Holding: "task", Task: "job_id"}
"""Columns by which rows are found in a moment: there are many of these rows."""


def unique_keys(model: type[Model], row: Row) -> Iterator[tuple]:
    """The unique constraints of the models, as keys that no two rows may share."""
    if model is Task:
        place = row["job_id"], row["role"], row["rank"]
        yield ("one_task_per_attempt", *place, row["attempt"])
        if row["state"] not in TASK_FINAL:
            yield ("one_live_task", *place)
    elif model is Event:
        yield ("one_event_seq", row["kind"], row["object_id"], row["seq"])
    elif model is UserLimit:
        yield ("one_row_for_everyone", row["user_id"] or 0)
    elif model is Quota:
        yield ("one_quota", row["team_id"], row["pool_id"])


class Transaction:
    """number: the version of what it writes. began: when. writes: rows as this transaction has them, None = deleted.
    savepoints: the writes as they were before each.
    """

    def __init__(self, number: int, began: datetime) -> None:
        self.number, self.began = number, began
        self.writes: dict[Key, Row | None] = {}
        self.keys: dict[tuple, Key] = {}
        self.locks: set[Key] = set()
        self.savepoints: list[tuple[dict, dict]] = []


class Database:
    """clock: seconds since START, moved by the world and a little by each statement."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.tables: dict[type[Model], dict[Any, Row]] = {}
        self.keys: dict[tuple, Key] = {}
        self.seqs: dict[tuple[str, int], int] = {}
        self.locks: dict[Key, dict[Transaction, str]] = {}
        self.active: list[Transaction] = []
        self.process: Any = None  # whose statement it is; None: the test's own, which nobody interrupts
        self.own: Transaction | None = None  # the test's own
        self.static: dict[Key, Any] = {}
        self.querysets: dict[type, type] = {}
        self.indexes: dict[type[Model], dict[Any, set]] = {model: {} for model in INDEXED}
        self.observers: list[Callable[[Transaction, dict[Key, Row | None]], None]] = []
        self.statements = 0
        self._last_pk: dict[type[Model], int] = {}
        self._version = 0

    # time

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.clock)

    # transactions

    @property
    def transaction(self) -> Transaction | None:
        return self.process.transaction if self.process is not None else self.own

    @transaction.setter
    def transaction(self, transaction: Transaction | None) -> None:
        if self.process is not None:
            self.process.transaction = transaction
        else:
            self.own = transaction

    def focus_on(self, job: int) -> None:
        """So that others may disturb just this one."""
        if self.process is not None:
            self.process.focus = job

    def pause(self) -> None:
        """Others may come in here."""
        self.statements += 1
        self.clock += 0.0005
        if self.process is not None:
            self.process.pause()

    def begin(self) -> None:
        if self.transaction is None:
            self._version += 1
            self.transaction = Transaction(self._version, self.now)
            self.active.append(self.transaction)
        one = self.transaction
        one.savepoints.append((dict(one.writes), dict(one.keys)))

    def end(self, *, failed: bool) -> None:
        """Leave the innermost block: back to its savepoint, or commit where it is the outermost."""
        one = self.transaction
        if one is None:
            return  # cut off: the server has rolled it back already
        if len(one.savepoints) > 1 or failed:
            before = one.savepoints.pop()
            if failed:
                one.writes, one.keys = before
            if not one.savepoints:
                self.rollback()
            return
        self.pause()  # a crash here comes before the commit
        self.commit()
        self.pause()  # and here after it, when the answer is lost

    def commit(self) -> None:
        one = self.transaction
        assert one is not None
        before: dict[Key, Row | None] = {}
        for key, row in one.writes.items():
            model, pk = key
            table = self.tables.setdefault(model, {})
            old = before[key] = table.get(pk)
            if old is not None:
                for unique in unique_keys(model, old):
                    if self.keys.get(unique) == key:
                        del self.keys[unique]
            if row is None:
                table.pop(pk, None)
                continue
            row["_version"] = one.number
            table[pk] = row
            if model in INDEXED:
                self.indexes[model].setdefault(row[INDEXED[model]], set()).add(pk)
            for unique in unique_keys(model, row):
                self.keys[unique] = key
            if model is Event:
                of = row["kind"], row["object_id"]
                self.seqs[of] = max(self.seqs.get(of, 0), row["seq"])
        for watch in self.observers:
            watch(one, before)
        self._release(one)

    def rollback(self) -> None:
        if (one := self.transaction) is not None:
            self._release(one)

    def _release(self, one: Transaction) -> None:
        for key in one.locks:
            held = self.locks[key]
            del held[one]
            if not held:
                del self.locks[key]
        self.active.remove(one)
        self.transaction = None

    # locks

    def may_lock(self, one: Transaction, key: Key, mode: str) -> list[Transaction]:
        """Who is in the way."""
        held = self.locks.get(key, {})
        return [other for other, theirs in held.items() if other is not one and EXCLUSIVE in (mode, theirs)]

    def take_lock(self, key: Key, mode: str) -> None:
        one = self.transaction
        assert one is not None, "rows are locked inside a transaction only"
        self._wait(lambda: self.may_lock(one, key, mode))
        held = self.locks.setdefault(key, {})
        if held.get(one) != EXCLUSIVE:
            held[one] = mode
        one.locks.add(key)

    def _wait(self, in_the_way: Callable[[], list[Transaction]]) -> None:
        while in_the_way():
            if self.process is None:
                raise AssertionError("the test waits for a transaction that nobody ends")
            self.process.wait_for(in_the_way)

    # statements; who runs one calls `pause` first

    def rows(
        self, model: type[Model], where: Callable[[Row], Any] = lambda row: True, pinned: Pins = NO_PINS
    ) -> list[Row]:
        """What this transaction sees now, in no order that may be counted on. pinned: {column: its only values}."""
        table = self._narrow(model, pinned)
        one = self.transaction
        mine = {pk: row for (kind, pk), row in one.writes.items() if kind is model} if one and one.writes else {}
        if not mine:
            return [row for row in table.values() if where(row)]
        seen = [mine.get(pk, row) for pk, row in table.items()] + [row for pk, row in mine.items() if pk not in table]
        return [row for row in seen if row is not None and where(row)]

    def _narrow(self, model: type[Model], pinned: Pins) -> dict[Any, Row]:
        """The committed rows among which those of these values are."""
        table = self.tables.get(model, {})
        keys = pinned.get(model._meta.pk.attname)  # type: ignore[union-attr]
        if keys is None and (column := INDEXED.get(model)) in pinned:
            keys = set().union(*(self.indexes[model].get(value, ()) for value in pinned[column]))
        return table if keys is None else {pk: table[pk] for pk in sorted(keys) if pk in table}

    def get(self, model: type[Model], pk: Any) -> Row | None:
        one = self.transaction
        if one is not None and (model, pk) in one.writes:
            return one.writes[model, pk]
        return self.tables.get(model, {}).get(pk)

    def lock(
        self, model: type[Model], where: Callable[[Row], Any], mode: str = EXCLUSIVE, pinned: Pins = NO_PINS
    ) -> list[Row]:
        """Row by row in the order of the primary key; each is looked at again once it is locked."""
        found, key = [], model._meta.pk.attname  # type: ignore[union-attr]
        for pk in sorted(row[key] for row in self.rows(model, where, pinned)):
            self.take_lock((model, pk), mode)
            row = self.get(model, pk)
            if row is not None and where(row):
                found.append(row)
        return found

    def update(
        self,
        model: type[Model],
        where: Callable[[Row], Any],
        changes: Row | Callable[[Row], Row],
        pinned: Pins = NO_PINS,
    ) -> int:
        """changes: also by the row as it is once it is locked."""
        with self.statement():
            found = self.lock(model, where, pinned=pinned)
            for row in found:
                self._write(model, {**row, **self.resolve(model, changes(row) if callable(changes) else changes)})
        return len(found)

    def insert(self, model: type[Model], values: Row) -> Row:
        row = {**blank(model, self.now), **self.resolve(model, values)}
        pk = model._meta.pk.attname  # type: ignore[union-attr]
        if row.get(pk) is None:
            row[pk] = self._last_pk[model] = self._last_pk.get(model, 0) + 1
        with self.statement():
            for unique in unique_keys(model, row):
                self._check_unique(unique)
            self._write(model, row)
        return row

    def delete(self, model: type[Model], where: Callable[[Row], Any], pinned: Pins = NO_PINS) -> None:
        with self.statement():
            for row in self.lock(model, where, pinned=pinned):
                assert self.transaction is not None
                self.transaction.writes[model, row[model._meta.pk.attname]] = None  # type: ignore[union-attr]

    def put(self, model: type[Model], pk: Any, changes: Row) -> None:
        """What the world does to a row, in one statement."""
        self.update(model, lambda row: row[model._meta.pk.attname] == pk, changes)  # type: ignore[union-attr]

    def begin_at(self, model: type[Model], pk: int) -> None:
        """The next new row gets this number."""
        self._last_pk[model] = pk

    def statement(self) -> "Statement":
        return Statement(self)

    def resolve(self, model: type[Model], values: Row) -> Row:
        """Values as the server stores them: its own clock for Now(), keys for objects."""
        stored = {}
        for name, value in values.items():
            if isinstance(value, Now | DatabaseDefault):  # the only default that the database makes is Now()
                value = self.now
            if isinstance(value, Enum):
                value = value.value
            if isinstance(value, Model):
                name, value = model._meta.get_field(name).attname, value.pk  # type: ignore[union-attr]
            stored[name] = value
        return stored

    def _write(self, model: type[Model], row: Row) -> None:
        one = self.transaction
        assert one is not None
        key = model, row[model._meta.pk.attname]  # type: ignore[union-attr]
        one.writes[key] = row
        for unique in unique_keys(model, row):
            one.keys[unique] = key

    def _check_unique(self, unique: tuple) -> None:
        one = self.transaction
        assert one is not None
        self._wait(lambda: [other for other in self.active if other is not one and unique in other.keys])
        for keys in (self.keys, one.keys):
            if (key := keys.get(unique)) is not None:
                row = self.get(*key)
                if row is not None and unique in unique_keys(key[0], row):
                    raise IntegrityError(f"duplicate key: {unique}")

    # objects as the product's code knows them

    def build(self, model: type[Model], row: Row, **linked: Model | None) -> Any:
        """An instance as Django's would be, read just now; foreign keys to `static` rows are there already."""
        if (fixed := self.static.get((model, row[model._meta.pk.attname]))) is not None:  # type: ignore[union-attr]
            return fixed
        one = model.__new__(model)
        one.__dict__.update(row)
        state = ModelState()
        state.db, state.adding = "default", False
        links = {}
        for name, attname, target in links_of(model):
            if (found := self.static.get((target, row[attname]))) is not None:
                links[name] = found
        state.fields_cache = {**links, **linked}  # type: ignore[assignment]
        one.__dict__["_state"] = state
        return one

    def fix(self, *rows: Model) -> None:
        """Rows that nobody changes (teams, people, pools): kept as the objects that they are."""
        for row in rows:
            self.static[type(row), row.pk] = row
            columns = {name: value for name, value in row.__dict__.items() if name != "_state"}
            self.tables.setdefault(type(row), {})[row.pk] = {**blank(type(row), self.now), **columns, "_version": 0}

    def all_fixed(self, model: type[Model]) -> list[Any]:
        return [row for (kind, _), row in self.static.items() if kind is model]


class Statement:
    """A transaction of its own, where none is open."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __enter__(self) -> None:
        self.alone = self.database.transaction is None
        if self.alone:
            self.database.begin()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if self.alone and self.database.transaction is not None:
            if kind is None:
                self.database.commit()
            else:
                self.database.rollback()


class Atomic:
    """What `transaction.atomic` does in the model: its blocks are the product's own."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def enter(self, _block: object) -> None:
        self.database.begin()

    def leave(self, _block: object, kind: type | None, error: BaseException | None, trace: object) -> None:
        self.database.end(failed=kind is not None)


class ConnectionLost(OperationalError):
    """The server has rolled back what was open."""


_blanks: dict[type[Model], list[tuple[str, Any]]] = {}
_links: dict[type[Model], list[tuple[str, str, type[Model]]]] = {}


def blank(model: type[Model], now: datetime) -> Row:
    """A row with nothing but defaults."""
    if model not in _blanks:
        _blanks[model] = [
            (field.attname, field.db_default if isinstance(field.db_default, Now) else field.get_default)
            for field in model._meta.concrete_fields
        ]
    return {name: now if isinstance(value, Now) else value() for name, value in _blanks[model]}


def links_of(model: type[Model]) -> Iterable[tuple[str, str, type[Model]]]:
    if model not in _links:
        _links[model] = [
            (field.name, field.attname, field.related_model)  # type: ignore[misc]
            for field in model._meta.concrete_fields
            if field.is_relation
        ]
    return _links[model]
