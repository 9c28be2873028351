"""View model of a sweep on the page of its array: the best trial, and all of them as parallel coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext as _

from jobs.arrays.models import JobArray, show_element_id
from jobs.jobfile.search.space import Choices, Parameter
from jobs.jobfile.search.wish import SearchWish
from sweeps.importance import rank_importance
from sweeps.trials import Trial, load_trials, rank_trials

MOST_LINES = 200
LEAST_WIDTH, EACH_WIDTH, MARGIN = 900, 150, 70
TOP, BOTTOM, HEIGHT = 48, 236, 264
TONES = 5
"""Shades of lines, the best trials' the strongest."""


@dataclass(frozen=True)
class Tick:
    y: str
    words: str


@dataclass(frozen=True)
class Axis:
    """ticks: its ends, or all of its values."""

    name: str
    x: str
    ticks: Sequence[Tick]


@dataclass(frozen=True)
class Line:
    """tone: 0 for the best fifth of trials, to 4. words: what it stands for."""

    points: str
    tone: int
    is_best: bool
    words: str


class SweepView:
    """A sweep. wish: what its file searches."""

    def __init__(self, array: JobArray, wish: SearchWish):
        self.array, self.wish = array, wish
        self.top, self.bottom, self.height = TOP, BOTTOM, HEIGHT

    @cached_property
    def trials(self) -> list[Trial]:
        return load_trials(self.array, self.wish)

    @cached_property
    def ranked(self) -> list[Trial]:
        return rank_trials(self.trials, self.wish)

    @property
    def best(self) -> Trial | None:
        return self.ranked[0] if self.ranked else None

    @property
    def best_id(self) -> str:
        return show_element_id(self.array.pk, self.ranked[0].index)

    @property
    def score(self) -> str:
        return show_score(self.ranked[0].score)

    @property
    def goal(self) -> str:
        words = _("Smallest %(metric)s") if self.wish.mode == "min" else _("Largest %(metric)s")
        return words % {"metric": self.wish.metric}

    @property
    def counts(self) -> str:
        """Say of how many trials it is the best, and how many were stopped early."""
        told = _("of %(n)s trials by %(method)s") % {"n": len(self.ranked), "method": self.wish.method}
        pruned = sum(trial.is_pruned for trial in self.trials)
        early = _("%(n)s stopped early") % {"n": pruned}
        return f"{told}, {early}" if pruned else told

    @cached_property
    def importance(self) -> list[tuple[str, list[tuple[str, float]], int]]:
        """Return the parameters as (name, its bar, percent), the one that matters most first."""
        shares = rank_importance(self.wish, self.ranked)
        return [(name, [("work", 100 * share)], round(100 * share)) for name, share in shares.items()]

    @property
    def width(self) -> int:
        return max(LEAST_WIDTH, EACH_WIDTH * (len(self.wish.space) + 1))

    @cached_property
    def axes(self) -> list[Axis]:
        spaces = [(name, list_ticks(parameter)) for name, parameter in self.wish.space.items()]
        low, high = self._range
        ends = (
            [Tick(_y(0), show_score(low)), Tick(_y(1), show_score(high))]
            if high > low
            else [Tick(_y(0.5), show_score(low))]
        )
        return [Axis(name, self._x(at), ticks) for at, (name, ticks) in enumerate([*spaces, (self.wish.metric, ends)])]

    @cached_property
    def lines(self) -> list[Line]:
        """Return the lines of the best trials, the best last, so that it lies above the others."""
        shown = self.ranked[:MOST_LINES]
        return [self._draw(trial, place, len(shown)) for place, trial in reversed(list(enumerate(shown)))]

    @cached_property
    def _range(self) -> tuple[float, float]:
        scores = [trial.score or 0.0 for trial in self.ranked[:MOST_LINES]]
        return min(scores), max(scores)

    def _x(self, at: int) -> str:
        return f"{MARGIN + at * (self.width - 2 * MARGIN) / len(self.wish.space):.1f}"

    def _draw(self, trial: Trial, place: int, count: int) -> Line:
        low, high = self._range
        ups = [find_place(parameter, trial.values[name]) for name, parameter in self.wish.space.items()]
        ups.append(((trial.score or 0.0) - low) / (high - low) if high > low else 0.5)
        points = " ".join(f"{self._x(at)},{_y(up)}" for at, up in enumerate(ups))
        said = " ".join(f"{name}={value}" for name, value in trial.values.items())
        words = f"{show_element_id(self.array.pk, trial.index)}: {self.wish.metric} {show_score(trial.score)}, {said}"
        return Line(points, place * TONES // count, place == 0, words)


def show_score(score: float | None) -> str:
    return "" if score is None else f"{score:.6g}"


def find_place(parameter: Parameter, text: str) -> float:
    """Return where a value is on its axis, from 0 at the bottom to 1."""
    if isinstance(parameter, Choices):
        known, last = parameter.values, len(parameter.values) - 1
        return known.index(text) / last if last and text in known else 0.5
    return parameter.place(text)


def list_ticks(parameter: Parameter) -> list[Tick]:
    shown = parameter.values if isinstance(parameter, Choices) else (parameter.first, parameter.last)
    return [Tick(_y(find_place(parameter, text)), text) for text in shown]


def _y(up: float) -> str:
    return f"{BOTTOM - up * (BOTTOM - TOP):.1f}"
