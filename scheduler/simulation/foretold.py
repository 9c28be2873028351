"""A trace played by the production cycle, and at times what its forecast says to those who wait, kept and compared.

The forecast knows what production knows: what jobs say of their time, how those ran that have ended, which of its own
ranges held. When a job really ends, and who comes later, is known to the play alone.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from scheduler.core.calibration import MOST_PAST, Past, calibrate
from scheduler.core.context import Memory
from scheduler.core.forecast import Range, build_ranges, learn_run_times, play_future
from scheduler.core.play import Moment, Play
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Policy, Waiting

FIRST = 60
"""So many of the first in line are foretold, as in production."""
PAST = 500
"""So many of the last jobs tell how long jobs run, as in production."""


@dataclass(frozen=True)
class Foretold:
    """When a job was first foretold to start, and when it did. raw: as the futures gave it; told: as it was told."""

    job: int
    made_at: float
    raw: Range
    told: Range
    started_at: float


@dataclass(frozen=True)
class Plays:
    """every_s: between two looks at those who wait. futures: of each look."""

    policy: Policy
    every_s: float
    futures: int


def foretell(
    snapshot: Snapshot, jobs: Sequence[Waiting], run_s: Mapping[int, float], how: Plays, until: float
) -> list[Foretold]:
    """The first forecast of each job that waited at a look and started by `until`, in the order of the starts."""
    play = Play(snapshot, how.policy, jobs[0].submitted_at, lambda job: run_s[job.job], arrivals=jobs, explains=True)
    said = {job.job: job.time_s for job in jobs}
    keeper = _Keeper(how)
    look_at = play.now
    for moment in play.moments(until):
        keeper.note(moment, [(said[job] if isfinite(said[job]) else None, run_s[job]) for job in moment.ended])
        if moment.at >= look_at and play.waiting:
            keeper.look(play, moment)
            look_at = moment.at + how.every_s
    return keeper.found


class _Keeper:
    def __init__(self, how: Plays):
        self.found: list[Foretold] = []
        self._how = how
        self._open: dict[int, tuple[float, Range, Range]] = {}
        self._ran: deque[tuple[float | None, float]] = deque(maxlen=PAST)
        self._looks = 0

    def note(self, moment: Moment, ran: Sequence[tuple[float | None, float]]) -> None:
        """ran: (what it said, how long it took) of each job that has ended."""
        self._ran.extend(ran)
        for start in moment.plan.starts:
            if start.job in self._open:
                self.found.append(Foretold(start.job, *self._open.pop(start.job), moment.at))

    def look(self, play: Play, moment: Moment) -> None:
        """Foretell the first in line, where somebody is among them of whom nothing was told yet."""
        places = moment.plan.positions
        line = tuple(job for job in play.waiting.values() if job.job in places and places[job.job][0] <= FIRST)
        if all(job.job in self._open for job in line):
            return
        self._looks += 1
        world = play.snapshot.copy()
        world.waiting, world.running = line, tuple(play.running.values())
        run_times, first = learn_run_times(self._ran), self._looks * self._how.futures
        numbers = range(first, first + self._how.futures)
        memory, policy = Memory(explains=False), self._how.policy
        ranges = build_ranges(world, [play_future(world, policy, play.now, run_times, n, memory) for n in numbers])
        calibration = calibrate(self._past(play.now))
        for job, raw in ranges.items():
            if job not in self._open and isfinite(raw.p90):
                self._open[job] = play.now, raw, calibration.of(raw, play.now)

    def _past(self, now: float) -> list[Past]:
        ended = [Past(one.made_at, one.raw.p10, one.raw.p90, one.started_at) for one in self.found[-MOST_PAST:]]
        waits = [Past(at, raw.p10, raw.p90, now, waits=True) for at, raw, _ in self._open.values()]
        return ended + waits
