"""Simulation of the cluster over virtual time, with the production cycle."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.completion_queue import CompletionQueue
from scheduler.core.model.lending import list_window_edges
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, Plan, Policy, RunningJob, WaitingJob
from scheduler.core.placement.usual_requests import RequestHistory
from scheduler.core.queueing.cycle_context import CycleMemo
from scheduler.core.queueing.maintenance import list_maintenance_evictions
from scheduler.core.queueing.release_times import estimate_end


@dataclass(frozen=True)
class SimulationStep:
    """What happened at one time: ended jobs, jobs that gave up, jobs whose machine failed, and the plan."""

    at: float
    ended: tuple[int, ...]
    gave_up: tuple[int, ...]
    plan: Plan
    failed: tuple[int, ...] = ()


@dataclass(frozen=True)
class SimulationRules:
    """Simulation rules beyond arrivals, runs and ends.

    leaves_at: {job: when it leaves, started or not}. resume_cost_s: extra work after preemption, of all or {job: of
    those that go on}; others begin anew. pace: work per second of a running job. depth: oldest jobs per team and class
    in a cycle. follows: {job: (seconds after its end, records of the job that is queued then)}. changes: what is done
    to the simulation from outside, and when.
    """

    leaves_at: Mapping[int, float] = field(default_factory=dict)
    resume_cost_s: float | Mapping[int, float] | None = None
    pace: Callable[[RunningJob, Snapshot], float] | None = None
    depth: int | None = None
    follows: Mapping[int, tuple[float, Sequence[WaitingJob]]] = field(default_factory=dict)
    changes: Sequence[tuple[float, Callable[["Simulation"], None]]] = ()


class Simulation:
    """A running simulation. run_s: real run time of a job. ends: {running job: real end}, others never end.

    resumes: records of jobs that run from the start, with which they are queued again if they are stopped.
    history: what was asked before; then arrivals teach what is usual, as in production. None: the snapshot's usual
    requests stay.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        now: float,
        run_s: Callable[[WaitingJob], float],
        *,
        ends: dict[int, float] | None = None,
        arrivals: Iterable[WaitingJob] = (),
        resumes: Iterable[WaitingJob] = (),
        rules: SimulationRules | None = None,
        explains: bool = False,
        cycle_memo: CycleMemo | None = None,
        history: RequestHistory | None = None,
    ):
        self.snapshot = snapshot.copy()
        self._history = history
        self.policy = policy
        self.now = now
        self.rules = rules or SimulationRules()
        self.waiting: dict[tuple[int, int], WaitingJob] = {}
        """{(job, choice): record}."""
        self._records: dict[int, list[WaitingJob]] = {}
        """{job that waits or runs: its records, one for each pool where it waits when it is queued}."""
        self.held: set[int] = set()
        """Jobs that somebody holds."""
        self._dependents: dict[int, set[int]] = {}
        """{job: those that wait for its end}."""
        self._failed: list[int] = []
        """Jobs whose machine failed in this step."""
        self._arrays = {one.number: one for one in snapshot.arrays}
        for job in snapshot.waiting:
            self._queue(self._name_elements(job))
        for job in resumes:
            self._records.setdefault(job.job, []).append(job)
        self.running = {job.job: job for job in snapshot.running}
        self._work_left: dict[int, float] = {}
        """{preempted job: work left}."""
        self._run_s = run_s
        self._cycle_memo = cycle_memo or CycleMemo(explains)
        self._completions = CompletionQueue(ends or {}, now)
        self._arrivals = sorted(arrivals, key=_arrival_key, reverse=True)
        """Next one last."""
        self._departures = sorted(((at, job) for job, at in self.rules.leaves_at.items()), reverse=True)
        self._window_edges = self._list_window_edges()
        """Next one last."""
        self._changes = sorted(self.rules.changes, key=lambda change: change[0])[::-1]
        """Next one last."""

    def run_steps(self, until: float = inf) -> Iterator[SimulationStep]:
        """Yield each moment at which something happens, from now to `until`."""
        ended: tuple[int, ...] = ()
        gone: tuple[int, ...] = ()
        while self.now <= until:
            failed, self._failed = tuple(self._failed), []
            yield SimulationStep(self.now, ended, gone, self._run_cycles(), failed)
            at = self._next_event_at()
            if at == inf:
                return
            self.now = at
            ended, gone = self._apply_events()

    def change_cluster(self, **fields: Any) -> None:
        """Replace fields of the snapshot, such as quotas or what is open, and forget what was known of it."""
        self.snapshot = replace(self.snapshot, waiting=(), running=tuple(self.running.values()), **fields)
        self._cycle_memo = CycleMemo(self._cycle_memo.explains)
        self._window_edges = self._list_window_edges()

    def set_held(self, job: int, held: bool) -> None:
        """Hold or release a job, wherever it is: what runs goes on, and is held if it is queued again."""
        (self.held.add if held else self.held.discard)(job)
        for record in self._records.get(job, ()):
            if (job, record.choice) in self.waiting:
                self.waiting[job, record.choice] = replace(record, held=held)

    def fail_jobs_on(self, node: int, again_s: Callable[[int], float | None]) -> None:
        """Take down what runs on a machine. again_s: seconds until a job is queued again; None: it is over."""
        for job in [job for job in self.running.values() if any(task.node == node for task in job.tasks)]:
            self._failed.append(job.job)
            pause_s = again_s(job.job)
            records = self._records.get(job.job, []) if pause_s is not None else []
            self._completions.remove(job.job)
            self.snapshot.remove_job(self.running.pop(job.job))
            self._records.pop(job.job, None)
            for record in records:
                self._queue(replace(record, not_before=self.now + (pause_s or 0.0), queued_at=self.now))
            if pause_s is None:
                self._settle_end(job.job)

    def _run_cycles(self) -> Plan:
        """Run cycles until none preempts, or has seen all that could start."""
        plan, starts, evictions = Plan(), [], []
        while self.waiting or list_maintenance_evictions(self.snapshot, self.running.values(), self.now):
            plan, used_up = self._run_cycle()
            starts += plan.starts
            evictions += plan.evictions
            for eviction in plan.evictions:
                self._stop(eviction.job)
            again = plan.given_up or (plan.starts and self.policy.preempts_longer)
            if not plan.evictions and not used_up and not again:
                break
        plan.starts, plan.evictions = starts, evictions
        self._set_paces()
        return plan

    def _run_cycle(self) -> tuple[Plan, bool]:
        """Run one cycle; return its plan, and whether `depth` hid jobs."""
        if self._history:
            self._history.teach(self.snapshot)
        line = self._visible_queue()
        self.snapshot.waiting, self.snapshot.running = tuple(line), tuple(self.running.values())
        plan = run_cycle(self.snapshot, self.policy, self.now, self._cycle_memo)
        started = Counter(_team_and_class(self.waiting[start.job, start.choice]) for start in plan.starts)
        for start in plan.starts:
            self._start(start)
        return plan, self.rules.depth in started.values()

    def _visible_queue(self) -> list[WaitingJob]:
        if self.rules.depth is None:
            return list(self.waiting.values())
        seen: Counter[tuple[int, int]] = Counter()
        line = []
        for job in self.waiting.values():
            owner = _team_and_class(job)
            if seen[owner] < self.rules.depth:
                seen[owner] += 1
                line.append(job)
        return line

    def _list_window_edges(self) -> list[float]:
        return sorted((at for at in list_window_edges(self.snapshot) if self.now < at < inf), reverse=True)

    def _settle_end(self, job: int) -> None:
        """Let go what waited for a job's end, and queue what comes after it."""
        for number in self._dependents.pop(job, ()):
            records = [replace(one, after=tuple(n for n in one.after if n != job)) for one in self._records[number]]
            self._records[number] = records
            for record in records:
                if old := self.waiting.get((number, record.choice)):
                    self.waiting[number, record.choice] = replace(old, after=record.after, queued_at=self.now)
        self._queue_follower(job)

    def _queue_follower(self, job: int) -> None:
        """Queue what comes after a job's end, if its own time is not over by then."""
        pause_s, records = self.rules.follows.get(job, (0.0, ()))
        for record in records:
            if self.rules.leaves_at.get(record.job, inf) > self.now:
                self._queue(replace(record, not_before=self.now + pause_s, queued_at=self.now))

    def _queue(self, job: WaitingJob) -> None:
        self.waiting[job.job, job.choice] = replace(job, held=True) if job.job in self.held else job
        self._records.setdefault(job.job, []).append(job)
        for other in job.after:
            self._dependents.setdefault(other, set()).add(job.job)

    def _name_elements(self, job: WaitingJob) -> WaitingJob:
        """Let it wait for the elements of an array that are there, and for as long as the others are likely to take."""
        arrays = [self._arrays[number] for number in job.after if number in self._arrays]
        if not arrays:
            return job
        others = [number for number in job.after if number not in self._arrays]
        elements = {element for one in arrays for element in one.elements}
        not_before = max(job.not_before, *(one.last_made_at for one in arrays))
        return replace(job, after=(*others, *sorted(elements)), not_before=not_before)

    def _unqueue(self, number: int) -> bool:
        """Take all records of a job from the queue; False if none waits."""
        keys = [(number, record.choice) for record in self._records.get(number, ())]
        return bool([key for key in keys if self.waiting.pop(key, None)])

    def _start(self, start: Placement) -> None:
        job = self.waiting[start.job, start.choice]
        self._unqueue(job.job)
        self.snapshot.allocate(start, job)
        self.running[job.job] = RunningJob(
            job=job.job,
            team=job.team,
            user=job.user,
            pool=job.pool,
            priority=job.priority,
            tasks=start.tasks,
            saved_at=self.now if self._resume_cost_s(job.job) is None else inf,
            ends_at=self.now + job.time_s,
            started_at=self.now,
            time_s=job.time_s,
            limit_s=job.limit_s,
            latest_s=job.latest_s,
            preemptible=job.preemptible,
            waited_s=max(self.now - job.waits_from, 0.0),
            stops=job.stops,
        )
        work_s = self._work_left.pop(job.job, None)
        if work_s is None:
            work_s = min(self._run_s(job), job.limit_s, self.rules.leaves_at.get(job.job, inf) - self.now)
        self._completions.begin(job.job, work_s, self.now)

    def _stop(self, number: int) -> None:
        """Requeue a preempted job; with a checkpoint its estimate shrinks."""
        left = self._completions.work_left(number, self.now)
        self._completions.remove(number)
        ran = self.running.pop(number)
        self.snapshot.remove_job(ran)
        records = self._records.pop(number, [])
        if not records:
            return
        records = [replace(job, stops=job.stops + 1, queued_at=self.now) for job in records]
        cost_s = self._resume_cost_s(number)
        if cost_s is not None and isfinite(left):
            self._work_left[number] = left + cost_s
            records = [replace(job, time_s=ran.ends_at - self.now + cost_s) for job in records]
        for job in records:
            self._queue(job)
        if self.rules.depth is not None:
            self.waiting = {(job.job, job.choice): job for job in sorted(self.waiting.values(), key=_arrival_key)}

    def _resume_cost_s(self, job: int) -> float | None:
        """Return the extra work of a job that goes on after a stop, None if it begins anew."""
        cost_s = self.rules.resume_cost_s
        return cost_s.get(job) if isinstance(cost_s, Mapping) else cost_s

    def _set_paces(self) -> None:
        if pace := self.rules.pace:
            for job in self.running.values():
                self._completions.set_pace(job.job, pace(job, self.snapshot), self.now)

    def _next_event_at(self) -> float:
        """Return the time of the next event."""
        pauses = (job.not_before for job in self.waiting.values() if job.not_before > self.now)
        arrives = self._arrivals[-1].submitted_at if self._arrivals else inf
        leaves = self._departures[-1][0] if self._departures else inf
        changes = self._changes[-1][0] if self._changes else inf
        at = min(self._completions.next_end(), arrives, leaves, changes, *pauses, inf)
        if self._window_edges and (at < inf or self.waiting):  # windows alone are no event
            at = min(at, self._window_edges[-1])
        return max(at, self.now)

    def _apply_events(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Apply events due now: (jobs ended, gave up)."""
        ended, gone = [], []
        while self._completions.next_end() <= self.now:
            job = self._completions.pop_next()
            self.snapshot.remove_job(self.running.pop(job))
            ended.append(job)
            self._settle_end(job)
        while self._arrivals and self._arrivals[-1].submitted_at <= self.now:
            arrived = self._arrivals.pop()
            self._queue(arrived)
            if self._history and arrived.choice <= 0:  # once of all its records
                self._history.add(arrived.gang)
        while self._departures and self._departures[-1][0] <= self.now:
            _, job = self._departures.pop()
            if self._unqueue(job):
                gone.append(job)
        while self._window_edges and self._window_edges[-1] <= self.now:
            self._window_edges.pop()
        while self._changes and self._changes[-1][0] <= self.now:
            self._changes.pop()[1](self)
        for number, job_that_runs in self.running.items():
            if job_that_runs.ends_at <= self.now:
                late = estimate_end(job_that_runs.started_at, job_that_runs.time_s, self.now, job_that_runs.limit_s)
                self.running[number] = replace(job_that_runs, ends_at=late)
        return tuple(ended), tuple(gone)


def _team_and_class(job: WaitingJob) -> tuple[int, int]:
    return job.team, job.priority


def _arrival_key(job: WaitingJob) -> tuple[float, int]:
    return job.submitted_at, job.job
