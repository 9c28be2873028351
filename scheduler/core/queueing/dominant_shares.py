"""Weighted dominant shares of teams and users: the largest part that they hold of any resource."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from scheduler.core.model.snapshot import Snapshot


class DominantShares:
    """Dominant shares of teams and users, cached by snapshot version."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot
        self._known: dict[tuple, Any] = {}
        self._version = snapshot.version

    @cached_property
    def _cluster_capacity(self) -> tuple[int, ...]:
        snapshot = self._snapshot
        return _sum_capacity(np.ones_like(snapshot.gpu_open), np.ones_like(snapshot.node_open), snapshot)

    @cached_property
    def _pool_capacities(self) -> list[tuple[int, ...]]:
        return [_pool_capacity(self._snapshot, pool) for pool in range(self._snapshot.held.shape[1])]

    @property
    def version(self) -> int:
        return self._snapshot.version

    def root_of(self, team: int) -> int:
        return self._snapshot.team_chain[team][-1]

    def of_root(self, pool: int, team: int) -> float:
        """Return the share of the team's root."""
        return self.team_share(pool, self.root_of(team))

    def team_share(self, pool: int, team: int) -> float:
        return self._cached((pool, team), self._compute_team_share)

    def shares_below_root(self, pool: int, team: int, user: int) -> tuple[tuple[float, ...], float]:
        """Return (shares of the chain below the root, share of the user)."""
        return self._cached((pool, team, user), self._compute_shares_below_root)

    def _cached(self, key: tuple, find: Callable) -> Any:
        if self._version != self._snapshot.version:
            self._version, self._known = self._snapshot.version, {}
        if key not in self._known:
            self._known[key] = find(*key)
        return self._known[key]

    def _compute_team_share(self, pool: int, team: int) -> float:
        held, weight = self._snapshot.held[team, pool].tolist(), int(self._snapshot.weight[team, pool])
        return _dominant_share(held, self._pool_capacities[pool]) / max(weight, 1)

    def _compute_shares_below_root(self, pool: int, team: int, user: int) -> tuple[tuple[float, ...], float]:
        chain = reversed(self._snapshot.team_chain[team][:-1])
        of_user = _dominant_share(self._snapshot.user_held[user].tolist(), self._cluster_capacity)
        return tuple(self._compute_team_share(pool, above) for above in chain), of_user


def _dominant_share(held: list[int], capacity: tuple[int, ...]) -> float:
    return max(used / most for used, most in zip(held, capacity, strict=True))


def _pool_capacity(snapshot: Snapshot, pool: int) -> tuple[int, ...]:
    cards, nodes = snapshot.gpu_pool == pool, snapshot.node_pool == pool
    nodes[snapshot.gpu_node[cards]] = True
    return _sum_capacity(cards, nodes, snapshot)


def _sum_capacity(cards: np.ndarray, nodes: np.ndarray, snapshot: Snapshot) -> tuple[int, ...]:
    """Sum capacity by RESOURCES, each at least 1."""
    cpu, memory = snapshot.node_cpu_total[nodes].sum(), snapshot.node_memory_total[nodes].sum()
    return max(1000 * int(cards.sum()), 1), max(int(cpu), 1), max(int(memory), 1)
