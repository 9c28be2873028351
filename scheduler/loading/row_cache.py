"""Cache rows between cycles, so that each reads only changes. TESSERA_ROW_CACHE=0 turns it off.

    with caching(read_change_mark()):
        rows = cached_rows("nodes", NodeRow, "pk", "name")    # unchanged rows are the same objects as last time
        known = memo_for("machines", rules)                   # what was built from them

PostgreSQL stores in each row version its transaction's number (xmin); rows with the same xmin are not read again.
Allocation ignores the cache. xmin can repeat after a crash of the server: the cache serves only connections that are
older than its last use, and ends after CLEAR_AFTER_S.
With 10,000 waiting jobs and 8,000 cards a cycle takes 185 + 41 ms of the processors of worker and database with it, and
549 + 147 ms without (`bin/bench cycle --scales 1 --rounds 12`).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import count, repeat
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models import BigIntegerField, Expression, Func, Model, QuerySet

from accounts.models import Team
from cluster.models import Gpu, Maintenance, Node, Pool, Window
from jobs.models import Job, Task
from quotas.models import Holding, Quota, UserLimit
from scheduler.loading.json_rows import Statement, build_pairs, load_pairs, load_rows

Row = TypeVar("Row")

CLEAR_AFTER_S = 600.0


ROW_VERSION = '"{table}".xmin::text::bigint'
"""SQL of a row's version."""


def read_version(table: str) -> Func:
    return Func(template=ROW_VERSION.format(table=table), output_field=BigIntegerField())


WITH_JOB = Func(
    "job__kind",  # joins the job
    template='("jobs_task".xmin::text::bigint << 32 | "jobs_job".xmin::text::bigint)',
    output_field=BigIntegerField(),
)

TABLES: dict[str, tuple[Callable[[], Any], Any]] = {
    "queue": (lambda: Job.objects.waiting().filter(stop_requested_at__isnull=True), read_version("jobs_job")),
    "holders": (lambda: Task.objects.holding(), WITH_JOB),
    "holdings": (lambda: Holding.objects.live(), read_version("quotas_holding")),
    "nodes": (lambda: Node.objects.present(), read_version("cluster_node")),
    "gpus": (lambda: Gpu.objects.present(), read_version("cluster_gpu")),
}
"""{name: (rows, row version)}. A version that covers several rows changes with each of them."""
SMALL_TABLES: tuple[type[Model], ...] = (Pool, Team, Quota, UserLimit, Window, Maintenance, Maintenance.nodes.through)
"""Not cached; a change of theirs calls for a cycle, too."""


@dataclass(frozen=True, eq=False)
class Versions:
    """Row versions by ascending id: int64 [n]."""

    ids: np.ndarray
    numbers: np.ndarray

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Versions)
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.numbers, other.numbers)
        )

    def renumbered(self, numbers: Mapping[int, tuple[int, int]]) -> "Versions":
        """Apply {id: (old, new)} to matching versions."""
        if not numbers:
            return self
        ids, pairs = np.array(list(numbers)), np.array(list(numbers.values()))
        places, same = Versions(ids, pairs[:, 0]).same_as(self)
        now = self.numbers.copy()
        now[places[same]] = pairs[same, 1]
        return Versions(self.ids, now)

    def same_as(self, old: "Versions") -> tuple[np.ndarray, np.ndarray]:
        """Return indices in `old`, int [n], and equality, bool [n]."""
        if not len(old.ids):
            return np.zeros(len(self.ids), dtype=np.int64), np.zeros(len(self.ids), dtype=bool)
        places = np.minimum(np.searchsorted(old.ids, self.ids), len(old.ids) - 1)
        return places, (old.ids[places] == self.ids) & (old.numbers[places] == self.numbers)


ChangeMark = dict[str, Versions]
"""Row versions of each table."""


def read_change_mark(*names: str) -> ChangeMark:
    """Read the versions of all rows that a cycle depends on, in one statement, or of these TABLES only."""
    found = {}
    for name, (ids, numbers) in load_pairs(_build_statement(names)).items():
        order = np.argsort(ids, kind="stable")
        found[name] = Versions(ids[order], numbers[order])
    return found


@cache
def _build_statement(names: tuple[str, ...]) -> Statement:
    return build_pairs({name: table for name, table in list_tables().items() if not names or name in names})


def list_tables() -> dict[str, tuple[QuerySet, Expression]]:
    """Return {name: (rows, row version)} of all tables that a cycle depends on."""
    tables = {name: (rows(), number) for name, (rows, number) in TABLES.items()}
    small = {model._meta.db_table: model for model in SMALL_TABLES}
    return tables | {table: (model._default_manager.all(), read_version(table)) for table, model in small.items()}


def cached_rows(name: str, make: Callable[..., Row], *columns: str | Expression) -> list[Row]:
    """Load a table's rows by id; the same list if unchanged."""
    rows, number = TABLES[name]
    memory = _current.get()
    if memory is None:
        return [make(*row) for row in load_rows(rows().order_by("pk"), *columns)]
    return memory.table((name, make)).read(memory.mark[name], rows(), (number, *columns), make)


