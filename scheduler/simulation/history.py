"""What happened in a play: who ran where and when, who waited how long, and how full the cluster was."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.core.play import Moment, Play
from scheduler.core.types import Waiting

COMPLETED, PREEMPTED, RUNNING = "completed", "preempted", "running"


@dataclass(frozen=True)
class Run:
    """One stay of a job on its cards, ended as `how` says. A job that was stopped and went on has several."""

    job: int
    cards: tuple[int, ...]
    began_at: float
    ended_at: float
    how: str


@dataclass(frozen=True)
class Sample:
    """From `at` until the next sample: cards with somebody on them, and jobs that wait."""

    at: float
    cards_in_use: int
    waiting: int


class History:
    """What a play went through until `ended_at`."""

    def __init__(self) -> None:
        self.jobs: dict[int, Waiting] = {}
        self.runs: list[Run] = []
        self.samples: list[Sample] = []
        self.first_start: dict[int, float] = {}
        self.gone: dict[int, float] = {}
        """{job that gave up before it started: when}."""
        self.finished = 0
        self.ended_at = 0.0
        self._open: dict[int, tuple[float, tuple[int, ...]]] = {}

    def see(self, moment: Moment, play: Play) -> None:
        self.ended_at = moment.at
        for job in moment.ended:
            self._close(job, moment.at, COMPLETED)
        self.finished += len(moment.ended)
        for eviction in moment.plan.evictions:
            self._close(eviction.job, moment.at, PREEMPTED)
        for start in moment.plan.starts:
            if start.job in play.running:  # else it was stopped in the moment in which it started
                cards = tuple(card.gpu for task in play.running[start.job].tasks for card in task.cards)
                self._open[start.job] = moment.at, cards
                self.first_start.setdefault(start.job, moment.at)
        self.gone.update(dict.fromkeys(moment.gone, moment.at))
        sample = Sample(moment.at, int((play.snapshot.gpu_slices > 0).sum()), len(play.waiting))
        self.samples.append(sample)

    def finish(self, at: float) -> None:
        """Who still runs is written down as far as it came."""
        self.ended_at = at
        for job in list(self._open):
            self._close(job, at, RUNNING)

    def wait_s(self, job: int) -> float:
        """Until it first started, or gave up, or the end came."""
        until = self.first_start.get(job, self.gone.get(job, self.ended_at))
        return max(until - self.jobs[job].submitted_at, 0.0)

    def _close(self, job: int, at: float, how: str) -> None:
        if job in self._open:
            began_at, cards = self._open.pop(job)
            self.runs.append(Run(job, cards, began_at, at, how))


def watch(
    play: Play, jobs: Iterable[Waiting], until: float, progress: Callable[[float, int], None] | None = None
) -> History:
    """Let the play pass until then, or until nothing is to come. jobs: all that wait or will come.

    progress: told the time and how many jobs have finished.
    """
    history = History()
    history.jobs = {job.job: job for job in jobs}
    for moment in play.moments(until):
        history.see(moment, play)
        if progress:
            progress(moment.at, history.finished)
    history.finish(until if until < inf else play.now)
    return history


def in_use_s(runs: Iterable[Run], cards: int, begin: float, end: float) -> np.ndarray:
    """[card] seconds between the two in which somebody was on it."""
    spans: list[list[tuple[float, float]]] = [[] for _ in range(cards)]
    for run in runs:
        for card in run.cards:
            spans[card].append((max(run.began_at, begin), min(run.ended_at, end)))
    return np.array([_union(sorted(each)) for each in spans])


def busy_s(runs: Iterable[Run], begin: float, end: float) -> float:
    """Card-seconds between the two, counted for each run alone."""
    return sum(max(min(run.ended_at, end) - max(run.began_at, begin), 0.0) * len(run.cards) for run in runs)


def quantiles(values: Iterable[float], *at: float) -> list[float]:
    """Of whole values, never between two; 0 where there is none."""
    found = sorted(values)
    return [float(np.quantile(found, share, method="inverted_cdf")) if found else 0.0 for share in at]


def _union(spans: list[tuple[float, float]]) -> float:
    total, reached = 0.0, -inf
    for begin, end in spans:
        if end > max(begin, reached):
            total += end - max(begin, reached)
            reached = end
    return total
