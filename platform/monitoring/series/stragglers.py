"""Tasks of a gang that are slower than the others for long. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from monitoring.series.grid import Array

LEAST_RANKS = 3
BEHIND = 0.2
"""Of the median that a rank must lack at least."""
LASTS_S = 900
KNOWN = 0.8
"""Of the time that must be known."""
QUIET_PERCENT = 5.0
"""A median below it says nothing: the whole gang loads data, or writes a checkpoint."""

K = TypeVar("K")


@dataclass(frozen=True)
class Straggler:
    """behind: what it lacks of the median, 0 to 1. since_slot: the first slot in which it was slower."""

    behind: float
    since_slot: int


def find_stragglers(busy: Mapping[K, Array], step_s: int) -> dict[K, Straggler]:
    """Return the ranks that have been more than a fifth below the median of all for the last quarter of an hour.

    busy: percent of each slot by rank, NaN = not known. Slots of a minute or more, so that each tells of a mean.
    """
    least = LASTS_S // step_s
    if len(busy) < LEAST_RANKS or not all(len(values) >= least for values in busy.values()):
        return {}
    medians = _find_medians(np.vstack(list(busy.values())))
    found = {key: _judge(values, medians, least) for key, values in busy.items()}
    return {key: straggler for key, straggler in found.items() if straggler is not None}


def _find_medians(ranks: Array) -> Array:
    """Return the median of the ranks in each slot, NaN where less than half of them are known, or all are quiet."""
    many = 2 * np.count_nonzero(~np.isnan(ranks), axis=0) > len(ranks)
    medians = np.full(ranks.shape[1], np.nan)
    medians[many] = np.nanmedian(ranks[:, many], axis=0)
    medians[medians < QUIET_PERCENT] = np.nan
    return medians


def _judge(values: Array, medians: Array, least: int) -> Straggler | None:
    """Look back from now: how long, without a break, was it slower in all slots that say something?"""
    telling = ~np.isnan(values) & ~np.isnan(medians)
    keeps_up = telling & (values > (1 - BEHIND) * medians)
    since = int(np.flatnonzero(keeps_up)[-1]) + 1 if keeps_up.any() else 0
    slower = np.flatnonzero(telling[since:]) + since
    if not len(slower) or len(values) - slower[0] < least or np.count_nonzero(telling[-least:]) < KNOWN * least:
        return None
    behind = 1 - float(values[slower].mean() / medians[slower].mean())
    return Straggler(round(behind, 3), int(slower[0]))
