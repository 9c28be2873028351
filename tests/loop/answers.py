"""What the model of the database says to each statement of the product.

Each method stands for the function of the same name in the product, which runs one statement. `install` puts the
methods in the place of the functions, wherever a module of the product has imported them.
"""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.db import IntegrityError
from django.db.models import F, Model
from django.db.models.expressions import CombinedExpression
from django.db.transaction import Atomic as DjangoAtomic
from loop.database import EXCLUSIVE, SHARE, Atomic, Database
from loop.hours import NAMED, machines_of_pool

from accounts import permissions
from accounts.models import Team
from cluster import maintenance, windows
from cluster.models import Gpu, Maintenance, Node, Pool, Window
from common import locks
from common.errors import StaleState
from events import bus, hints, notices, transitions
from events.models import Event
from jobs import control, lifecycle, resizing
from jobs.models import Job, Task
from jobs.states import HOLDING, JOB_ACTIVE, TASK_FINAL, JobState, TaskState
from quotas import models as quota_models
from quotas import services as quota_services
from quotas.models import Amounts, Holding, Quota, UserLimit
from scheduler import lease, tasks
from scheduler.commit import explaining, step_runner, store
from scheduler.loading import cache_locations, change_detection, row_cache, snapshots
from scheduler.models import Lease
from scheduler.reconcile import actions, compare, observations, task_specs

PACKAGES = ("scheduler.", "jobs.", "events.", "quotas.", "cluster.", "notebooks.", "common.", "accounts.")


