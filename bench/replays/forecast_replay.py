"""Accuracy of start forecasts, made while a trace is simulated with the production cycle."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from scheduler.core.forecast.calibration import MAX_PAST_FORECASTS, PastForecast, fit_calibration
from scheduler.core.forecast.run_times import learn_run_times
from scheduler.core.forecast.simulate import Simulation, SimulationStep
from scheduler.core.forecast.start_forecast import build_ranges, simulate_future
from scheduler.core.forecast.told_range import revise_told_range
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Policy, StartRange, WaitingJob
from scheduler.core.queueing.cycle_context import CycleMemo

MAX_JOBS = 60
"""First jobs in line to forecast, as in production."""
MAX_PAST_RUNS = 500
"""Past jobs to learn run times from, as in production."""


@dataclass(frozen=True)
class ForecastOutcome:
    """A job's first forecast and its real start. raw: before calibration; calibrated: as told.

    moved_later: how often the end of what was told moved later until the start.
    """

    job: int
    submitted_at: float
    made_at: float
    raw: StartRange
    calibrated: StartRange
    started_at: float
    moved_later: int = 0


@dataclass(frozen=True)
class ForecastReplay:
    """The first forecast of each job that started, and the waits in seconds of those that were told none."""

    told: list[ForecastOutcome]
    untold_s: list[float]


@dataclass(frozen=True)
class ReplaySettings:
    """every_s: between forecasts. futures: per forecast."""

    policy: Policy
    every_s: float
    futures: int


def replay_forecasts(
    snapshot: Snapshot, jobs: Sequence[WaitingJob], run_s: Mapping[int, float], settings: ReplaySettings, until: float
) -> ForecastReplay:
    """Forecast the first in line now and then, as in production, until `until`."""
    play = Simulation(
        snapshot, settings.policy, jobs[0].submitted_at, lambda job: run_s[job.job], arrivals=jobs, explains=True
    )
    said = {job.job: job.time_s for job in jobs}
    keeper = _ForecastRecorder(settings, {job.job: job.submitted_at for job in jobs})
    look_at = play.now
    for moment in play.run_steps(until):
        keeper.record(moment, [(said[job] if isfinite(said[job]) else None, run_s[job]) for job in moment.ended])
        if moment.at >= look_at and play.waiting:
            keeper.forecast_line(play, moment)
            look_at = moment.at + settings.every_s
    return ForecastReplay(keeper.found, keeper.untold_s)


@dataclass
class _OpenForecast:
    """What a waiting job was told first, and what it is told now."""

    made_at: float
    raw: StartRange
    first: StartRange
    told: StartRange
    moved_later: int = 0

    def revise(self, fresh: StartRange, now: float) -> None:
        told = revise_told_range(self.told, fresh, now)
        self.moved_later += told.p90 > self.told.p90
        self.told = told


class _ForecastRecorder:
    def __init__(self, how: ReplaySettings, submitted_at: Mapping[int, float]):
        self.found: list[ForecastOutcome] = []
        self.untold_s: list[float] = []
        self._how = how
        self._submitted_at = submitted_at
        self._open: dict[int, _OpenForecast] = {}
        self._ran: deque[tuple[float | None, float]] = deque(maxlen=MAX_PAST_RUNS)
        self._looks = 0

    def record(self, moment: SimulationStep, ran: Sequence[tuple[float | None, float]]) -> None:
        """Record starts and run times. ran: (estimate, run time) of ended jobs."""
        self._ran.extend(ran)
        for start in moment.plan.starts:
            submitted_at, known = self._submitted_at[start.job], self._open.pop(start.job, None)
            if known is None:
                self.untold_s.append(moment.at - submitted_at)
                continue
            outcome = known.made_at, known.raw, known.first, moment.at, known.moved_later
            self.found.append(ForecastOutcome(start.job, submitted_at, *outcome))

    def forecast_line(self, play: Simulation, moment: SimulationStep) -> None:
        """Forecast the first in line."""
        places = moment.plan.positions
        line = tuple(job for job in play.waiting.values() if job.job in places and places[job.job][0] <= MAX_JOBS)
        self._looks += 1
        world = play.snapshot.copy()
        world.waiting, world.running = line, tuple(play.running.values())
        run_times, first = learn_run_times(self._ran), self._looks * self._how.futures
        numbers = range(first, first + self._how.futures)
        memory, policy = CycleMemo(explains=False), self._how.policy
        ranges = build_ranges(world, [simulate_future(world, policy, play.now, run_times, n, memory) for n in numbers])
        calibration = fit_calibration(self._past_forecasts(play.now))
        for job, raw in ranges.items():
            if not isfinite(raw.p90):
                continue
            fresh = calibration.apply(raw, play.now)
            if known := self._open.get(job):
                known.revise(fresh, play.now)
            else:
                self._open[job] = _OpenForecast(play.now, raw, fresh, fresh)

    def _past_forecasts(self, now: float) -> list[PastForecast]:
        ended = [
            PastForecast(one.made_at, one.raw.p10, one.raw.p90, one.started_at)
            for one in self.found[-MAX_PAST_FORECASTS:]
        ]
        waits = [
            PastForecast(one.made_at, one.raw.p10, one.raw.p90, now, is_waiting=True) for one in self._open.values()
        ]
        return ended + waits
