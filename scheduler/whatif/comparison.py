"""Play a history as it was and with changes, and put the results side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from os import cpu_count

import numpy as np

from monitoring.history.file_format import History
from scheduler.simulation.history import JobRun
from scheduler.whatif.measures import Figures, measure, wait_s
from scheduler.whatif.recorded_runs import recall_runs
from scheduler.whatif.replay import Play, Replay, play_history
from scheduler.whatif.scenarios import Scenario

POINTS = 360
"""Spans of time in which cards in use and waiting jobs are averaged."""
AS_IT_WAS = "as it was"


@dataclass(frozen=True)
class Result:
    """Of one play. busy, waiting: [POINTS] mean of cards in use and of jobs that wait. cards: (machine, index) of each.
    runs: of all jobs, and their teams, {job: team}.
    """

    figures: Figures
    busy: np.ndarray
    waiting: np.ndarray
    cards: tuple[tuple[str, int], ...]
    runs: tuple[JobRun, ...]
    teams: dict[int, str]


@dataclass(frozen=True)
class Outcome:
    """One scenario, played once for each seed where chance is in it, and else once."""

    name: str
    results: tuple[Result, ...]

    def spread(self, value: Callable[[Figures], float]) -> tuple[float, float, float]:
        """Return (mean, least, most) over the seeds."""
        found = [value(result.figures) for result in self.results]
        return sum(found) / len(found), min(found), max(found)


@dataclass(frozen=True)
class Comparison:
    """recorded: what really happened. outcomes: the replay as it was first, then the scenarios."""

    history: History
    recorded: Result
    outcomes: tuple[Outcome, ...]


def compare(
    history: History,
    scenarios: Sequence[Scenario],
    seeds: int,
    progress: Callable[[str, int, int], None] = lambda name, done, of: None,
) -> Comparison:
    """Play all, on as many cores as there are. progress: called with what is done. Raises ValueError of a scenario."""
    wanted = [(Scenario(AS_IT_WAS, ()), 1)]
    wanted += [(scenario, seed) for scenario in scenarios for seed in range(1, 1 + (seeds if scenario.chance else 1))]
    altered = [scenario.apply(history, seed) for scenario, seed in wanted]  # what is wrong is told before all work
    found: dict[int, Result] = {}
    with ProcessPoolExecutor(min(cpu_count() or 1, len(wanted)), mp_context=get_context("fork")) as pool:
        plays = {pool.submit(_play, one): place for place, one in enumerate(altered)}
        for play in as_completed(plays):
            place = plays[play]
            found[place] = play.result()
            progress(wanted[place][0].name, len(found), len(wanted))
    names = dict.fromkeys(id(scenario) for scenario, _ in wanted)
    outcomes = []
    for name in names:
        places = [place for place, (scenario, _) in enumerate(wanted) if id(scenario) == name]
        outcomes.append(Outcome(wanted[places[0]][0].name, tuple(found[place] for place in places)))
    return Comparison(history, describe(recall_runs(Replay(history))), tuple(outcomes))


def _play(history: History) -> Result:
    return describe(play_history(history))


def describe(play: Play) -> Result:
    begins, ends = play.history.header.begins, play.history.header.ends
    runs = play.happened.runs
    busy = average([(run.began_at, run.ended_at, run.milli / 1000) for run in runs], begins, ends)
    came = [number for number, stint in play.stints.items() if stint.after_s is None]
    spans = []
    for number in came:
        until = play.happened.first_start.get(number, play.happened.gave_up.get(number, ends))
        spans.append((until - wait_s(play, number), until, 1.0))
    cards = tuple((machine.name, card["index"]) for machine in play.history.machines for card in machine.cards)
    teams = {number: stint.job.team for number, stint in play.stints.items()}
    return Result(measure(play), busy, average(spans, begins, ends), cards, tuple(runs), teams)


def average(spans: Sequence[tuple[float, float, float]], begins: float, ends: float) -> np.ndarray:
    """Return [POINTS] the mean of what is so: (from, to, amount) each."""
    edges = np.linspace(begins, ends, POINTS + 1)
    if not spans:
        return np.zeros(POINTS)
    since, until, amount = (np.array(column) for column in zip(*spans, strict=True))
    total = np.zeros(POINTS + 1)  # amount times seconds before each edge
    for place, edge in enumerate(edges):
        total[place] = (amount * (np.clip(edge, since, np.maximum(until, since)) - since)).sum()
    return np.diff(total) / np.diff(edges)