class Answers:
    def __init__(self, database: Database, dice: Random) -> None:
        self.db, self.dice = database, dice

    # jobs and tasks

    def load_job(self, pk: int) -> Job:
        self.look_at(pk)
        self.db.pause()
        return self.db.build(Job, self.row(Job, pk))

    def load_jobs(self, pks: Iterable[int]) -> list[Job]:
        pks = list(pks)
        self.look_at(pks[0])
        self.db.pause()
        return [self.db.build(Job, self.row(Job, pk)) for pk in pks]

    def lock_job(self, pk: int) -> Job:
        return self.lock_jobs([pk])[0]

    def lock_jobs(self, pks: Iterable[int]) -> list[Job]:
        wanted = set(pks)
        self.look_at(min(wanted))
        self.db.pause()
        found = self.db.lock(Job, lambda row: row["id"] in wanted)
        if len(found) < len(wanted):
            raise StaleState(kind="job", was="deleted")
        return [self.db.build(Job, row) for row in found]

    def reload_job(self, job: Job) -> None:
        self.db.pause()
        job.__dict__.update(self.row(Job, job.pk))

    def write_job(self, job: Job, **wishes: Any) -> None:
        self.db.pause()
        self.db.update(Job, lambda row: row["id"] == job.pk, wishes)

    def _fresh(self, job: Job) -> Job:
        return self.load_job(job.pk)

    def load_newest(self, jobs: Iterable[Job]) -> list[Task]:
        self.db.pause()
        of = {job.pk: job for job in jobs}
        rows = self.db.rows(Task, lambda row: row["job_id"] in of and row["attempt"] == of[row["job_id"]].attempt)
        return [
            self.db.build(Task, row, job=of[row["job_id"]], node=self.node_of(row))
            for row in sorted(rows, key=lambda row: (row["role"], row["rank"]))
        ]

    def count_refusals(self, job: Job) -> int:
        self.db.pause()
        newest = lambda row: row["job_id"] == job.pk and row["attempt"] >= job.attempt - lifecycle.REFUSALS  # noqa: E731
        return len({row["attempt"] for row in self.db.rows(Task, newest) if row["reason"] == "refused_by_node"})

    def store_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        self.db.pause()
        made = []
        with self.db.statement():
            for task in tasks:
                values = {name: value for name, value in task.__dict__.items() if name != "_state"}
                values["uuid"] = UUID(int=self.dice.getrandbits(128))
                made.append(self.db.build(Task, self.db.insert(Task, values), job=task.job))
        return made

    def load_task(self, uuid: str) -> Task:
        self.db.pause()
        wanted = UUID(uuid)
        row = next(row for row in self.db.rows(Task) if row["uuid"] == wanted)
        self.look_at(row["job_id"])
        return self.task(row)

    def load_tasks(self, uuids: Iterable[str]) -> list[Task]:
        self.db.pause()
        wanted = {UUID(uuid) for uuid in uuids}
        rows = self.db.rows(Task, lambda row: row["uuid"] in wanted)
        for row in rows:
            self.look_at(row["job_id"])
        return [self.task(row) for row in rows]

    def load_tasks_to_start(self, uuids: Iterable[str]) -> list[Task]:
        return self.load_tasks(uuids)

    def load_gids(self, job_ids: Iterable[int]) -> dict[int, int]:
        self.db.pause()
        teams = {team.pk: team.gid for team in self.db.all_fixed(Team)}
        return {pk: teams[self.row(Job, pk)["team_id"]] for pk in job_ids if pk}

    def load_holding_tasks(self) -> list[compare.HeldTask]:
        self.db.pause()
        wish = ("stop_requested_at", "stop_reason")
        lines = [{**row, **{name: self.row(Job, row["job_id"])[name] for name in wish}} for row in self.holding_tasks()]
        told = [{**line, "uuid": line["uuid"].hex} for line in lines]
        return [compare.HeldTask(*(line[name] for name in compare.HeldTask._fields)) for line in told]

    def load_broken(self) -> set[tuple[int, int]]:
        self.db.pause()
        ended, wanted = (TaskState.FAILED, TaskState.STOPPED), {row["job_id"] for row in self.holding_tasks()}
        rows = self.db.rows(Task, lambda row: row["job_id"] in wanted and row["state"] in ended)
        return {(row["job_id"], row["attempt"]) for row in rows}

    def load_ended(self, seen: Iterable[Any]) -> set[str]:
        self.db.pause()
        uuids = {UUID(view.uuid) for view in seen}
        return {row["uuid"].hex for row in self.db.rows(Task) if row["uuid"] in uuids and row["state"] in TASK_FINAL}

    def load_awaiting_log(self, ended: Iterable[str]) -> set[str]:
        """Its engine writes logs itself."""
        return set()

    def write_progress(self, uuid: str, told: dict[str, Any]) -> None:
        self.db.pause()
        wanted = UUID(uuid)
        self.db.update(Task, lambda row: row["uuid"] == wanted, told)

    def load_ports(self, nodes: Iterable[int]) -> list[tuple[int, dict[str, int]]]:
        self.db.pause()
        wanted = set(nodes)
        return [(row["node_id"], row["ports"]) for row in self.holding_tasks() if row["node_id"] in wanted]

    def clear_wait(self, job_ids: Iterable[int]) -> None:
        self.db.pause()
        wanted, nothing = set(job_ids), {"wait_reasons": [], "wait_position": None, "wait_of": None}
        self.db.update(Job, lambda row: row["id"] in wanted, nothing)

    def write_reasons(self, lines: list[tuple]) -> dict[int, tuple[int, float]]:
        self.db.pause()
        one, now, written = self.db.transaction, self.db.now, dict[int, tuple[int, float]]()
        assert one is not None, "reasons are written inside a transaction only"
        for pk, number, reasons, position, of in lines:
            same = lambda row, pk=pk, n=number: row["id"] == pk and row["_version"] == n  # noqa: E731
            told = {"wait_reasons": reasons, "wait_position": position, "wait_of": of, "explained_at": now}
            if self.db.update(Job, lambda row, same=same: same(row) and row["state"] == JobState.QUEUED, told):
                written[pk] = one.number, now.timestamp()
        return written

    # moves and history

    def write_move(self, row: Any, before: str, changes: dict[str, object]) -> bool:
        self.db.pause()
        model = type(row)
        if not self.db.update(model, lambda found: found["id"] == row.pk and found["state"] == before, changes):
            return False
        self.read_back(row, changes)
        return True

    def write_moves(self, changes: list[tuple[Any, dict[str, object]]], before: str) -> int:
        self.db.pause()
        with self.db.statement():
            moved = 0
            for row, values in changes:
                found = lambda r, pk=row.pk: r["id"] == pk and r["state"] == before  # noqa: E731
                moved += self.db.update(type(row), found, values)
        for row, values in changes:
            self.read_back(row, values)
        return moved

    def read_back(self, row: Any, values: dict[str, object]) -> None:
        row.__dict__.update(self.row(type(row), row.pk))
        row._state.fields_cache.update({name: value for name, value in values.items() if isinstance(value, Model)})

    def last_seq(self, kind: str, pk: int) -> int:
        return self.last_seqs(kind, [pk]).get(pk, 0)

    def last_seqs(self, kind: str, pks: Iterable[int]) -> dict[int, int]:
        self.db.pause()
        mine = [row for row in self.own_writes(Event) if row["kind"] == kind]
        of = {pk: [self.db.seqs.get((kind, pk), 0), *(r["seq"] for r in mine if r["object_id"] == pk)] for pk in pks}
        return {pk: max(seqs) for pk, seqs in of.items() if max(seqs)}

    def store_event(self, **values: Any) -> Event:
        return self.store_events([values])[0]

    def store_events(self, rows: Iterable[dict[str, Any]]) -> list[Event]:
        self.db.pause()
        with self.db.statement():
            return [self.db.build(Event, self.db.insert(Event, values)) for values in rows]

    def nothing(self, *_: Any, **__: Any) -> None:
        """Hints (all are lost), bells, notices, webhooks and permissions."""

    # holdings and sums

    def write_holdings(self, rows: Iterable[Holding]) -> None:
        self.db.pause()
        with self.db.statement():
            for row in rows:
                self.db.insert(Holding, {name: value for name, value in row.__dict__.items() if name in HELD})

    def release_holdings(self, tasks: Iterable[Task]) -> None:
        self.db.pause()
        freed = {task.uuid for task in tasks}
        live = lambda row: row["task"] in freed and row["released_at"] is None  # noqa: E731
        self.db.update(Holding, live, {"released_at": self.db.now})

    def load_share(self, uuid: str) -> Holding:
        self.db.pause()
        mine = lambda row: row["task"] == UUID(uuid) and row["gpu_id"] is not None  # noqa: E731
        (row,) = self.live(mine)
        return self.db.build(Holding, row)

    def end_share(self, share: Holding) -> None:
        self.db.pause()
        self.db.update(Holding, lambda row: row["id"] == share.pk, {"released_at": self.db.now})

    def write_wish(self, task: Task, wish: dict[str, Any]) -> None:
        self.db.pause()
        self.db.update(Task, lambda row: row["id"] == task.pk, {"resize": wish})

    def live(self, where: Callable[[dict], Any] = lambda row: True) -> list[dict]:
        return self.db.rows(Holding, lambda row: row["released_at"] is None and where(row))

    def sum_teams(self, team_ids: Iterable[int], pool_id: int) -> Amounts:
        self.db.pause()
        teams = set(team_ids)
        return totals(self.live(lambda row: row["pool_id"] == pool_id and row["team_id"] in teams))

    def sum_user(self, user_id: int) -> Amounts:
        self.db.pause()
        return totals(self.live(lambda row: row["user_id"] == user_id))

    def sum_nodes(self, node_ids: Iterable[int]) -> dict[int, Amounts]:
        self.db.pause()
        wanted, rows = set(node_ids), self.live()
        of = {pk: [row for row in rows if row["node_id"] == pk] for pk in wanted}
        return {pk: totals(rows) for pk, rows in of.items() if rows}

    def sum_cards(self, gpu_ids: Iterable[int]) -> dict[int, tuple[int, int, int]]:
        self.db.pause()
        wanted, taken = set(gpu_ids), dict[int, tuple[int, int, int]]()
        for row in self.live(lambda row: row["gpu_id"] in wanted):
            mib, percent, count = taken.get(row["gpu_id"], (0, 0, 0))
            taken[row["gpu_id"]] = mib + row["gpu_memory_mib"], percent + row["gpu_compute_percent"], count + 1
        return taken

    def load_numa(self, tasks: Iterable[Task]) -> dict[UUID, tuple[int, ...]]:
        self.db.pause()
        wanted = {task.uuid for task in tasks}
        rows = by_id(self.live(lambda row: row["task"] in wanted and row["gpu_id"] is not None))
        near = [(row["task"], row["numa"]) for row in rows if row["numa"] is not None]
        return {uuid: tuple(numa for task, numa in near if task == uuid) for uuid, _ in near}

    def load_cards(self, uuids: Iterable[str]) -> list[Gpu]:
        self.db.pause()
        wanted = set(uuids)
        there = lambda row: row["uuid"] in wanted and row["removed_at"] is None  # noqa: E731
        return [self.gpu(row) for row in self.db.rows(Gpu, there)]

    def count_active(self, user_id: int) -> int:
        self.db.pause()
        return len(self.db.rows(Job, lambda row: row["user_id"] == user_id and row["state"] in JOB_ACTIVE))

    # limits, nodes and cards

    def lock_quota(self, team_id: int, pool_id: int) -> list[Quota]:
        self.db.pause()
        found = self.db.lock(Quota, lambda row: row["team_id"] == team_id and row["pool_id"] == pool_id)
        return [self.db.build(Quota, row) for row in found]

    def ensure_user_limit(self, user: Any) -> UserLimit:
        self.db.pause()
        mine = lambda row: row["user_id"] == user.pk  # noqa: E731
        if not self.db.rows(UserLimit, mine):
            try:
                self.db.insert(UserLimit, {"user_id": user.pk})
            except IntegrityError:  # somebody else was first, as get_or_create expects
                pass
        return self.db.build(UserLimit, self.db.rows(UserLimit, mine)[0])

    def lock_user_limit(self, user_id: int) -> list[UserLimit]:
        self.db.pause()
        return [self.db.build(UserLimit, row) for row in self.db.lock(UserLimit, lambda row: row["user_id"] == user_id)]

    def admit_waiting_job(self, *, user: Any, waiting: Callable[[], int]) -> None:
        """As the product does, but for the count: the person's limit is locked before the job."""
        self.ensure_user_limit(user)
        self.lock_user_limit(user.pk)

    def limit_of_everyone(self) -> UserLimit:
        self.db.pause()
        return self.db.build(UserLimit, next(row for row in self.db.rows(UserLimit) if row["user_id"] is None))

    def load_parents(self) -> dict[int, int | None]:
        self.db.pause()
        return {team.pk: team.parent_id for team in self.db.all_fixed(Team)}

    def lock_nodes(self, pks: Iterable[int]) -> dict[int, Node]:
        self.db.pause()
        wanted = set(pks)
        return {row["id"]: self.db.build(Node, row) for row in self.db.lock(Node, lambda row: row["id"] in wanted)}

    def lock_cards(self, pks: Iterable[int]) -> dict[int, Gpu]:
        self.db.pause()
        wanted = set(pks)
        return {row["id"]: self.gpu(row) for row in self.db.lock(Gpu, lambda row: row["id"] in wanted)}

    def database_now(self) -> datetime:
        self.db.pause()
        return self.db.now

    # when pools lend and machines are in maintenance

    def load_hours(self) -> list[Window]:
        self.db.pause()
        return [self.db.build(Window, row) for row in by_id(self.db.rows(Window))]

    def load_planned(self, now: Any) -> list[Maintenance]:
        """now: the database's own, whatever is given."""
        self.db.pause()
        rows = self.db.rows(Maintenance, lambda row: row["ends_at"] > self.db.now)
        planned = [
            self.db.build(Maintenance, row) for row in sorted(rows, key=lambda row: (row["begins_at"], row["id"]))
        ]
        for one in planned:
            named = {row["node_id"] for row in self.db.rows(NAMED) if row["maintenance_id"] == one.pk}
            machines = [self.db.build(Node, self.row(Node, pk)) for pk in sorted(named)]
            one.__dict__["_prefetched_objects_cache"] = {"nodes": machines}
        return planned

    def _machines_of_pools(self, pool_ids: Iterable[int | None]) -> dict[int, set[int]]:
        self.db.pause()
        return {pk: machines_of_pool(self.db, pk) for pk in pool_ids if pk is not None}

    # the lease

    def acquire(self, name: str) -> int | None:
        self.db.pause()
        with self.db.statement():
            if self.db.get(Lease, name) is None:
                self.db.insert(Lease, {"name": name, "epoch": 0})
            self.db.take_lock((Lease, name), EXCLUSIVE)
            row = self.db.get(Lease, name)
            free = row["expires_at"] is None or row["expires_at"] < self.db.now
            if free:
                highest = max(other["epoch"] for other in self.db.rows(Lease))
                epoch = max(highest + 1, int(self.db.now.timestamp() * 1000))
                until = self.db.now + timedelta(seconds=lease.LEASE_S)
                held = {"holder": "somebody", "epoch": epoch, "wanted": False, "expires_at": until}
                self.db.update(Lease, lambda row: row["name"] == name, held)
        if free:
            if self.db.process is not None:
                self.db.process.epochs[name] = epoch
            return epoch
        self.db.pause()
        self.db.update(Lease, lambda row: row["name"] == name, {"wanted": True})
        return None

    def take_hint(self, name: str, epoch: int) -> bool:
        self.db.pause()
        asked = lambda row: row["name"] == name and row["epoch"] == epoch and row["wanted"]  # noqa: E731
        return bool(self.db.update(Lease, asked, {"wanted": False}))

    def renew(self, name: str, epoch: int) -> bool:
        self.db.pause()
        mine = lambda row: row["name"] == name and row["epoch"] == epoch and row["expires_at"]  # noqa: E731
        until = self.db.now + timedelta(seconds=lease.LEASE_S)
        return bool(self.db.update(Lease, mine, {"expires_at": until}))

    def release(self, name: str, epoch: int) -> bool:
        self.db.pause()
        mine = lambda row: row["name"] == name and row["epoch"] == epoch  # noqa: E731
        own = self.db.update(Lease, mine, {"expires_at": None, "holder": ""})
        return bool(own) and self.db.get(Lease, name)["wanted"]

    def check_epoch(self, name: str, epoch: int) -> None:
        self.db.pause()
        if not self.db.lock(Lease, lambda row: row["name"] == name and row["epoch"] == epoch, SHARE):
            raise StaleState(kind="lease", was=epoch)

    # what a cycle reads; the product remembers it from one look to the next (scheduler.loading.row_cache)

    def load_rows(self, rows: "Rows", *columns: Any) -> list[list]:
        self.db.pause()
        return [[rows.value(row, column) for column in columns] for row in rows.found()]

    def load_pairs(self, tables: dict[str, tuple[Any, Any]]) -> dict[str, list[np.ndarray]]:
        """All as of one moment."""
        self.db.pause()
        return {name: self._pairs_of(rows, number) for name, (rows, number) in tables.items()}

    def _pairs_of(self, rows: Any, number: Any) -> list[np.ndarray]:
        rows = rows if isinstance(rows, Rows) else self.whole_table(rows.model)
        lines = [[rows.value(row, column) for column in ("pk", number)] for row in rows.found()]
        return [np.array([line[place] for line in lines], dtype=np.int64) for place in range(2)]

    def tables(self) -> dict[str, tuple[Callable[[], "Rows"], Any]]:
        """As memory.TABLES has them."""
        present = lambda row: row["removed_at"] is None  # noqa: E731
        held = lambda row: row["state"] in HOLDING  # noqa: E731
        queued = lambda row: row["state"] == JobState.QUEUED and row["stop_requested_at"] is None  # noqa: E731
        live = lambda row: row["released_at"] is None  # noqa: E731
        where = {"queue": (Job, queued), "holders": (Task, held), "holdings": (Holding, live)}
        where |= {"nodes": (Node, present), "gpus": (Gpu, present)}
        return {
            name: (lambda model=model, test=test: Rows(self.db, model, test), row_cache.TABLES[name][1])
            for name, (model, test) in where.items()
        }

    def whole_table(self, model: Any) -> "Rows":
        return Rows(self.db, model, lambda row: True)

    def load_pools(self) -> list[Pool]:
        self.db.pause()
        return self.db.all_fixed(Pool)

    def load_teams(self) -> list[Team]:
        self.db.pause()
        return self.db.all_fixed(Team)

    def load_quotas(self) -> list[Quota]:
        self.db.pause()
        return [self.db.build(Quota, row) for row in self.db.rows(Quota)]

    def load_limits(self, user_ids: Iterable[int]) -> list[UserLimit]:
        self.db.pause()
        wanted = set(user_ids)
        return [self.db.build(UserLimit, row) for row in self.db.rows(UserLimit) if row["user_id"] in wanted]

    def load_active(self, user_ids: Iterable[int]) -> dict[int, int]:
        self.db.pause()
        wanted, count = set(user_ids), dict[int, int]()
        for row in self.db.rows(Job, lambda row: row["user_id"] in wanted and row["state"] in JOB_ACTIVE):
            count[row["user_id"]] = count.get(row["user_id"], 0) + 1
        return count

    def load_history(self, kinds: list[Any]) -> list[tuple]:
        self.db.pause()
        return [
            (snapshots.build_request(role["request"], kinds), role["min"])
            for row in self.db.rows(Job)
            for role in row["gang"]
        ]

    # shared

    def look_at(self, pk: int) -> None:
        """So that others may disturb just this."""
        if self.db.process is not None:
            self.db.process.focus = pk

    def row(self, model: Any, pk: int) -> dict:
        row = self.db.get(model, pk)
        assert row is not None
        return row

    def own_writes(self, model: Any) -> list[dict]:
        one = self.db.transaction
        return [row for (kind, _), row in one.writes.items() if kind is model and row] if one else []

    def holding_tasks(self) -> list[dict]:
        return self.db.rows(Task, lambda row: row["state"] in HOLDING)

    def task(self, row: dict) -> Task:
        job = self.db.build(Job, self.row(Job, row["job_id"]))
        return self.db.build(Task, row, job=job, node=self.node_of(row))

    def node_of(self, row: dict) -> Node | None:
        return self.db.build(Node, self.row(Node, row["node_id"])) if row["node_id"] is not None else None

    def gpu(self, row: dict) -> Gpu:
        return self.db.build(Gpu, row, node=self.node_of(row))


