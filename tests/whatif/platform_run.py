"""The platform's own code through days of jobs on the tests' runtime: Python's clock, the database's and the runtime's
are moved together, from one thing that happens to the next.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random

import pytest
import time_machine
from django.db import connection

from cluster.maintenance import save_maintenance
from cluster.models import Maintenance, Node
from common.errors import Conflict
from common.steady_clock import steady_time
from events.record_and_publish import SYSTEM
from jobs.control import hold_job, release_job, stop_job
from jobs.models import Job
from jobs.states import JobState
from quotas.models import Quota
from quotas.services import save_quota
from runtimes.contract.node import NodeView
from scheduler.commit.step_runner import run_steps
from scheduler.commit.steps import build_steps
from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Plan
from scheduler.lease import acquire
from scheduler.loading import snapshots
from scheduler.loading.snapshots import load_world
from scheduler.models import Lease
from scheduler.reconcile.round import Poller, reconcile_once
from tests import make
from tests.fakes.runtime import FakeRuntime

BEGINS = datetime(2026, 3, 2, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
START_S = 8.0
"""What a container takes to start."""
LOOK_S = 1.0
"""How soon the loops look again where something goes on."""

CLOCK_SQL = """
CREATE SCHEMA moved;
CREATE FUNCTION moved.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT current_setting('moved.now')::timestamptz $$;
CREATE FUNCTION moved.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT current_setting('moved.now')::timestamptz $$;
SET search_path TO moved, pg_catalog, public;
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND lower(column_default) LIKE '%statement_timestamp()%'
    LOOP
        EXECUTE format('ALTER TABLE public.%I ALTER COLUMN %I SET DEFAULT moved.statement_timestamp()',
                       one.table_name, one.column_name);
    END LOOP;
END $$;
"""
"""Calls find the functions of the first schema in the path; defaults of columns are bound, and so altered."""


class Clock:
    """One time for Python, the database and the runtime."""

    def __init__(self, runtime: FakeRuntime, traveller):
        self.now, self._runtime, self._traveller = BEGINS, runtime, traveller

    def move_to(self, at: datetime) -> None:
        if at > self.now:
            self._runtime.advance((at - self.now).total_seconds())
            self.now = at
            self._traveller.move_to(at)
            self.tell_database()

    def tell_database(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('moved.now', %s, false)", [self.now.isoformat()])


@dataclass
class Run:
    """A platform that runs. `do` plans what somebody does; `go_on_until` lets it happen."""

    clock: Clock
    runtime: FakeRuntime

    def __post_init__(self) -> None:
        self._planned: list[tuple[datetime, int, Callable[[], object]]] = []
        self._numbers = count()
        self.poller = Poller(self.runtime)
        self.epochs = {name: acquire(name) for name in ("cycle", "reconcile")}
        Lease.objects.update(expires_at=BEGINS + timedelta(days=1000))

    def do(self, at_s: float, act: Callable[[], object]) -> None:
        heappush(self._planned, (BEGINS + timedelta(seconds=at_s), next(self._numbers), act))

    def go_on_until(self, until_s: float) -> None:
        until = BEGINS + timedelta(seconds=until_s)
        while (at := self._next_at()) is not None and at < until:
            only_starts = at in self._starts()
            self.clock.move_to(at)
            while self._planned and self._planned[0][0] <= self.clock.now:
                only_starts = False
                heappop(self._planned)[2]()
            if only_starts:  # nothing is freed by a container that is up
                reconcile_once(self.poller, self.epochs["reconcile"])
            else:
                self._let_loops_run()
        self.clock.move_to(until)
        self._let_loops_run()

    def _next_at(self) -> datetime | None:
        now = self.clock.now
        moments = [*self._starts(), *(task.ends_at for task in self._alive() if task.ends_at)]
        pauses = Job.objects.filter(state=JobState.QUEUED, not_before__gt=now).values_list("not_before", flat=True)
        edges = Maintenance.objects.filter(ends_at__gt=now).values_list("begins_at", "ends_at")
        moments += [*pauses, *(at for pair in edges for at in pair)]
        found = [at for at in moments if at > now] + [self._planned[0][0]] * bool(self._planned)
        return min(found, default=None)

    def _alive(self) -> list:
        return [task for task in self.runtime._tasks.values() if task.view.phase != "exited"]

    def _starts(self) -> set[datetime]:
        ends = {task.ends_at for task in self._alive()}
        return {task.runs_at for task in self._alive() if task.runs_at and task.view.phase == "starting"} - ends

    def _let_loops_run(self) -> None:
        """Reconcile and decide until nothing moves, a second apart, as the loops' hints have it."""
        reconcile_once(self.poller, self.epochs["reconcile"])
        while plan := self._decide():
            for _ in range(1 + bool(plan.evictions)):  # what is stopped is seen as stopped
                reconcile_once(self.poller, self.epochs["reconcile"])
            self.clock.move_to(self.clock.now + timedelta(seconds=LOOK_S))
            if not (plan.evictions or plan.given_up):  # else all that could start has
                return

    def _decide(self) -> Plan | None:
        """A cycle as scheduler.tasks has it, without the rows that it keeps from cycle to cycle: within one transaction
        a row that changes twice has the same version twice. What it learnt is kept. Return the plan, if it does much.
        """
        world = load_world()
        plan = run_cycle(world.snapshot, world.policy, steady_time(), world.cycle_memo)
        run_steps(build_steps(plan, world), self.epochs["cycle"])
        return plan if plan.starts or plan.evictions else None


