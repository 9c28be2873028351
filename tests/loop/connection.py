"""Django's connection, transactions and clock on the model of the database.

`install` gives the product this database in the places that Django has for it: what its managers return, what
`transaction.atomic` and `connection` do. No function of the product is replaced.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import redis
from django.db import connections
from django.db.models.manager import BaseManager
from django.db.transaction import Atomic
from django.utils import timezone

from jobs.models import Job
from jobs.states import JobState
from scheduler import lease
from scheduler.commit import explaining
from scheduler.loading import row_cache
from scheduler.models import Lease
from tests.loop.database import EXCLUSIVE, Database
from tests.loop.querysets import QUERY_SQL, queryset_of


def install(patch: pytest.MonkeyPatch, database: Database, dice: Random) -> None:
    """Put the model in the database's place, and its clock in the clock's. Valkey is away: every hint is lost."""
    patch.setattr(
        BaseManager, "get_queryset", lambda self: queryset_of(self.model, self._queryset_class, database, dice)
    )
    patch.setattr(connections._connections, "default", ModelConnection(database))  # type: ignore[attr-defined]
    patch.setattr(Atomic, "__enter__", lambda self: database.begin())
    patch.setattr(Atomic, "__exit__", lambda self, kind, error, trace: database.end(failed=kind is not None))
    patch.setattr(redis.Redis, "execute_command", _away)
    patch.setattr(timezone, "now", lambda: database.now)
    patch.setattr(lease, "RENEW_S", 1e6)  # a lease lives by the model's clock, and its thread by the real one
    clock = SimpleNamespace(
        time=lambda: database.now.timestamp(), monotonic=lambda: database.clock, sleep=lambda s: _sleep(database, s)
    )
    for name, module in list(sys.modules.items()):
        if name.startswith(("scheduler.", "common.steady_clock")) and getattr(module, "time", None) is time:
            patch.setattr(module, "time", clock)
    built = row_cache._build_statement.__wrapped__
    patch.setattr(row_cache, "_build_statement", built)  # its cache would hold this model's queries


def _away(*_: Any, **__: Any) -> None:
    raise redis.ConnectionError("away")


def _sleep(database: Database, seconds: float) -> None:
    database.clock += seconds
    database.pause()


class ModelConnection:
    """What a commit leaves to do (hints, messages) is lost."""

    in_atomic_block, run_on_commit = True, ()

    def __init__(self, database: Database) -> None:
        self.database = self.connection = database

    def cursor(self) -> "ModelCursor":
        return ModelCursor(self.database)

    def on_commit(self, act: Callable[[], object], robust: bool = False) -> None:
        pass


class ModelCursor:
    """SQL that is written by hand."""

    def __init__(self, database: Database) -> None:
        self.database, self.lines = database, list[tuple]()

    def __enter__(self) -> "ModelCursor":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: str, params: Any = ()) -> None:
        self.database.pause()
        if QUERY_SQL in sql:
            self.lines = list(read_as_text(sql, list(params)))
        else:
            self.lines = BY_HAND[sql](self.database, params)

    def fetchone(self) -> tuple | None:
        return self.lines[0] if self.lines else None

    def fetchall(self) -> list[tuple]:
        return self.lines


def read_as_text(sql: str, params: list) -> Any:
    """What scheduler.loading.json_rows asks: one text of many rows."""
    for part in sql.split(" UNION ALL "):
        if "json_agg" in part:
            found = [line for (line,) in params.pop(0).answer()]
            yield (json.dumps(found, default=as_json) if found else None,)
        else:
            name, columns = params.pop(0), [*zip(*params.pop(0).answer(), strict=True)]
            yield name, *([f"{{{','.join(map(str, column))}}}" for column in columns] or [None, None])


def as_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(UUID(str(value)))


def acquire(db: Database, asked: dict) -> list[tuple]:
    with db.statement():
        if db.get(Lease, asked["name"]) is None:
            db.insert(Lease, {"name": asked["name"], "epoch": 0})
        db.take_lock((Lease, asked["name"]), EXCLUSIVE)
        row = db.get(Lease, asked["name"])
        assert row is not None
        if row["expires_at"] is not None and row["expires_at"] >= db.now:
            return []
        epoch = max(max(other["epoch"] for other in db.rows(Lease)) + 1, int(db.now.timestamp() * 1000))
        until = db.now + timedelta(seconds=asked["seconds"])
        held = {"holder": asked["holder"], "epoch": epoch, "wanted": False, "expires_at": until}
        db.update(Lease, lambda row: row["name"] == asked["name"], held)
    if db.process is not None:
        db.process.epochs[asked["name"]] = epoch
    return [(epoch,)]


def release(db: Database, asked: list) -> list[tuple]:
    name, epoch = asked
    mine = lambda row: row["name"] == name and row["epoch"] == epoch  # noqa: E731
    own = db.update(Lease, mine, {"expires_at": None, "holder": ""})
    return [(db.get(Lease, name)["wanted"],)] if own else []  # type: ignore[index]


def write_reasons(db: Database, asked: list) -> list[tuple]:
    assert db.transaction is not None, "reasons are written inside a transaction only"
    written = []
    for pk, number, reasons, position, of, places in json.loads(asked[0]):
        same = lambda row, n=number: row["_version"] == n and row["state"] == JobState.QUEUED  # noqa: E731
        told = {"wait_reasons": reasons, "wait_position": position, "wait_of": of, "wait_places": places}
        told |= {"explained_at": db.now}
        if db.update(Job, same, told, {"id": {pk}}):
            written.append((pk, db.transaction.number, db.now.timestamp()))
    return written


BY_HAND: dict[str, Callable[[Database, Any], list[tuple]]] = {
    "SELECT clock_timestamp()": lambda db, asked: [(db.now,)],
    lease.ACQUIRE: acquire,
    lease.RELEASE: release,
    explaining.WRITE_REASONS: write_reasons,
}
