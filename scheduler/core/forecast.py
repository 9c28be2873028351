"""When each waiting job will start: the same scheduler played into many possible futures.

Nobody knows how long jobs really run. What is known is how long those of the past ran for each second that they had
said, and how long those ran that had said nothing. Each future draws from both, and lets the queue pass without new
arrivals. The share of true starts inside the ranges is measured by whoever keeps the forecasts.
"""

from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log2
from random import Random

from scheduler.core.context import Memory
from scheduler.core.play import Play
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Policy, Running, Waiting

FUTURES = 20
MOST_MOMENTS = 200
"""So far each future is played: what starts later is told as later than that."""
TRIES = 20
ALIKE = 50
"""So many jobs of the past that said about as much tell how long one runs."""


@dataclass(frozen=True)
class RunTimes:
    """How long jobs ran. ratios: of what they had said (1.0: just as long); seconds: of those that said nothing.

    said: to each ratio the time that was said, ascending; or empty: then any ratio is as good for any time. Who says
    much more than others mostly says too much, and who says less too little: so the ratios of those count who said
    about as much.
    """

    ratios: tuple[float, ...] = (1.0,)
    seconds: tuple[float, ...] = ()
    said: tuple[float, ...] = ()

    def draw(self, dice: Random, time_s: float, elapsed_s: float = 0.0) -> float:
        """How long a job runs in all that has run for `elapsed_s` already; `inf` where nothing is known."""
        for _ in range(TRIES):
            drawn = self._draw(dice, time_s)
            if drawn > elapsed_s:
                return drawn
        return elapsed_s * (1 + dice.random()) + 1.0  # it has outlived all that was ever seen

    def _draw(self, dice: Random, time_s: float) -> float:
        if isfinite(time_s):
            return max(time_s * dice.choice(self._ratios_near(time_s)), 1.0) if self.ratios else time_s
        return max(dice.choice(self.seconds), 1.0) if self.seconds else inf

    def _ratios_near(self, time_s: float) -> tuple[float, ...]:
        if len(self.said) <= ALIKE:
            return self.ratios
        first = min(max(bisect(self.said, time_s) - ALIKE // 2, 0), len(self.said) - ALIKE)
        return self.ratios[first : first + ALIKE]


def learn_run_times(ran: Iterable[tuple[float | None, float]]) -> RunTimes:
    """ran: (the time that was said, how long it took in seconds) of jobs of the past."""
    jobs = list(ran)
    told = sorted((said, seconds / said) for said, seconds in jobs if said)
    ratios, said = tuple(ratio for _, ratio in told), tuple(said for said, _ in told)
    return RunTimes(ratios or (1.0,), tuple(seconds for said, seconds in jobs if not said), said)


@dataclass(frozen=True)
class Range:
    """When a job starts, in seconds of the clock: one future in ten is earlier than p10, one in ten later than p90.

    `inf`: not within what was looked at.
    """

    p10: float
    p50: float
    p90: float


def forecast(
    snapshot: Snapshot, policy: Policy, now: float, run_times: RunTimes, *, futures: int = FUTURES, seed: int = 0
) -> dict[int, Range]:
    """{waiting job: when it starts}. Same input, same forecast."""
    numbers, memory = range(seed * futures, (seed + 1) * futures), Memory(explains=False)
    found = [play_future(snapshot, policy, now, run_times, number, memory) for number in numbers]
    return build_ranges(snapshot, found)


def play_future(
    snapshot: Snapshot, policy: Policy, now: float, run_times: RunTimes, number: int, memory: Memory | None = None
) -> dict[int, float]:
    """{job: when it starts} in one future; each number is another. Jobs that do not start in it are not in it."""
    seen: dict[int, float] = {}
    for job, at in starts_in(snapshot, policy, now, run_times, number, memory):
        seen.setdefault(job, at)
    return seen


@dataclass(frozen=True)
class Drawn:
    """ends: {running job: when it ends in one future}, of those of which something is known. grain_s: no two moments of
    it are closer than this.
    """

    ends: dict[int, float]
    grain_s: float


def draw_ends(snapshot: Snapshot, now: float, run_times: RunTimes, number: int) -> Drawn:
    """Where more run than moments are looked at, those that end at about one time end at one: so that these moments
    reach as far as half of the ends.
    """
    dice = Random(number)  # noqa: S311 (a future is no secret)
    drawn = {job.job: _end(job, now, run_times, dice) for job in snapshot.running}
    ends = {job: at for job, at in drawn.items() if isfinite(at)}
    grain_s = 0.0
    if len(ends) > MOST_MOMENTS:
        half_s = max(sorted(ends.values())[len(ends) // 2] - now, 1.0)
        grain_s = 2.0 ** ceil(log2(half_s / MOST_MOMENTS))  # sums of powers of two are exact
    return Drawn({job: now + _in_grains(at - now, grain_s) for job, at in ends.items()}, grain_s)


def starts_in(
    snapshot: Snapshot,
    policy: Policy,
    now: float,
    run_times: RunTimes,
    number: int,
    memory: Memory | None = None,
    drawn: Drawn | None = None,
) -> Iterator[tuple[int, float]]:
    """(job, when it starts) in one future, in the order of time; who is stopped meanwhile starts once more.

    How long a job runs in a future depends on the two alone: with another queue it runs just as long, so that two
    queues can be compared by a few futures. memory: of other plays on the same machines, which explains nothing. drawn:
    what `draw_ends` says of this future, where it is known already.
    """
    known = drawn or draw_ends(snapshot, now, run_times, number)

    def run_s(job: Waiting) -> float:
        return _in_grains(run_times.draw(_dice_of(job, number), job.time_s), known.grain_s)

    play = Play(snapshot, policy, now, run_s, ends=known.ends, memory=memory)
    for count, moment in enumerate(play.moments()):
        for start in moment.plan.starts:
            yield start.job, moment.at
        if not play.waiting or count == MOST_MOMENTS:
            break


def build_ranges(snapshot: Snapshot, futures: list[dict[int, float]]) -> dict[int, Range]:
    """{waiting job: its range over these futures}."""
    return {job.job: build_range([seen.get(job.job, inf) for seen in futures]) for job in snapshot.waiting}


def build_range(times: list[float]) -> Range:
    """Of whole draws, never between two: half of infinity is no time. One more draw would fall before p10 in one case
    of ten, and as often behind p90: so few draws reach far out.
    """
    draws, count = sorted(times), len(times)
    p10, p90 = max(floor(0.1 * (count + 1)), 1), min(ceil(0.9 * (count + 1)), count)
    return Range(*(float(draws[place - 1]) for place in (p10, (count + 1) // 2, p90)))


def _in_grains(seconds: float, grain_s: float) -> float:
    return ceil(seconds / grain_s) * grain_s if grain_s and isfinite(seconds) else seconds


def _dice_of(job: Waiting, number: int) -> Random:
    return Random((number << 64) + job.job)  # noqa: S311


def _end(job: Running, now: float, run_times: RunTimes, dice: Random) -> float:
    if job.leaving:
        return job.ends_at
    elapsed_s = max(now - job.started_at, 0.0)
    return job.started_at + min(run_times.draw(dice, job.time_s, elapsed_s), max(job.limit_s, elapsed_s))
