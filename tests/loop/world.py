"""A small cluster with its database, its runtime and the processes that run the product, all drawn from one seed."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from django.db import transaction

from accounts.models import Team, User
from cluster.models import Gpu, Maintenance, Node, NodeState, Window
from common.locks import lock_rows
from events.record_and_publish import SYSTEM
from events.transitions import Move, advance
from jobs import control
from jobs.models import Job
from jobs.states import JOB_FINAL
from quotas.models import Holding, Quota, UserLimit
from scheduler import tasks
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from scheduler.loading import row_cache, snapshots
from tests.loop.cluster import build_cluster, view_of
from tests.loop.connection import install
from tests.loop.database import ConnectionLost, Database
from tests.loop.engine import Engine
from tests.loop.hours import NAMED
from tests.loop.processes import Process
from tests.loop.promises import SAME_EVICTION, Promises

ACTS = 600
Act = Callable[["World"], None]
ROUNDS, ROUND_S = 150, 3.0
"""So many rounds everything has to end in, once the faults stop."""


class Broken(AssertionError):
    """A promise was broken; says how, and how to see it again."""


class World:
    """life: what the seed draws. trace: what happened, newest last."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch, acts: int = ACTS) -> None:
        self.seed, self.acts, self.dice = seed, acts, Random(seed)
        self.db = Database()
        self.workers: list[Process] = []
        self.asleep: dict[Process, float] = {}
        self.trace: list[str] = []
        self.rests: list[Any] = []  # what the workers that idle remember of their last cycle
        self.commits = self.events = 0
        build_cluster(self.db, self.dice)
        self.engine = Engine(self.db, [view_of(node) for node in self.rows(Node)], self.dice)
        parents = {team.pk: team.parent_id for team in self.db.all_fixed(Team)}
        self.promises = Promises(self.db, self.engine, parents)
        self.db.observers.append(self.note_commit)
        install(patch, self.db, self.dice)
        patch.setattr(tasks, "get_runtime", lambda: self.engine)
        patch.setattr(tasks, "_rest", None)
        patch.setattr(row_cache, "_last", None)
        self.calm = self.dice.random() < 0.15
        self.rush = self.dice.choice([0.0, 0.2, 0.5])  # how often others come in between the statements of one
        self.often: tuple[Act, ...] = ()
        self.luck = 0.0 if self.calm else self.dice.choice([0.3, 1.0, 2.0])
        self.engine.away = self.engine.unheard = 0.02 * self.luck

    @property
    def steps(self) -> int:
        """Transactions that were committed, and calls to the runtime."""
        return self.commits + self.engine.calls

    # one life

    def act(self, kind: Act) -> None:
        kind(self)
        self.events += 1
        self.check()

    def end_well(self) -> None:
        """The faults stop: in some rounds every feasible job is over, and nothing of it is left."""
        self.heal()
        for _ in range(ROUNDS):
            self.db.clock += ROUND_S
            for name in ("cycle", "reconcile"):
                self.spawn(name)
            while running := [worker for worker in self.workers if worker.runnable]:
                self.resume(running[0], 10_000)
            if self.workers:
                raise self.broken("workers wait for one another for ever")
            self.check()
            if any(told["code"] == "impossible" for job in self.open_jobs() for told in job["wait_reasons"]):
                self.end_what_can_never_run()
            if all(job["state"] in JOB_FINAL for job in self.rows(Job)) and not self.engine.kept():
                break
        open_jobs = [f"job {job['id']} {job['state']} {job['wait_reasons']}" for job in self.open_jobs()]
        if open_jobs:
            raise self.broken(f"not over after {ROUNDS} rounds: {'; '.join(open_jobs[:3])}")
        if self.engine.kept():
            raise self.broken(f"left in the runtime: {self.engine.kept()[:3]}")
        if any(row["released_at"] is None for row in self.rows(Holding)):
            raise self.broken("something is held and nobody runs")

    def heal(self) -> None:
        self.log("the faults stop")
        self.engine.away = self.engine.unheard = 0.0
        self.engine.cut.clear()
        self.asleep.clear()
        for worker in self.workers:
            worker.trouble = None
        while running := [worker for worker in self.workers if worker.runnable]:
            self.resume(running[0], 10_000)
        self.db.update(Quota, lambda row: True, {"gpu_milli_limit": None, "gpu_milli_guarantee": 0})
        self.db.update(UserLimit, lambda row: row["user_id"] is not None, {"gpu_milli": None, "jobs_running": None})
        self.db.update(Gpu, lambda row: True, {"healthy": True})
        for model in (Window, NAMED, Maintenance):
            self.db.delete(model, lambda row: True)
        for node in self.rows(Node):
            self.move_node(node["id"], NodeState.READY)
        for job in self.open_jobs():
            control.release_job(actor=self.person(job["user_id"]), job=self.job(job["id"]))
            if "infinity" in job["spec"].get("run", ""):
                self.end(job["id"])
        self.end_what_can_never_run()

    def end_what_can_never_run(self) -> None:
        """As its person does, who reads so. It may have run on cards that are lent no more."""
        seen = snapshots.load_world().snapshot
        for waiting in seen.waiting:
            if check_feasibility(seen, waiting):
                self.end(waiting.job)

    def end(self, pk: int) -> None:
        control.end_job(by=SYSTEM, job=self.job(pk), reason="stopped_by_user")

    def move_node(self, pk: int, wanted: str) -> None:
        """As an admin does."""
        with transaction.atomic():
            (node,) = lock_rows(Node.objects.filter(pk=pk))
            if node.state != wanted:
                advance([Move(node)], wanted, actor=SYSTEM)

    # processes

    def spawn(self, name: str, body: Callable[[], object] | None = None) -> Process:
        bodies = {"cycle": tasks.cycle.run, "reconcile": tasks.reconcile.run}
        worker = Process(self.db, f"{name}-{self.events}", body or bodies[name])
        worker.rest = self.rests.pop() if name == "cycle" and self.rests else None  # type: ignore[attr-defined]
        self.workers.append(worker)
        return worker

    def resume(self, worker: Process, pauses: int) -> None:
        tasks._rest, row_cache._last = worker.rest or (None, None)  # type: ignore[attr-defined]
        worker.run(pauses)
        worker.rest = tasks._rest, row_cache._last  # type: ignore[attr-defined]
        if worker.done:
            self.workers.remove(worker)
            if worker.name.startswith("cycle"):
                self.rests.append(worker.rest)  # type: ignore[attr-defined]
            if worker.crash is not None and not is_luck(worker.crash):
                raise self.broken(f"{worker.name}: {type(worker.crash).__name__}: {worker.crash}") from worker.crash
        self.promises.look_at_runtime()
        self.untangle()

    def untangle(self) -> None:
        """Two that wait for each other: PostgreSQL would end one of them. The order of locks forbids it."""
        waiting = [worker for worker in self.workers if worker.waits is not None]
        for worker in waiting:
            seen, front = set(), [worker]
            while front:
                one = front.pop()
                for other in waiting:
                    if other.transaction is not None and one.waits is not None and other.transaction in one.waits():
                        if other is worker:
                            raise self.broken(f"deadlock: {worker.name} and {one.name}")
                        if other not in seen:
                            seen.add(other)
                            front.append(other)

    # what the tests and the acts ask

    def rows(self, model: Any) -> list[dict]:
        return self.db.rows(model)

    def open_jobs(self) -> list[dict]:
        return [job for job in self.rows(Job) if job["state"] not in JOB_FINAL]

    def job(self, pk: int) -> Job:
        return Job.objects.with_names().get(pk=pk)

    def person(self, pk: int) -> User:
        return self.db.static[User, pk]

    def note_commit(self, one: Any, before: dict) -> None:
        self.commits += 1
        who = self.db.process.name if self.db.process is not None else "the world"
        for (model, pk), row in one.writes.items():
            if row is not None and "state" in row and before.get((model, pk), {}) is not None:
                was = (before.get((model, pk)) or {}).get("state")
                if was != row["state"]:
                    self.log(f"{who}: {model.__name__.lower()} {pk} {was} to {row['state']} {row.get('reason', '')}")

    def log(self, words: str) -> None:
        self.trace.append(f"{self.events:5} {self.db.clock:9.3f} s  {words}")

    def check(self) -> None:
        if self.promises.broken:
            raise self.broken("; ".join(self.promises.broken[:3]))
        often = [pair for pair, count in self.promises.evictions.items() if count > SAME_EVICTION * 8]
        if often:
            raise self.broken(f"stopped again and again: {often}")

    def broken(self, words: str) -> Broken:
        last = "\n".join(self.trace[-60:])
        again = f"python -m tests.loop.replay {self.seed} --acts {self.acts}"
        return Broken(f"seed {self.seed}, act {self.events}: {words}\nAgain, with every step: {again}\n{last}")


def is_luck(error: BaseException) -> bool:
    return isinstance(error, ConnectionLost)
