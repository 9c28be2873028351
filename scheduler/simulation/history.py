"""Record of a simulation: runs, waits and usage."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.core.forecast.simulate import Simulation, SimulationStep
from scheduler.core.model.types import CardShare, RunningJob, WaitingJob

COMPLETED, PREEMPTED, FAILED, RUNNING = "completed", "preempted", "failed", "running"


@dataclass(frozen=True)
class JobRun:
    """One run of a job on its cards; preempted jobs have several. milli: of cards in all."""

    job: int
    cards: tuple[int, ...]
    began_at: float
    ended_at: float
    outcome: str
    milli: int = 0


@dataclass(frozen=True)
class UsageSample:
    """Cards in use and waiting jobs from `at` to the next sample."""

    at: float
    cards_in_use: int
    waiting: int


class SimulationHistory:
    """What happened until `ended_at`."""

    def __init__(self) -> None:
        self.jobs: dict[int, WaitingJob] = {}
        self.runs: list[JobRun] = []
        self.samples: list[UsageSample] = []
        self.first_start: dict[int, float] = {}
        self.gave_up: dict[int, float] = {}
        """{job that gave up before it started: when}."""
        self.finished = 0
        self.ended_at = 0.0
        self._open: dict[int, tuple[float, tuple[CardShare, ...]]] = {}

    def begin(self, running: Mapping[int, RunningJob]) -> None:
        """Record what runs from the start."""
        for job in running.values():
            self._open[job.job] = job.started_at, tuple(card for task in job.tasks for card in task.cards)
            self.first_start[job.job] = job.started_at

    def record_step(self, moment: SimulationStep, play: Simulation) -> None:
        self.ended_at = moment.at
        for job in moment.ended:
            self._close(job, moment.at, COMPLETED)
        self.finished += len(moment.ended)
        for job in moment.failed:
            self._close(job, moment.at, FAILED)
        for eviction in moment.plan.evictions:
            self._close(eviction.job, moment.at, PREEMPTED)
        for start in moment.plan.starts:
            if start.job in play.running:  # else already stopped
                cards = tuple(card for task in play.running[start.job].tasks for card in task.cards)
                self._open[start.job] = moment.at, cards
                self.first_start.setdefault(start.job, moment.at)
        self.gave_up.update(dict.fromkeys(moment.gave_up, moment.at))
        sample = UsageSample(moment.at, int((play.snapshot.gpu_slices > 0).sum()), len(play.waiting))
        self.samples.append(sample)

    def close(self, at: float) -> None:
        """Close runs that have not ended."""
        self.ended_at = at
        for job in list(self._open):
            self._close(job, at, RUNNING)

    def wait_s(self, job: int) -> float:
        """Return the wait until the first start, giving up, or the end."""
        until = self.first_start.get(job, self.gave_up.get(job, self.ended_at))
        return max(until - self.jobs[job].submitted_at, 0.0)

    def _close(self, job: int, at: float, how: str) -> None:
        if job in self._open:
            began_at, cards = self._open.pop(job)
            milli = sum(card.milli for card in cards)
            self.runs.append(JobRun(job, tuple(card.gpu for card in cards), began_at, at, how, milli))


def record_simulation(
    play: Simulation, jobs: Iterable[WaitingJob], until: float, progress: Callable[[float, int], None] | None = None
) -> SimulationHistory:
    """Run the simulation and record its history."""
    history = SimulationHistory()
    history.jobs = {job.job: job for job in jobs}
    for moment in play.run_steps(until):
        history.record_step(moment, play)
        if progress:
            progress(moment.at, history.finished)
    history.close(until if until < inf else play.now)
    return history


def card_use_seconds(runs: Iterable[JobRun], cards: int, begin: float, end: float) -> np.ndarray:
    """Return [card] seconds in use within the period."""
    spans: list[list[tuple[float, float]]] = [[] for _ in range(cards)]
    for run in runs:
        for card in run.cards:
            spans[card].append((max(run.began_at, begin), min(run.ended_at, end)))
    return np.array([_sum_union(sorted(each)) for each in spans])


def busy_card_seconds(runs: Iterable[JobRun], begin: float, end: float) -> float:
    """Return the card-seconds of runs within the period."""
    return sum(max(min(run.ended_at, end) - max(run.began_at, begin), 0.0) * len(run.cards) for run in runs)


def quantiles(values: Iterable[float], *at: float) -> list[float]:
    """Return quantiles without interpolation."""
    found = sorted(values)
    return [float(np.quantile(found, share, method="inverted_cdf")) if found else 0.0 for share in at]


def _sum_union(spans: list[tuple[float, float]]) -> float:
    total, reached = 0.0, -inf
    for begin, end in spans:
        if end > max(begin, reached):
            total += end - max(begin, reached)
            reached = end
    return total
