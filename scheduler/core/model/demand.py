"""Demand of a gang on quota and cards, computed once for equal jobs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.requests import OWN_POOL, acceptable_kinds_mask, lent_kinds_mask, list_kinds
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import GPU_MILLI, Role, TaskResources


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

    @property
    def costs_the_same(self) -> bool:
        """Whether it takes as much of a quota on whichever kind of cards."""
        return bool(self.most[GPU_MILLI] == self.least[GPU_MILLI])

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


def task_size(role: Role) -> tuple[int, bool, int, int]:
    """Return a sort key: larger is harder to place."""
    return role.ask.gpus, role.ask.whole, role.ask.cpu_milli, role.ask.memory_mib


def find_largest_role(gang: tuple[Role, ...]) -> int:
    """Return the index of the role whose tasks are hardest to place, of those that start with the gang."""
    return max(range(len(gang)), key=lambda index: (gang[index].min > 0, task_size(gang[index])))


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
