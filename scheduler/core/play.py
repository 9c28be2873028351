"""Let time pass in a snapshot: jobs come, run and end, and at each of these moments the scheduler looks once.

What forecasts and simulations share. The clock is virtual; each look is `cycle.run_cycle`, the code of production.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import inf

from scheduler.core.cycle import run_cycle
from scheduler.core.future import expected_end
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Placement, Plan, Policy, Running, Waiting


@dataclass(frozen=True)
class Moment:
    """What happened at one time: jobs that ended, and what the scheduler did."""

    at: float
    ended: tuple[int, ...]
    plan: Plan


class Play:
    """A world that moves. run_s: how long a job really runs when it starts, in seconds.

    ends: {running job: when it really ends}; one that is not named runs for ever. arrivals: jobs to come, each at its
    `submitted_at`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        now: float,
        run_s: Callable[[Waiting], float],
        *,
        ends: dict[int, float] | None = None,
        arrivals: Iterable[Waiting] = (),
    ):
        self.snapshot = snapshot.copy()
        self.policy = policy
        self.now = now
        self.waiting = {job.job: job for job in snapshot.waiting}
        self.running = {job.job: job for job in snapshot.running}
        self._was: dict[int, Waiting] = {}
        self._run_s = run_s
        self._ends = [(at, job) for job, at in (ends or {}).items()]
        heapify(self._ends)
        self._arrivals = sorted(arrivals, key=lambda job: (job.submitted_at, job.job), reverse=True)
        """The next one last."""

    def moments(self, until: float = inf) -> Iterator[Moment]:
        """Each time at which something happens, the present first, as long as something is to come before `until`."""
        ended: tuple[int, ...] = ()
        while self.now <= until:
            yield Moment(self.now, ended, self._look())
            at = self._next()
            if at == inf:
                return
            self.now = at
            ended = self._pass()

    def _look(self) -> Plan:
        """One cycle, and one more where it stopped somebody: those that it stopped are gone at once."""
        plan = self._cycle()
        while plan.evictions:
            for eviction in plan.evictions:
                self._leave(eviction.job)
                if job := self._was.get(eviction.job):
                    self.waiting[job.job] = job
            more = self._cycle()
            more.starts[:0] = plan.starts
            if not more.evictions:
                more.evictions[:0] = plan.evictions
                return more
            plan = more
        return plan

    def _cycle(self) -> Plan:
        self.snapshot.waiting, self.snapshot.running = tuple(self.waiting.values()), tuple(self.running.values())
        plan = run_cycle(self.snapshot, self.policy, self.now)
        for start in plan.starts:
            self._start(start)
        return plan

    def _start(self, start: Placement) -> None:
        job = self.waiting.pop(start.job)
        self._was[job.job] = job
        self.snapshot.take(start, job)
        self.running[job.job] = Running(
            job=job.job,
            team=job.team,
            user=job.user,
            pool=job.pool,
            priority=job.priority,
            tasks=start.tasks,
            saved_at=self.now,
            ends_at=self.now + job.time_s,
            started_at=self.now,
            time_s=job.time_s,
            preemptible=job.preemptible,
        )
        heappush(self._ends, (self.now + self._run_s(job), job.job))

    def _leave(self, job: int) -> None:
        self.snapshot.leave(self.running.pop(job))
        self._ends = [(at, other) for at, other in self._ends if other != job]
        heapify(self._ends)

    def _next(self) -> float:
        """When something happens next: an end, an arrival, or a job's pause is over."""
        pauses = (job.not_before for job in self.waiting.values() if job.not_before > self.now)
        ends = self._ends[0][0] if self._ends else inf
        arrives = self._arrivals[-1].submitted_at if self._arrivals else inf
        return max(min(ends, arrives, *pauses, inf), self.now)

    def _pass(self) -> tuple[int, ...]:
        """Everything that happens now. Who is over its time is expected to run on."""
        ended = []
        while self._ends and self._ends[0][0] <= self.now:
            _, job = heappop(self._ends)
            self.snapshot.leave(self.running.pop(job))
            ended.append(job)
        while self._arrivals and self._arrivals[-1].submitted_at <= self.now:
            job_that_comes = self._arrivals.pop()
            self.waiting[job_that_comes.job] = job_that_comes
        for number, job_that_runs in self.running.items():
            if job_that_runs.ends_at <= self.now:
                late = expected_end(job_that_runs.started_at, job_that_runs.time_s, self.now)
                self.running[number] = replace(job_that_runs, ends_at=late)
        return tuple(ended)
