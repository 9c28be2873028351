"""What is asked: a request class for equal tasks, which share filters and scores, and the demand of a gang.

A reach is a bit mask of the cards that a job may use: OWN_POOL, plus one bit for each lending window, valid while it is
open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import GPU_MILLI, Role, TaskResources

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


@dataclass(frozen=True)
class GangDemand:
    """Quota and kinds of cards that a gang needs in a pool.

    kinds: bit masks by role. least, most: [R] on the cheapest and the most expensive kinds.
    """

    gang: tuple[Role, ...]
    pool: int
    kinds: tuple[int, ...]
    least: np.ndarray
    most: np.ndarray
    reach: int = OWN_POOL

    def affordable_kinds(self, spare_milli: int) -> tuple[int, ...]:
        """Return `kinds` without those over `spare_milli` dearer than the cheapest."""
        if spare_milli >= self.most[GPU_MILLI] - self.least[GPU_MILLI]:
            return self.kinds
        return tuple(
            sum(1 << kind for kind in list_kinds(kinds) if extra_milli(role.ask, kinds, kind) <= spare_milli)
            for role, kinds in zip(self.gang, self.kinds, strict=True)
        )


def build_demand(
    snapshot: Snapshot, gang: tuple[Role, ...], pool: int, reach: int = OWN_POOL, reach_over_windows: int = OWN_POOL
) -> GangDemand:
    """Build a gang's demand. at_times: reach over all windows in which it could run."""
    has = snapshot.pool_kinds[pool] | lent_kinds_mask(snapshot.window_kinds, reach | reach_over_windows)
    kinds = tuple(acceptable_kinds_mask(role.ask) & has for role in gang)
    return GangDemand(gang, pool, kinds, _quota_amounts(gang, kinds, min), _quota_amounts(gang, kinds, max), reach)


def extra_milli(ask: TaskResources, kinds: int, kind: int) -> int:
    """Return the extra milli of one task on this kind over the cheapest."""
    return ask.gpus * (ask.need_milli[kind] - _milli_per_card(ask, kinds, min))


def _quota_amounts(gang: tuple[Role, ...], kinds: tuple[int, ...], pick: Callable) -> np.ndarray:
    each = [
        (role.ask.gpus * _milli_per_card(role.ask, mask, pick), role.ask.cpu_milli, role.ask.memory_mib)
        for role, mask in zip(gang, kinds, strict=True)
    ]
    tasks = np.array([role.min for role in gang], dtype=np.int64)
    return tasks @ np.array(each, dtype=np.int64).reshape(-1, 3)


def _milli_per_card(ask: TaskResources, kinds: int, pick: Callable) -> int:
    return pick((ask.need_milli[kind] for kind in list_kinds(kinds)), default=0)
