"""Means over equal slots of time, of samples that each tell the mean of a span. Pure; NaN is what is not known."""

import warnings

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_COVERED = 0.5
"""Part of a slot that must have been seen, or the slot is not known."""


def spread(ends: Array, spans: Array, values: Array, start: float, step: float, slots: int) -> Array:
    """Return the mean of each slot.

    ends: (samples,) when each ended, ascending; spans: (samples,) how long each was; start, step: of the slots; all in
    the same unit. values: (columns, samples). Returns (columns, slots). Where two samples overlap, the earlier counts.
    """
    means = np.full((len(values), slots), np.nan)
    if not len(ends):
        return means
    begins = np.maximum(ends - spans, np.concatenate(([-np.inf], ends[:-1])))
    edges = start + step * np.arange(slots + 1, dtype=np.float64)
    points = np.column_stack((begins, ends)).ravel()
    for column, told in enumerate(values):
        known = ~np.isnan(told)
        weights = np.where(known, ends - begins, 0.0)
        seen = np.diff(_integrate(points, weights, edges))
        total = np.diff(_integrate(points, weights * np.where(known, told, 0.0), edges))
        enough = seen >= LEAST_COVERED * step
        means[column, enough] = total[enough] / seen[enough]
    return means


def coarsen(values: Array, times: int, how: str = "mean") -> Array:
    """Return the mean (or "max") of each `times` slots that follow each other. values: (columns, slots)."""
    columns, slots = values.shape
    groups = values.reshape(columns, slots // times, times)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a group of which nothing is known stays NaN
        return np.nanmean(groups, axis=2) if how == "mean" else np.nanmax(groups, axis=2)


def _integrate(points: Array, amounts: Array, edges: Array) -> Array:
    """Return how much had come together until each edge. points: begin and end of each amount, in turn."""
    until = np.repeat(np.cumsum(amounts), 2)
    until[::2] -= amounts
    return np.interp(edges, points, until)
