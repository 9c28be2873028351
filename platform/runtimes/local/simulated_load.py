"""What a task would do with a simulated card: plausible traces, pure functions of the task and the time it runs.

Activity is straight between corners, so its integral is exact: between any two moments the mean is a difference of
totals, however seldom anybody looks.

    train     loads data, then 85 to 97 %, with a dip at each checkpoint
    notebook  bursts of some seconds, then a person thinks; it stands while its program's CPU does
    starved   a saw-tooth, waiting for data
    idle      holds memory and computes nothing
    leak      computes, and holds more and more memory
    hot       computes without a pause, and the card is hot
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Corners = Sequence[tuple[float, float]]
"""(second, level), seconds ascending from 0."""

COOL_C, WARM_C, HOT_C = 34, 44, 58
"""An idle card, and what full activity adds."""


@dataclass(frozen=True)
class Wave:
    """Percent that a period of corners adds, from `begins_s` on. period: the last corner's second; one that never
    repeats keeps its last level."""

    corners: tuple[tuple[float, float], ...]
    begins_s: float = 0.0
    repeats: bool = True

    def read_level(self, at_s: float) -> float:
        since, period = at_s - self.begins_s, self.corners[-1][0]
        if since < 0:
            return 0.0
        return interpolate(self.corners, since % period if self.repeats else since)

    def integrate(self, at_s: float) -> float:
        """Return percent times seconds from the start until then."""
        since, period = max(at_s - self.begins_s, 0.0), self.corners[-1][0]
        if not self.repeats:
            beyond = max(since - period, 0.0) * self.corners[-1][1]
            return measure_area(self.corners, since) + beyond
        whole, part = divmod(since, period)
        return whole * measure_area(self.corners, period) + measure_area(self.corners, part)


@dataclass(frozen=True)
class Load:
    """A task's trace. memory: percent of its share by second; it never shrinks. heat_c: added by full activity.
    with_cpu: its time passes only while the task computes, where that is known.
    """

    waves: tuple[Wave, ...]
    memory: tuple[tuple[float, float], ...]
    heat_c: int = WARM_C
    with_cpu: bool = False

    def read_activity(self, at_s: float) -> float:
        """Return percent at a second after the start."""
        return sum(wave.read_level(at_s) for wave in self.waves)

    def count_busy_ms(self, at_s: float) -> float:
        """Return milliseconds of full activity from the start until then."""
        return 10 * sum(wave.integrate(at_s) for wave in self.waves)

    def read_memory_mib(self, at_s: float, share_mib: int) -> int:
        return int(share_mib * interpolate(self.memory, at_s) / 100)


def build_load(trace: str, task: str) -> Load:
    """Return the load of a task by its uuid; of `train` if the trace is unknown."""
    dice = random.Random(f"{trace} {task}")  # noqa: S311 - a plausible trace is no secret
    return TRACES.get(trace, _train)(dice)


def interpolate(corners: Corners, at: float) -> float:
    """Return the level at a moment; beyond the last corner, its level."""
    for (begin, low), (end, high) in pairwise(corners):
        if at < end:
            return low + (high - low) * (at - begin) / (end - begin)
    return corners[-1][1]


def measure_area(corners: Corners, until: float) -> float:
    """Return the area below the corners from 0 until a moment, at most until the last."""
    area = 0.0
    for (begin, low), (end, high) in pairwise(corners):
        if until <= begin:
            break
        stop = min(until, end)
        area += (stop - begin) * (low + low + (high - low) * (stop - begin) / (end - begin)) / 2
    return area


def _train(dice: random.Random) -> Load:
    loads_s, level = dice.uniform(10, 30), dice.uniform(90, 92)
    epoch_s, saves_s = dice.uniform(300, 900), dice.uniform(6, 15)
    dip = -dice.uniform(75, 84)
    checkpoint = ((0, 0), (epoch_s, 0), (epoch_s + 1, dip), (epoch_s + saves_s, dip), (epoch_s + saves_s + 1, 0))
    begins_s = loads_s + 5
    return Load(
        (
            Wave(((0, 0), (loads_s, 4), (begins_s, level)), repeats=False),
            Wave(_swing(dice.uniform(23, 41), 2.5), begins_s),
            Wave(_swing(dice.uniform(190, 420), 2.5), begins_s),
            Wave(checkpoint, begins_s),
        ),
        ((0, 0), (loads_s, 12), (begins_s, dice.uniform(62, 92))),
    )


def _notebook(dice: random.Random) -> Load:
    thinks_s, runs_s, level = dice.uniform(60, 200), dice.uniform(8, 40), dice.uniform(45, 80)
    burst = ((0, 0), (1, level), (runs_s, level), (runs_s + 1, 0), (runs_s + thinks_s, 0))
    return Load((Wave(burst),), ((0, 0), (5, dice.uniform(15, 35))), with_cpu=True)


def _starved(dice: random.Random) -> Load:
    tooth_s, level = dice.uniform(12, 30), dice.uniform(55, 85)
    return Load((Wave(((0, 0), (tooth_s, level), (tooth_s + 1, 0))),), ((0, 0), (10, dice.uniform(40, 60))))


def _idle(dice: random.Random) -> Load:
    return Load((), ((0, 0), (20, dice.uniform(30, 60))))


def _leak(dice: random.Random) -> Load:
    level = dice.uniform(60, 80)
    leaks = ((0, 0), (15, 25), (dice.uniform(1, 3) * 3600, 100))
    return Load((Wave(((0, 0), (10, level)), repeats=False), Wave(_swing(dice.uniform(40, 90), 8), 10)), leaks)


def _hot(dice: random.Random) -> Load:
    level = dice.uniform(97, 100)
    return Load((Wave(((0, 0), (5, level)), repeats=False),), ((0, 0), (5, dice.uniform(80, 95))), HOT_C)


def _swing(period_s: float, height: float) -> tuple[tuple[float, float], ...]:
    """Return corners of a period that goes up and down by a height, and is 0 on average."""
    return ((0, 0), (period_s / 4, height), (3 * period_s / 4, -height), (period_s, 0))


TRACES = {"train": _train, "notebook": _notebook, "starved": _starved, "idle": _idle, "leak": _leak, "hot": _hot}
