"""Let time pass in a snapshot: jobs come, run and end, and at each of these moments the scheduler looks once.

What forecasts and simulations share. The clock is virtual; each look is `cycle.run_cycle`, the code of production.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from scheduler.core.clockwork import Clockwork
from scheduler.core.context import Memory
from scheduler.core.cycle import run_cycle
from scheduler.core.ends import expected_end
from scheduler.core.lending import times_of_change
from scheduler.core.maintenance import to_clear
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Placement, Plan, Policy, Running, Waiting


@dataclass(frozen=True)
class Moment:
    """What happened at one time: jobs that ended, jobs that were tired of waiting, and what the scheduler did."""

    at: float
    ended: tuple[int, ...]
    gone: tuple[int, ...]
    plan: Plan


@dataclass(frozen=True)
class Rules:
    """How the world moves besides jobs that come, run and end.

    over_at: {job: when it is over, whether it has started or not}, as the day of somebody at a desk is.
    resume_s: a job that was stopped goes on from there, for so much more work, the same of all or {job: s}; None: from
    its beginning. It then says that it takes until its expected end, and that.
    pace: work done in a second by a running job in this cluster, 1 where nothing slows it. None: always 1.
    depth: so many of each team's jobs of each class of priority, the oldest, are looked at; None: all. More are looked
    at where all of a team's start: what holds up one team hides nobody of another.
    """

    over_at: Mapping[int, float] = field(default_factory=dict)
    resume_s: float | Mapping[int, float] | None = None
    pace: Callable[[Running, Snapshot], float] | None = None
    depth: int | None = None


class Play:
    """A world that moves. run_s: how long a job really runs from its beginning, in seconds.

    ends: {running job: when it really ends}; one that is not named runs for ever. arrivals: jobs to come, each at its
    `submitted_at`. explains: the plans tell why the rest waits, too. memory: of other plays on the same machines.
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
        rules: Rules | None = None,
        explains: bool = False,
        memory: Memory | None = None,
    ):
        self.snapshot = snapshot.copy()
        self.policy = policy
        self.now = now
        self.rules = rules or Rules()
        self.waiting = {job.job: job for job in snapshot.waiting}
        self.running = {job.job: job for job in snapshot.running}
        self._was: dict[int, Waiting] = {}
        self._left: dict[int, float] = {}
        """{job that was stopped: work that is left}."""
        self._run_s = run_s
        self._memory = memory or Memory(explains)
        self._clockwork = Clockwork(ends or {}, now)
        self._arrivals = sorted(arrivals, key=_age, reverse=True)
        """The next one last."""
        self._leaves = sorted(((at, job) for job, at in self.rules.over_at.items()), reverse=True)
        self._changes = sorted((at for at in times_of_change(snapshot) if now < at < inf), reverse=True)
        """The next one last."""

    def moments(self, until: float = inf) -> Iterator[Moment]:
        """Each time at which something happens, the present first, as long as something is to come before `until`."""
        ended: tuple[int, ...] = ()
        gone: tuple[int, ...] = ()
        while self.now <= until:
            yield Moment(self.now, ended, gone, self._look())
            at = self._next()
            if at == inf:
                return
            self.now = at
            ended, gone = self._pass()

    def _look(self) -> Plan:
        """One cycle where somebody waits or has to leave a machine, and more where it stopped somebody, who is gone at
        once, or started one that others may stop, or left a team with none looked at.
        """
        plan, starts, evictions = Plan(), [], []
        while self.waiting or to_clear(self.snapshot.closings, self.running.values(), self.now):
            plan, used_up = self._cycle()
            starts += plan.starts
            evictions += plan.evictions
            for eviction in plan.evictions:
                self._stop(eviction.job)
            if not plan.evictions and not used_up and not (plan.starts and self.policy.overtakes):
                break
        plan.starts, plan.evictions = starts, evictions
        self._set_paces()
        return plan

    def _cycle(self) -> tuple[Plan, bool]:
        """The plan, and whether somewhere all that were looked at started."""
        line = self._line()
        self.snapshot.waiting, self.snapshot.running = tuple(line), tuple(self.running.values())
        plan = run_cycle(self.snapshot, self.policy, self.now, self._memory)
        started = Counter(_owner(self.waiting[start.job]) for start in plan.starts)
        for start in plan.starts:
            self._start(start)
        return plan, self.rules.depth in started.values()

    def _line(self) -> list[Waiting]:
        if self.rules.depth is None:
            return list(self.waiting.values())
        seen: Counter[tuple[int, int]] = Counter()
        line = []
        for job in self.waiting.values():
            owner = _owner(job)
            if seen[owner] < self.rules.depth:
                seen[owner] += 1
                line.append(job)
        return line

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
            saved_at=self.now if self.rules.resume_s is None else inf,
            ends_at=self.now + job.time_s,
            started_at=self.now,
            time_s=job.time_s,
            limit_s=job.limit_s,
            preemptible=job.preemptible,
            waited_s=max(self.now - job.submitted_at, 0.0),
            stops=job.stops,
        )
        work_s = self._left.pop(job.job, None)
        if work_s is None:
            work_s = min(self._run_s(job), job.limit_s, self.rules.over_at.get(job.job, inf) - self.now)
        self._clockwork.begin(job.job, work_s, self.now)

    def _stop(self, number: int) -> None:
        """It waits again, in its old place; with a checkpoint it takes what it has done off the time that it says."""
        left = self._clockwork.left(number, self.now)
        self._clockwork.stop(number)
        ran = self.running.pop(number)
        self.snapshot.leave(ran)
        job = self._was.get(number)
        if job is None:
            return
        job = replace(job, stops=job.stops + 1)
        if self.rules.resume_s is not None and isfinite(left):
            cost_s = self.rules.resume_s[number] if isinstance(self.rules.resume_s, Mapping) else self.rules.resume_s
            self._left[number] = left + cost_s
            job = replace(job, time_s=ran.ends_at - self.now + cost_s)
        self.waiting[number] = job
        if self.rules.depth is not None:
            self.waiting = {job.job: job for job in sorted(self.waiting.values(), key=_age)}

    def _set_paces(self) -> None:
        if pace := self.rules.pace:
            for job in self.running.values():
                self._clockwork.set_pace(job.job, pace(job, self.snapshot), self.now)

    def _next(self) -> float:
        """When something happens next: an end, an arrival, a window; or a job's pause or patience is over."""
        pauses = (job.not_before for job in self.waiting.values() if job.not_before > self.now)
        arrives = self._arrivals[-1].submitted_at if self._arrivals else inf
        leaves = self._leaves[-1][0] if self._leaves else inf
        at = min(self._clockwork.next(), arrives, leaves, *pauses, inf)
        if self._changes and (at < inf or self.waiting):  # windows alone are nothing to wait for
            at = min(at, self._changes[-1])
        return max(at, self.now)

    def _pass(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Everything that happens now: (jobs that ended, that gave up). Who is over its time is expected to run on."""
        ended, gone = [], []
        while self._clockwork.next() <= self.now:
            job = self._clockwork.end_next()
            self.snapshot.leave(self.running.pop(job))
            ended.append(job)
        while self._arrivals and self._arrivals[-1].submitted_at <= self.now:
            job_that_comes = self._arrivals.pop()
            self.waiting[job_that_comes.job] = job_that_comes
        while self._leaves and self._leaves[-1][0] <= self.now:
            _, job = self._leaves.pop()
            if self.waiting.pop(job, None):
                gone.append(job)
        while self._changes and self._changes[-1] <= self.now:
            self._changes.pop()
        for number, job_that_runs in self.running.items():
            if job_that_runs.ends_at <= self.now:
                late = expected_end(job_that_runs.started_at, job_that_runs.time_s, self.now, job_that_runs.limit_s)
                self.running[number] = replace(job_that_runs, ends_at=late)
        return tuple(ended), tuple(gone)


def _owner(job: Waiting) -> tuple[int, int]:
    return job.team, job.priority


def _age(job: Waiting) -> tuple[float, int]:
    return job.submitted_at, job.job
