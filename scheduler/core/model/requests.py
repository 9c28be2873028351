"""Request class: equal tasks share filters and scores.

A reach is a bit mask of the cards that a job may use: OWN_POOL, plus one bit for each lending window, valid while it is
open.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.core.model.types import TaskResources

OWN_POOL = 1


@dataclass(frozen=True)
class RequestClass:
    """One task's resources in a pool, on the `kinds` of a bit mask. reach: a bit mask, see above."""

    ask: TaskResources
    pool: int
    kinds: int
    reach: int = OWN_POOL

    @cached_property
    def accepts(self) -> np.ndarray:
        """Acceptable kinds: [K] bool."""
        return np.array([bool(self.kinds >> kind & 1) for kind in range(len(self.ask.preference))], dtype=bool)

    @cached_property
    def lending_windows(self) -> list[int]:
        return list_windows(self.reach)

    @cached_property
    def need_mib_by_kind(self) -> np.ndarray:
        return np.array(self.ask.need_mib, dtype=np.int64)

    @cached_property
    def need_percent_by_kind(self) -> np.ndarray:
        return np.array(self.ask.need_percent, dtype=np.int64)

    @cached_property
    def kind_preference(self) -> np.ndarray:
        """Preference by kind: [K], valid where `accepts`."""
        return np.array(self.ask.preference, dtype=np.int64)

    @cached_property
    def has_equal_preferences(self) -> bool:
        """Whether all acceptable kinds are equally preferred."""
        return len(np.unique(self.kind_preference[self.accepts])) <= 1


def list_kinds(mask: int) -> list[int]:
    """List the kinds in a bit mask, ascending."""
    return [kind for kind in range(mask.bit_length()) if mask >> kind & 1]


def acceptable_kinds_mask(ask: TaskResources) -> int:
    """Return the bit mask of acceptable kinds."""
    return sum(1 << kind for kind, rank in enumerate(ask.preference) if rank >= 0) if ask.gpus else 0


def list_windows(reach: int) -> list[int]:
    return [bit - 1 for bit in range(1, reach.bit_length()) if reach >> bit & 1]


def lent_kinds_mask(window_kinds: Sequence[int], reach: int) -> int:
    """Return the bit mask of kinds that a reach's windows lend."""
    kinds = 0
    for window in list_windows(reach):
        kinds |= window_kinds[window]
    return kinds