@contextmanager
def platform_run(machines: int, cards: int, patch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A platform of equal machines in pool train, with teams vision, and nlp with its child speech."""
    names, memo, learnt = [f"n{number}" for number in range(machines)], snapshots.memo_for, {}
    patch.setattr(snapshots, "memo_for", lambda name, *key: learnt if name == "typical" else memo(name, *key))
    views = [NodeView(name, "127.0.0.1", "boot-1", 64_000, 512 * 1024, (), (), ()) for name in names]
    runtime = FakeRuntime(views, start_delay_s=START_S, now=BEGINS)
    with connection.cursor() as cursor:
        cursor.execute(CLOCK_SQL)
    travel = time_machine.travel(BEGINS, tick=False)
    clock = Clock(runtime, travel.start())
    try:
        clock.tell_database()
        train = make.pool("train", preempt=False)
        for name in names:
            node = make.node(name, pool=train, cpu_milli=64_000, memory_mib=512 * 1024)
            for _ in range(cards):
                make.gpu(node, pool=train)
        yield Run(clock, runtime)
    finally:
        travel.stop()
        with connection.cursor() as cursor:
            cursor.execute("RESET search_path")


def plan_month(run: Run, jobs: int, days: float, seed: int = 1) -> None:
    """Plan a month of three teams: jobs with what people say of their length, errors, retries, stops, held jobs, two
    changes of quota, a maintenance and a machine that fails.
    """
    dice = Random(seed)
    pool, machines = make.pool("train"), list(Node.objects.order_by("pk"))
    total = sum(node.gpus.count() for node in machines)
    nlp, vision = make.team("nlp"), make.team("vision")
    speech = make.team("speech", parent=nlp)
    third = 1000 * (total // 4)
    quotas = {
        team.name: make.quota(team, pool, gpu_milli_guarantee=third if team != speech else 0)
        for team in (nlp, vision, speech)
    }
    people = [make.user(f"{team.name}-{n}", team) for team in (nlp, vision, speech) for n in (1, 2)]
    rita = make.admin()
    for number in range(jobs):
        at_s = dice.uniform(0, days * DAY * 0.97)
        if dice.random() > 0.3:  # most come by day
            at_s = at_s // DAY * DAY + 8 * HOUR + at_s % DAY * 12 / 24
        spec = _draw_job(dice, number)
        run.do(at_s, partial(make.job, dice.choice(people), **spec))
        _draw_deed(run, dice, at_s, spec)
    run.do(0.35 * days * DAY, lambda: _change_quota(rita, quotas["nlp"], gpu_milli_limit=1000 * (total // 3)))
    run.do(0.6 * days * DAY, lambda: _change_quota(rita, quotas["vision"], gpu_milli_guarantee=0))
    begins = BEGINS + timedelta(seconds=0.5 * days * DAY + 6 * HOUR)
    planned = {"begins_at": begins, "ends_at": begins + timedelta(hours=6), "stops": True}
    run.do(
        0.5 * days * DAY,
        lambda: save_maintenance(actor=SYSTEM, maintenance=Maintenance(**planned), nodes=machines[:1]),
    )
    run.do(0.7 * days * DAY, lambda: run.runtime.reboot(machines[-1].name, "boot-2"))


def _draw_job(dice: Random, number: int) -> dict:
    run_s = min(max(dice.lognormvariate(9.2, 1.2), 120), 60 * HOUR)
    said = {"time": f"{max(int(run_s * dice.choice([0.5, 1.2, 1.5, 2, 4]) // 60), 2)}m"} if dice.random() < 0.7 else {}
    code = 1 if dice.random() < 0.08 else 0
    again = {"times": 1, "when": ["exit_nonzero", "container_lost", "node_lost"]}
    retry = {"retry": again} if dice.random() < 0.5 else {}
    priority = dice.choice(["low", "normal", "normal", "normal", "high"])
    flags = {"preemptible": priority == "low" or dice.random() < 0.4, "priority": priority}
    gpus = dice.choice(["1", "1", "1", "2", "2", "4", "8"])
    asks = {"gpu": gpus, "cpu": "2", "memory": "8GiB", "pool": "train"}
    held = {"hold": True} if dice.random() < 0.04 else {}
    return {"name": f"job {number}", "run": f"sleep {run_s:.0f}; exit {code}", **asks, **said, **flags, **retry, **held}


def _draw_deed(run: Run, dice: Random, at_s: float, spec: dict) -> None:
    """Some jobs are stopped while they wait or run, some are held for a while; who is held is released."""
    what, after_s, name = dice.random(), dice.lognormvariate(8, 1), spec["name"]
    if what < 0.06:
        run.do(at_s + after_s, lambda: _quietly(lambda job: stop_job(actor=job.user, job=job), name))
    elif what < 0.1:
        run.do(at_s + 60, lambda: _quietly(lambda job: hold_job(actor=job.user, job=job), name))
    if 0.06 <= what < 0.1 or "hold" in spec:
        run.do(at_s + 60 + 4 * after_s, lambda: _quietly(_release_if_held, name))


def _release_if_held(job: Job) -> None:
    if job.held_at is not None:
        release_job(actor=job.user, job=job)


def _quietly(act: Callable[[Job], object], name: str) -> None:
    """A person is told that it is too late."""
    if (job := Job.objects.filter(name=name).select_related("user", "team").first()) is not None:
        try:
            act(job)
        except Conflict:
            pass


def _change_quota(actor, quota: Quota, **values) -> None:
    row = Quota.objects.select_related("team", "pool").get(pk=quota.pk)
    for name, value in values.items():
        setattr(row, name, value)
    save_quota(actor=actor, quota=row)
