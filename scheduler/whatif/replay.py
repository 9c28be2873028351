"""Play a history again with the production cycle, which knows only what was known at each time."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any

from jobs.models import JobKind
from jobs.pricing.expected_length import MOST_PAST, expected_length
from monitoring.history.file_format import Attempt, History
from scheduler.core.forecast.simulate import Simulation, SimulationRules
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import (
    CardShare,
    Placement,
    Role,
    RunningJob,
    TaskPlacement,
    WaitingJob,
)
from scheduler.core.placement.usual_requests import RequestHistory
from scheduler.loading.snapshots import build_gang
from scheduler.simulation.history import COMPLETED, SimulationHistory
from scheduler.whatif.recorded_cluster import RecordedCluster
from scheduler.whatif.stints import Crash, Stint, build_stints, list_crashes

EXPECT_EVERY = 10
"""Jobs after which the length of those that do not say is measured anew."""
RETRY_PAUSE_S = 5.0
NODE_LOST = "node_lost"
AT_ONCE_S = 2.0
"""A job that is held so soon was submitted so."""
Progress = Callable[[float, int], None]


@dataclass(frozen=True)
class Play:
    """What came of a history. stints: {number: stint} as in `happened`. waited_for: {team: {reason: job seconds}}."""

    history: History
    stints: dict[int, Stint]
    happened: SimulationHistory
    waited_for: dict[str, dict[str, float]]


def play_history(history: History, progress: Progress | None = None, *, explains: bool = True) -> Play:
    """Play it. progress: called with the time and the number of jobs that ended. Deterministic."""
    return Replay(history).run(progress, explains)


class Replay:
    """What a simulation of a history begins with."""

    def __init__(self, history: History):
        self.history = history
        self.cluster = RecordedCluster(history)
        self.crashes: list[Crash] = list_crashes(history)
        self.stints: dict[int, Stint] = {}
        self.numbers: dict[int, list[int]] = {}
        """{job: its stints}."""
        for job in sorted(history.jobs, key=lambda job: job.submitted_at):
            for stint in build_stints(job, history, self.crashes):
                number = len(self.stints) + 1
                self.stints[number] = stint
                self.numbers.setdefault(job.id, []).append(number)
        self._gangs: dict[int, tuple[Role, ...]] = {}
        self._retries_left = {job.id: int(job.retry.get("times", 0)) for job in history.jobs}
        self._lengths: dict[str, list[float]] = {pool.name: list(pool.lengths_s) for pool in history.pools}

    def run(self, progress: Progress | None, explains: bool) -> Play:
        begins, ends = self.history.header.begins, self.history.header.ends
        happened, reasons = SimulationHistory(), ReasonClock(self)
        records = {number: self._records(number) for number in self.stints}
        happened.jobs = {number: some[0] for number, some in records.items()}
        play = self._build(begins, records, explains)
        happened.begin(play.running)
        for step in play.run_steps(ends):
            happened.record_step(step, play)
            for number in step.ended:
                self._learn_length(number, happened)
            if explains:
                reasons.record(step.at, play, step.plan.refusals)
            if progress:
                progress(step.at, happened.finished)
        reasons.close(ends)
        happened.close(ends)
        return Play(self.history, self.stints, happened, reasons.seconds)

    def _build(self, begins: float, records: dict[int, list[WaitingJob]], explains: bool) -> Simulation:
        first = {number for number, stint in self.stints.items() if stint.after_s is None}
        running = {number for number in first if self._has_its_place(self.stints[number].running)}
        waiting = {n for n in first - running if self.stints[n].queued_at <= begins}
        snapshot = self._with_running(self.cluster.build_snapshot(begins), running, records)
        snapshot = replace(snapshot, waiting=tuple(one for n in sorted(waiting) for one in records[n]))
        follows = {}
        for numbers in self.numbers.values():
            for number, after in pairwise(numbers):
                follows[number] = (self.stints[after].after_s or 0.0) + RETRY_PAUSE_S, records[after]
        rules = SimulationRules(
            leaves_at={n: stint.leaves_at for n, stint in self.stints.items() if stint.leaves_at < inf},
            resume_cost_s={n: stint.resume_s for n, stint in self.stints.items() if stint.resume_s is not None},
            follows=follows,
            changes=[*self._list_changes(begins)],
        )
        return Simulation(
            snapshot,
            self.cluster.build_policy(),
            begins,
            lambda job: self.stints[job.job].run_s,
            ends={n: self.stints[n].runs_until for n in running},
            arrivals=[one for n in sorted(first - running - waiting) for one in records[n]],
            resumes=[one for n in sorted(running) for one in records[n]],
            rules=rules,
            explains=explains,
            history=self._recall_requests(),
        )

    def _recall_requests(self) -> RequestHistory:
        """Return what was asked before the beginning: in which order is not known, so all alike over that time."""
        asked = RequestHistory(tuple(kind.sellable_mib for kind in self.cluster.kinds))
        usuals = [(self._gang(usual.gang), usual.jobs) for usual in self.history.usuals]
        places = ((number + 0.5) / jobs for _, jobs in usuals for number in range(jobs))
        gangs = (gang for gang, jobs in usuals for _ in range(jobs))
        for _, gang in sorted(zip(places, gangs, strict=True), key=lambda pair: pair[0]):
            asked.add(gang)
        return asked

    def _has_its_place(self, attempt: Attempt | None) -> bool:
        """Whether something ran at the beginning, on machines that are there."""
        known = self.cluster.machines
        return attempt is not None and bool(attempt.seats) and all(seat.machine in known for seat in attempt.seats)

    def _list_changes(self, begins: float) -> Iterator[tuple[float, Any]]:
        ends = self.history.header.ends
        yield begins, self._expect_lengths
        yield from self.cluster.list_changes()
        arrivals = sorted(job.submitted_at for job in self.history.jobs if begins < job.submitted_at <= ends)
        for at in arrivals[::EXPECT_EVERY]:
            yield at, self._expect_lengths
        for at, machine in self.crashes:
            if begins < at <= ends and machine in self.cluster.machines:
                node = self.cluster.machines[machine]
                yield at, lambda play, node=node: play.fail_jobs_on(node, self._again_after_failure)
        for job in self.history.jobs:
            for since, until in job.holds:
                since = job.submitted_at if since < job.submitted_at + AT_ONCE_S else since
                for at, held in ((since, True), (until, False)):
                    if at is not None and at <= ends and (until or ends) > begins:
                        yield max(at, begins), lambda play, held=held, job=job: self._hold(play, job.id, held)

    def _hold(self, play: Simulation, job: int, held: bool) -> None:
        for number in self.numbers.get(job, ()):
            play.set_held(number, held)

    def _again_after_failure(self, number: int) -> float | None:
        job = self.stints[number].job
        if NODE_LOST not in job.retry.get("when", ()) or not self._retries_left[job.id]:
            return None
        self._retries_left[job.id] -= 1
        return RETRY_PAUSE_S

    def _expect_lengths(self, play: Simulation) -> None:
        play.change_cluster(expected_s=tuple(expected_length(some[-MOST_PAST:]) for some in self._lengths.values()))

    def _learn_length(self, number: int, happened: SimulationHistory) -> None:
        job, run = self.stints[number].job, happened.runs[-1]
        unsaid = job.time_s is None and all(choice["max_time_s"] is None for choice in job.choices)
        if unsaid and run.outcome == COMPLETED:
            self._lengths[job.choices[0]["pool"]].append(run.ended_at - run.began_at)

    def _gang(self, gang: list[dict]) -> tuple[Role, ...]:
        if id(gang) not in self._gangs:
            self._gangs[id(gang)] = build_gang(gang, self.cluster.kinds)
        return self._gangs[id(gang)]

    def _records(self, number: int) -> list[WaitingJob]:
        """Return a stint's records, one for each pool where it may run."""
        stint, job = self.stints[number], self.stints[number].job
        several = len(job.choices) > 1
        return [
            self._record(number, stint, choice, place if several else -1) for place, choice in enumerate(job.choices)
        ]

    def _record(self, number: int, stint: Stint, choice: dict, place: int) -> WaitingJob:
        job = stint.job
        limit = job.time_s if job.kind == JobKind.INTERACTIVE else choice["max_time_s"]
        return WaitingJob(
            job=number,
            team=self.cluster.teams[job.team],
            user=self.cluster.people[job.person],
            pool=self.cluster.pools[choice["pool"]],
            priority=job.priority,
            submitted_at=job.submitted_at,
            queued_at=stint.queued_at,
            gang=self._gang(choice["gang"]),
            not_before=stint.queued_at if stint.queued_at > job.submitted_at + AT_ONCE_S else 0.0,
            time_s=min(float(job.time_s or inf), float(limit or inf)),
            limit_s=float(limit or inf),
            preemptible=choice.get("preemptible", job.preemptible) and job.kind != JobKind.INTERACTIVE,
            choice=place,
        )

    def _with_running(self, snapshot: Snapshot, numbers: set[int], records: dict[int, list[WaitingJob]]) -> Snapshot:
        """Put those that ran at the beginning where they were."""
        running = []
        for number in sorted(numbers):
            stint = self.stints[number]
            attempt = stint.running
            assert attempt is not None
            record = self._chosen(records[number], attempt)
            job = self._running(number, record, attempt)
            snapshot.allocate(Placement(number, job.tasks), record)
            running.append(job)
        return replace(snapshot, running=tuple(running))

    def _chosen(self, records: Sequence[WaitingJob], attempt: Attempt) -> WaitingJob:
        pool = self.cluster.pools.get(attempt.pool, records[0].pool)
        return next((record for record in records if record.pool == pool), records[0])

    def _running(self, number: int, record: WaitingJob, attempt: Attempt) -> RunningJob:
        at = attempt.started_at or attempt.assigned_at or 0.0
        return RunningJob(
            job=number,
            team=record.team,
            user=record.user,
            pool=record.pool,
            priority=record.priority,
            tasks=tuple(self._seats(attempt)),
            saved_at=at,
            ends_at=at + record.time_s,
            started_at=at,
            time_s=record.time_s,
            limit_s=record.limit_s,
            preemptible=record.preemptible,
            waited_s=max(at - record.waits_from, 0.0),
        )

    def _seats(self, attempt: Attempt) -> Iterator[TaskPlacement]:
        for seat in attempt.seats:
            known, node = self.cluster.cards, self.cluster.machines[seat.machine]
            there = [(known.get((seat.machine, at)), *held) for at, *held in seat.cards]
            cards = tuple(CardShare(place, *held) for place, *held in there if place is not None)
            yield TaskPlacement(seat.role, seat.rank, node, cards, seat.cpu_milli, seat.memory_mib)


class ReasonClock:
    """For how long jobs of each team waited for which first reason. Held ones wait for nobody else."""

    def __init__(self, replay: Replay):
        self._replay = replay
        self.seconds: dict[str, dict[str, float]] = {team: {} for team in replay.cluster.teams}
        self._since, self._now = 0.0, Counter[tuple[str, str]]()

    def record(self, at: float, play: Simulation, refusals: dict) -> None:
        self.close(at)
        self._since, self._now = at, Counter()
        for number in {job.job for job in play.waiting.values() if job.not_before <= at and not job.held}:
            why = refusals.get(number)
            team = self._replay.stints[number].job.team
            self._now[team, why[0].reason if why else "not_explained_yet"] += 1

    def close(self, at: float) -> None:
        for (team, reason), jobs in self._now.items() if at > self._since else ():
            own = self.seconds[team]
            own[reason] = own.get(reason, 0.0) + jobs * (at - self._since)
