"""How long jobs run, learned from those that ended by themselves."""

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite
from random import Random

MAX_DRAWS = 20
LEAST_UNTIMED = 20
"""Past jobs without an estimate that tell how long such jobs run; fewer are no basis."""
SIMILAR_JOBS = 50
"""Past jobs with similar estimates to draw from."""


@dataclass(frozen=True)
class RunTimeHistory:
    """Run times of past jobs.

    ratios: run time / estimate. said: their estimates, ascending; only ratios of similar estimates are drawn, because
    long estimates are mostly too long. seconds: of jobs without an estimate.
    """

    ratios: tuple[float, ...] = (1.0,)
    seconds: tuple[float, ...] = ()
    estimates: tuple[float, ...] = ()

    def draw(self, dice: Random, time_s: float, elapsed_s: float = 0.0) -> float:
        """Draw a total run time beyond `elapsed_s`; `inf` if nothing is known."""
        for _ in range(MAX_DRAWS):
            drawn = self._draw(dice, time_s)
            if drawn > elapsed_s:
                return drawn
        return elapsed_s * (1 + dice.random()) + 1.0  # longer than all seen

    def _draw(self, dice: Random, time_s: float) -> float:
        if isfinite(time_s):
            return max(time_s * dice.choice(self._ratios_near(time_s)), 1.0) if self.ratios else time_s
        return max(dice.choice(self.seconds), 1.0) if self.seconds else inf

    def _ratios_near(self, time_s: float) -> tuple[float, ...]:
        if len(self.estimates) <= SIMILAR_JOBS:
            return self.ratios
        first = min(max(bisect(self.estimates, time_s) - SIMILAR_JOBS // 2, 0), len(self.estimates) - SIMILAR_JOBS)
        return self.ratios[first : first + SIMILAR_JOBS]


def learn_run_times(ran: Iterable[tuple[float | None, float]]) -> RunTimeHistory:
    """Learn from past jobs. ran: (estimate, run time in seconds)."""
    jobs = list(ran)
    told = sorted((said, seconds / said) for said, seconds in jobs if said)
    ratios, said = tuple(ratio for _, ratio in told), tuple(said for said, _ in told)
    untimed = tuple(seconds for said, seconds in jobs if not said)
    return RunTimeHistory(ratios or (1.0,), untimed if len(untimed) >= LEAST_UNTIMED else (), said)