@dataclass
class Rows:
    """A query of the model: what a cycle asks of one table, and the columns that it wants."""

    db: Database
    model: Any
    where: Callable[[dict], Any]

    def found(self) -> list[dict]:
        return by_id(self.db.rows(self.model, self.where))

    def order_by(self, *_: str) -> "Rows":
        return self

    def filter(self, *, pk__in: Iterable[int]) -> "Rows":
        wanted = set(pk__in)
        return Rows(self.db, self.model, lambda row: row["id"] in wanted and self.where(row))

    def value(self, row: dict, column: Any) -> Any:
        """column: a name, as `job__team_id`, or one of the expressions of
        scheduler.loading.json_rows and row_cache."""
        if isinstance(column, str):
            name, _, of_job = column.partition("__")
            if of_job:
                return self.db.get(Job, row["job_id"])[of_job]  # type: ignore[index]
            value = row["id" if name == "pk" else name]
            return str(value) if isinstance(value, UUID) else value
        if isinstance(column, CombinedExpression):
            return self.value(row, column.lhs) + self.value(row, column.rhs)
        if isinstance(column, F):
            return self.value(row, column.name)
        if column is row_cache.WITH_JOB:
            return row["_version"] << 32 | self.db.get(Job, row["job_id"])["_version"]  # type: ignore[index]
        template = column.extra["template"]
        if "xmin" in template:
            return row["_version"]
        value = self.value(row, column.source_expressions[0])
        if "IS NOT NULL" in template:
            return value is not None
        return json.dumps(value) if "::text" in template else value and value.timestamp()