def match_rows(rows: Sequence[Any], before: Sequence[Any]) -> np.ndarray:
    """Return [n] each object's index in `before`, or -1."""
    places = dict(zip(map(id, before), count()))
    return np.fromiter(map(places.get, map(id, rows), repeat(-1)), np.int64, len(rows))


def memo_for(name: str, key: Any = None) -> dict:
    """Return a dict that lives as long as cache and `key`."""
    memory = _current.get()
    return {} if memory is None else memory.memo(name, key)


def cached_columns(
    name: str,
    numbers: Mapping[int, tuple[int, int]],
    make: Callable[..., Row],
    rows: Mapping[int, Row],
    *,
    settled: bool,
) -> None:
    """Update the cache after writing rows.

    numbers: {id: (old, new version)}. rows: {id: row}. settled: no later look need notice.
    """
    memory = _current.get()
    if memory is not None:
        memory.rewrite(name, numbers, make, rows)
        if settled:
            memory.mark[name] = memory.mark[name].renumbered(numbers)


@contextmanager
def caching(mark: ChangeMark) -> Iterator[None]:
    """Use the row cache within the block, if it is on. mark: just read."""
    global _last
    if not settings.TESSERA_ROW_CACHE:
        yield
        return
    memory, _last = _last, None  # errors and other threads start afresh
    if memory is None or not memory.lasts():
        memory = RowCache()
    memory.mark = mark
    token = _current.set(memory)
    try:
        yield
    finally:
        _current.reset(token)
    memory.used_at = time.monotonic()
    _last = memory


def clear_cache() -> None:
    global _last
    _last = None


@dataclass
class Table:
    """A table's rows and versions."""

    versions: Versions = field(default_factory=lambda: Versions(np.zeros(0, np.int64), np.zeros(0, np.int64)))
    rows: list = field(default_factory=list)

    def read(self, now: Versions, rows: QuerySet, columns: tuple, make: Callable[..., Row]) -> list[Row]:
        places, same = now.same_as(self.versions)
        if len(now.ids) == len(self.versions.ids) and same.all():
            return self.rows
        changed = now.ids[~same].tolist()
        few = rows.filter(pk__in=changed) if 2 * len(changed) < len(now.ids) else rows
        fresh = {pk: (number, make(*row)) for pk, number, *row in load_rows(few, "pk", *columns)} if changed else {}
        self._take_over(now, places, same, fresh)
        return self.rows

    def _take_over(self, now: Versions, places: np.ndarray, same: np.ndarray, fresh: dict) -> None:
        """Merge fresh rows; omit deleted ones."""
        old, found, numbers = as_objects(self.rows), np.empty(len(now.ids), dtype=object), now.numbers.copy()
        there, moved = same.copy(), len(now.ids) != len(self.rows)
        found[same] = old[places[same]]
        for at in (~same).nonzero()[0].tolist():
            pk = int(now.ids[at])
            if pk in fresh:
                numbers[at], row = fresh[pk]
                was = self.rows[places[at]] if self.rows and self.versions.ids[places[at]] == pk else None
                found[at], there[at] = was if was == row else row, True
                moved |= found[at] is not was
        if moved or not there.all():
            self.rows = found[there].tolist()
        self.versions = Versions(now.ids[there], numbers[there])

    def rewrite(self, numbers: Mapping[int, tuple[int, int]], rows: Mapping[int, Any]) -> None:
        before, self.versions = self.versions, self.versions.renumbered(numbers)
        if rows:
            changed = (before.numbers != self.versions.numbers).nonzero()[0].tolist()
            self.rows = self.rows.copy()
            for at in changed:
                self.rows[at] = rows[int(before.ids[at])]


def as_objects(rows: list) -> np.ndarray:
    """Return [n] objects, not unpacked tuples."""
    found = np.empty(len(rows), dtype=object)
    found[:] = rows
    return found


class RowCache:
    def __init__(self) -> None:
        self.mark: ChangeMark = {}
        self._tables: dict[tuple[str, Any], Table] = {}
        self._memos: dict[str, tuple[Any, dict]] = {}
        self._began = self.used_at = time.monotonic()
        _seen.setdefault(connection.connection, self._began)

    def lasts(self) -> bool:
        """Whether its rows hold for this thread's connection: one that was open at the last use saw no crash since."""
        now = time.monotonic()
        return _seen.setdefault(connection.connection, now) <= self.used_at and now < self._began + CLEAR_AFTER_S

    def rewrite(
        self, name: str, numbers: Mapping[int, tuple[int, int]], make: Callable, rows: Mapping[int, Any]
    ) -> None:
        for (of, made_by), table in self._tables.items():
            if of == name:
                table.rewrite(numbers, rows if made_by is make else {})

    def table(self, what: tuple[str, Any]) -> Table:
        return self._tables.setdefault(what, Table())

    def memo(self, name: str, key: Any) -> dict:
        if name not in self._memos or self._memos[name][0] != key:
            self._memos[name] = key, {}
        return self._memos[name][1]


_current: ContextVar[RowCache | None] = ContextVar("memory", default=None)
_last: RowCache | None = None
"""The cache of this process."""
_seen: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""{connection to the database: when it was first seen here, in seconds of the monotonic clock}"""
