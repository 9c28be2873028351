"""What a series engine is asked in PromQL, and what its answer tells. Pure.

Asked for are our own figures alone, of subjects that are named; whatever else an answer holds is left aside.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite

import numpy as np

from monitoring.engine.figures import FIGURES, Figure, Labels
from monitoring.models import Source
from monitoring.series.grid import Array
from monitoring.series.keys import COLUMNS, Key, Kind
from monitoring.series.store import join_sources

NAMED_BY = {Kind.CARD: "gpu", Kind.NODE: "node", Kind.POOL: "pool"}
"""The label that tells a subject from others of its kind."""
COLUMN = "column"
"""A label of answers only: which figure it is, as the mean of a time has no name."""


class Nonsense(Exception):
    """What came is no answer."""


@dataclass(frozen=True)
class Grid:
    """Slots of equal steps."""

    start: datetime
    step_s: int
    slots: int

    @property
    def end(self) -> datetime:
        return self.start + timedelta(seconds=self.step_s * self.slots)


@dataclass(frozen=True)
class Told:
    """What an engine knows of a subject. values: means, (columns, slots), as a Frame has them; NaN = not known."""

    values: Array
    source: str


def build_expression(names: Mapping[Key, str], columns: Collection[str], step_s: int, origin: Labels) -> str:
    """Return the mean of each step of the figures of subjects. origin: labels of what this platform sent.

    Another pool, place or source of a card makes another series there: their mean is taken.
    """
    parts = []
    for kind, label in NAMED_BY.items():
        named = [name for key, name in names.items() if key.kind == kind]
        for figure in FIGURES[kind] if named else ():
            if figure.column in columns:
                wanted = _select({**origin, **figure.labels}, label, named)
                mean = f"avg by ({label}, source) (avg_over_time({figure.name}{wanted}[{step_s}s]))"
                parts.append(f'label_replace({mean}, "{COLUMN}", "{figure.column}", "{label}", ".*")')
    return " or ".join(parts)


def read_answer(body: bytes, names: Mapping[Key, str], grid: Grid) -> dict[Key, Told]:
    """Return what an answer tells of subjects, each value of the step that ends at its time. Raises Nonsense."""
    try:
        answer = json.loads(body)
        series = list(_list_series(answer["data"]["result"])) if answer["status"] == "success" else None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        series = None
    if series is None:
        raise Nonsense
    keys = {(NAMED_BY[key.kind], name): key for key, name in names.items()}
    figures = {(kind, figure.column): figure for kind, told in FIGURES.items() for figure in told}
    found: dict[Key, list[tuple[Figure, str, Array]]] = {}
    for labels, points in series:
        key = next((keys[pair] for pair in labels.items() if pair in keys), None)
        figure = figures.get((key.kind, labels.get(COLUMN, ""))) if key else None
        if key and figure:
            source = labels.get("source", Source.MEASURED)
            found.setdefault(key, []).append((figure, source, _place(points, figure.scale, grid)))
    return {key: _join(key, rows, grid) for key, rows in found.items()}


def quote(text: str) -> str:
    """Return a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _select(labels: Labels, label: str, names: list[str]) -> str:
    equal = [f"{name}={quote(value)}" for name, value in labels.items()]
    return "{" + ",".join([*equal, f"{label}=~{quote('|'.join(map(re.escape, names)))}"]) + "}"


def _list_series(result: list) -> Iterator[tuple[Labels, list[tuple[float, float]]]]:
    for one in result:
        labels = {str(name): str(value) for name, value in one["metric"].items()}
        yield labels, [(float(at_s), float(value)) for at_s, value in one["values"]]


def _place(points: list[tuple[float, float]], scale: float, grid: Grid) -> Array:
    """Return the values of the slots at whose ends they stand, as the column has them."""
    row, start_s = np.full(grid.slots, np.nan), grid.start.timestamp()
    for at_s, value in points:
        place = (at_s - start_s) / grid.step_s - 1
        if isfinite(value / scale) and isfinite(place) and 0 <= (slot := round(place)) < grid.slots:
            row[slot] = value / scale
    return row


def _join(key: Key, rows: list[tuple[Figure, str, Array]], grid: Grid) -> Told:
    """Bring the figures of a subject together; the mean where there are several series of one."""
    names = COLUMNS[key.kind]
    sums, counts = np.zeros((2, len(names), grid.slots))
    for figure, _, row in rows:
        known = ~np.isnan(row)
        sums[names.index(figure.column), known] += row[known]
        counts[names.index(figure.column), known] += 1
    sources = [source if source in Source.values else Source.MEASURED.value for _, source, _ in rows]
    values = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return Told(values, join_sources(min(sources), max(sources)))