HELD = {field.attname for field in Holding._meta.concrete_fields} - {"id"}


def totals(rows: list[dict]) -> Amounts:
    return sum(r["gpu_milli"] for r in rows), sum(r["cpu_milli"] for r in rows), sum(r["memory_mib"] for r in rows)


def by_id(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: row["id"])


# (where the product has it, its name); the method of Answers has the same one.
TWINS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (locks, ("database_now",)),
    (windows, ("load_hours",)),
    (maintenance, ("load_planned", "_machines_of_pools")),
    (lease, ("acquire", "take_hint", "renew", "release", "check_epoch")),
    (transitions, ("write_move", "write_moves")),
    (bus, ("last_seq", "last_seqs", "store_event", "store_events")),
    (lifecycle, ("lock_job", "lock_jobs", "load_newest", "store_tasks", "release_holdings", "reload_job")),
    (control, ("write_job", "_fresh")),
    (resizing, ("write_wish",)),
    (quota_models, ("load_parents",)),
    (quota_services, ("ensure_user_limit", "limit_of_everyone", "admit_waiting_job")),
    (store, ("load_job", "load_jobs", "lock_quota", "lock_user_limit", "lock_nodes", "lock_cards")),
    (store, ("sum_teams", "sum_user", "sum_nodes", "sum_cards", "count_active")),
    (store, ("load_ports", "write_holdings", "clear_wait", "load_share", "end_share")),
    (explaining, ("write_reasons",)),
    (compare, ("load_holding_tasks", "load_broken", "load_ended", "load_awaiting_log")),
    (observations, ("load_task", "load_tasks", "write_progress")),
    (actions, ("load_tasks_to_start", "load_gids")),
    (task_specs, ("load_numa", "load_cards")),
    (snapshots, ("load_pools", "load_teams", "load_quotas", "load_limits", "load_active", "load_history")),
)
SILENT: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (bus, ("hint", "_send_on_commit", "_call_listeners", "publish_recheck", "hint_sender")),
    (hints, ("clear_hint",)),
    (notices, ("notify", "notify_all")),
    (permissions, ("require",)),
    (explaining, ("_publish_for",)),
    (tasks, ("_leave_dead_connection",)),
    (lease, ("record_success",)),
)


