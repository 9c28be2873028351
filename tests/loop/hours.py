"""When the pools of a life lend their cards and its machines are in maintenance, as far as anybody has committed it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from math import inf
from typing import Any

from cluster import windows
from cluster.models import Gpu, Maintenance, Node, NodeState, Window
from tests.loop.database import Database, Row

NAMED = Maintenance.nodes.through
SLOW = timedelta(seconds=30)
"""A worker that carries out a plan has taken its lease so long ago at most."""


class Hours:
    """_windows: (from when on, the rows), each time that they changed, the oldest first."""

    def __init__(self, database: Database) -> None:
        self.db = database
        self._windows: list[tuple[datetime, list[Row]]] = [(database.now, database.rows(Window))]
        self._stopping: list[tuple[int, datetime]] = []  # (machine, from when on) of what ever was to stop jobs

    def note(self, written: set[type]) -> None:
        """What was just committed. written: the models of its rows."""
        if Window in written:
            self._windows.append((self.db.now, list(self.db.tables[Window].values())))
        if Maintenance in written or NAMED in written:
            rows = (row for row in self.db.tables[Maintenance].values() if row["stops"])
            self._stopping += [(node, row["begins_at"]) for row in rows for node in machines_of(self.db, row)]
        if Node in written:
            drained = (row["id"] for row in self.db.tables[Node].values() if row["state"] == NodeState.DRAINING)
            self._stopping += [(node, self.db.now) for node in drained]

    def is_lent(self, lender: int, borrower: int, since: datetime, time_s: float) -> bool:
        """Was it at some moment from `since` until now, for so long from then on?"""
        return any(
            begins <= last and (ends - max(first, begins)).total_seconds() >= time_s
            for first, last, spans in self._spans(lender, borrower, since)
            for begins, ends in spans
            if ends > first
        )

    def is_closed(self, lender: int, borrower: int) -> bool:
        """Was it not lent, at some moment of the last while?"""
        return not all(
            any(begins <= first and last <= ends for begins, ends in spans)
            for first, last, spans in self._spans(lender, borrower, self.db.now - SLOW)
        )

    def in_the_way(self, node: int, since: datetime, time_s: float, *, may_stop: bool) -> Row | None:
        """A maintenance of the machine that somebody who started then would meet, and that is not over.

        may_stop: then not one that will stop them.
        """
        for row in self.db.tables.get(Maintenance, {}).values():
            begins_in_s = (row["begins_at"] - since).total_seconds()
            in_time = begins_in_s >= time_s or (may_stop and row["stops"] and begins_in_s > 0)
            if not in_time and row["ends_at"] > self.db.now and node in machines_of(self.db, row):
                return row
        return None

    def may_stop_on(self, nodes: set[int]) -> bool:
        return any(node in nodes and begins <= self.db.now for node, begins in self._stopping)

    def _spans(
        self, lender: int, borrower: int, since: datetime
    ) -> Iterator[tuple[datetime, datetime, list[windows.Span]]]:
        """(from, until, when it is lent) of each state of the windows that there was since then."""
        until = self.db.now
        for begins, rows in reversed(self._windows):
            first = max(begins, since)
            mine = [row for row in rows if (row["lender_id"], row["borrower_id"]) == (lender, borrower)]
            yield first, until, windows.spans_of([self.db.build(Window, row) for row in mine], first)
            if begins <= since:
                return
            until = begins


def machines_of(db: Database, row: Row) -> set[int]:
    """Of a maintenance: those that it names, and those of its pool."""
    named = {one["node_id"] for one in db.rows(NAMED) if one["maintenance_id"] == row["id"]}
    return named | (machines_of_pool(db, row["pool_id"]) if row["pool_id"] is not None else set())


def machines_of_pool(db: Database, pool: int) -> set[int]:
    """At home in it or with a card of it."""
    home = {row["id"] for row in db.rows(Node) if row["pool_id"] == pool}
    return home | {row["node_id"] for row in db.rows(Gpu) if row["pool_id"] == pool}


def stays_s(job: Row) -> float:
    """How long it says that it runs. All jobs of a life are batch jobs."""
    return min(job["time_s"] or inf, job["max_time_s"] or inf)


def window_row(lender: int, begins: datetime, ends: datetime) -> dict[str, Any]:
    """One that opens at these times of each day. There are two pools."""
    hours = {"begins": begins.time().replace(microsecond=0), "ends": ends.time().replace(microsecond=0)}
    return {"lender_id": lender, "borrower_id": 3 - lender, "weekdays": "1234567", "zone": "UTC", **hours}
