"""Request class: equal tasks share filters and scores."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.core.model.lending import OWN_POOL, list_windows
from scheduler.core.model.types import TaskResources


@dataclass(frozen=True)
class RequestClass:
    """One task's resources in a pool, on the `kinds` of a bit mask. reach: see `lending`."""

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
    def need_mib(self) -> np.ndarray:
        return np.array(self.ask.need_mib, dtype=np.int64)

    @cached_property
    def need_percent(self) -> np.ndarray:
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