def install(patch: pytest.MonkeyPatch, answers: Answers) -> None:
    """Put the model in the database's place, and its clock in the clock's."""
    database = answers.db
    for module, names in TWINS:
        for name in names:
            replace_everywhere(patch, getattr(module, name), getattr(answers, name))
    for module, names in SILENT:
        for name in names:
            replace_everywhere(patch, getattr(module, name), answers.nothing)
    replace_everywhere(patch, cache_locations.load_cache_locations, lambda *_: cache_locations.CacheLocations())
    for name, table in answers.tables().items():
        patch.setitem(row_cache.TABLES, name, table)
    patch.setattr(change_detection, "_statement", change_detection.list_tables)
    for name in ("load_rows", "load_pairs"):
        patch.setattr(row_cache, name, getattr(answers, name))
    atomic = Atomic(database)
    patch.setattr(DjangoAtomic, "__enter__", _bound(atomic.enter))
    patch.setattr(DjangoAtomic, "__exit__", _bound(atomic.leave))
    clock = SimpleNamespace(
        time=lambda: database.now.timestamp(), monotonic=lambda: database.clock, sleep=lambda s: _sleep(database, s)
    )
    for module in (tasks, snapshots, row_cache, step_runner):
        patch.setattr(module, "time", clock)
    patch.setattr(lifecycle, "timezone", SimpleNamespace(now=lambda: database.now))


def replace_everywhere(patch: pytest.MonkeyPatch, old: Any, new: Any) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGES):
            for word, value in list(vars(module).items()):
                if value is old:
                    patch.setattr(module, word, new)


def _bound(method: Callable) -> Callable:
    """A plain function, so that a class passes its instance as the first argument."""
    return lambda *args: method(*args)


def _sleep(database: Database, seconds: float) -> None:
    database.clock += seconds
    database.pause()
