"""How busy tasks kept their shares of cards over a time: of what they held at the time, as a slice may be resized."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from jobs.models import Task
from monitoring.series.frames import load_frame
from monitoring.series.grid import Array
from monitoring.series.keys import COLUMNS, Key, Kind
from quotas.models import Holding

Percents = tuple[tuple[datetime, int], ...]
"""What part of a card's compute was held since when, oldest first."""


@dataclass(frozen=True)
class ShareActivity:
    """rows: of each task, percent of its share in each slot, (slots,) for each card; NaN = not known."""

    start: datetime
    step_s: int
    rows: dict[Task, list[Array]]


def load_share_activity(
    tasks: Iterable[Task], start: datetime, end: datetime, step_s: int, most: int | None = None
) -> ShareActivity:
    """Return how busy tasks kept their shares; of those of which anything is known. most: shares at once."""
    known = {task.pk: task for task in tasks}
    percents = load_percents(known.values())
    frame = load_frame(list(percents)[:most], start, end, step_s)
    rows: dict[Task, list[Array]] = defaultdict(list)
    for key, values in frame.values.items():
        busy = values[COLUMNS[Kind.SHARE].index("busy_centi")] / 100
        rows[known[key.subject]].append(scale_to_percents(busy, percents[key], frame.start, frame.step_s))
    return ShareActivity(frame.start, frame.step_s, dict(rows))


def load_percents(tasks: Iterable[Task]) -> dict[Key, Percents]:
    """Return what each task held of each card's compute since when: a resize begins another holding."""
    ids = {task.uuid: task.pk for task in tasks}
    rows = Holding.objects.filter(task__in=ids, gpu__isnull=False).order_by("held_from")
    found: dict[Key, list[tuple[datetime, int]]] = defaultdict(list)
    for task, gpu, since, percent in rows.values_list("task", "gpu", "held_from", "gpu_compute_percent"):
        found[Key(Kind.SHARE, ids[task], gpu)].append((since, percent or 100))
    return {key: tuple(held) for key, held in found.items()}


def scale_to_percents(busy: Array, percents: Percents, start: datetime, step_s: int) -> Array:
    """Return percent of a share, of percent of its card's time in each slot, by what was held in its middle."""
    if not percents:
        return np.minimum(busy, 100.0)
    since = [(at - start).total_seconds() for at, _ in percents]
    middles = step_s * (np.arange(len(busy)) + 0.5)
    places = np.maximum(np.searchsorted(since, middles, side="right") - 1, 0)
    held = np.array([percent for _, percent in percents], dtype=np.float64)[places]
    return np.minimum(100 * busy / held, 100.0)
