"""Guarantees of whole nodes (cells), as in HiveD (OSDI'20).

A node is a team's cell from the start of its first non-preemptible job there until the last ends or another team's
starts.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import TaskPlacement


def has_cells(snapshot: Snapshot, pool: int) -> bool:
    return any(cell.pool == pool for cell in snapshot.cells)


def unused_by_team(snapshot: Snapshot, pool: int) -> np.ndarray:
    """Return the milli of cards in cells that teams do not use, [T], descendants included."""
    if not has_cells(snapshot, pool):
        return np.zeros(len(snapshot.team_chain), dtype=np.int64)
    tenancy = CellUsage.from_snapshot(snapshot, pool)
    return tenancy.sum_by_team(tenancy.unused_milli)


def roll_up_teams(snapshot: Snapshot, own: np.ndarray) -> np.ndarray:
    """Return [T] each team's value, or the sum over its children if larger."""
    chains, own, below = snapshot.team_chain, own.copy(), np.zeros_like(own)
    for team in sorted(range(len(chains)), key=lambda team: -len(chains[team])):
        own[team] = max(own[team], below[team])
        if len(chains[team]) > 1:
            below[chains[team][1]] += own[team]
    return own


@dataclass(frozen=True, eq=False)
class CellUsage:
    """Non-preemptible use of one pool's nodes, in milli of cards.

    size: [N] cards. well: [N] usable. held: [N]. inside: [N, C] by each cell's team.
    """

    snapshot: Snapshot
    pool: int
    card_count: np.ndarray
    usable: np.ndarray
    held_milli: np.ndarray
    team_milli: np.ndarray

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, pool: int) -> "CellUsage":
        cards = snapshot.gpu_pool == pool
        size = np.bincount(snapshot.gpu_node[cards], minlength=len(snapshot.nodes))
        well = snapshot.node_open.copy()
        well[snapshot.gpu_node[cards & ~snapshot.gpu_open]] = False
        firm = snapshot.firm_usage_in(pool).copy()
        return cls(snapshot, pool, size, well, firm[:, 0], firm[:, 1:])

    @cached_property
    def cell_ids(self) -> list[int]:
        found = (index for index, cell in enumerate(self.snapshot.cells) if cell.pool == self.pool)
        return sorted(found, key=lambda index: len(self.snapshot.team_chain[self.snapshot.cells[index].team]))

    @cached_property
    def owned_nodes(self) -> dict[int, np.ndarray]:
        """{cell: nodes of its size that its team uses alone, bool [N]}."""
        taken, sizes = self.held_milli > 0, [cell.cards for cell in self.snapshot.cells]
        alone = (self.team_milli == self.held_milli[:, None]) & taken[:, None] & (self.card_count[:, None] == sizes)
        return {index: alone[:, index] for index in self.cell_ids}

    @cached_property
    def filled_nodes(self) -> dict[int, np.ndarray]:
        """{cell: owned nodes that count as its cells, fullest first, bool [N]}."""
        return {index: self._fullest_nodes(index, mine) for index, mine in self.owned_nodes.items()}

    def _fullest_nodes(self, index: int, mine: np.ndarray) -> np.ndarray:
        most = self.snapshot.cells[index].nodes
        if mine.sum() <= most:
            return mine
        nodes, fullest = mine.nonzero()[0], np.zeros_like(mine)
        fullest[nodes[np.argsort(-self.team_milli[nodes, index], kind="stable")][:most]] = True
        return fullest

    def free_nodes(self, cards: int) -> np.ndarray:
        """Return the unused nodes of this size: bool [N]."""
        return self.usable & (self.card_count == cards) & (self.held_milli == 0)

    @cached_property
    def unused_milli(self) -> dict[int, int]:
        """{cell: unused milli of cards}."""
        found = {}
        for index in self.cell_ids:
            cell, inside = self.snapshot.cells[index], self.team_milli[self.filled_nodes[index], index]
            found[index] = max(1000 * cell.cards * cell.nodes - int(inside.sum()), 0)
        return found

    def sum_by_team(self, unused: dict[int, int]) -> np.ndarray:
        """Sum `unused` by team, [T], descendants included."""
        own = np.zeros(len(self.snapshot.team_chain), dtype=np.int64)
        for index, milli in unused.items():
            own[self.snapshot.cells[index].team] = milli
        return roll_up_teams(self.snapshot, own)

    def missing_cells(self, owned_count: dict[int, int]) -> dict[int, int]:
        """Return {size: cells without a node}, given the number of nodes that each cell owns."""
        cells, chains = self.snapshot.cells, self.snapshot.team_chain
        found: defaultdict[int, int] = defaultdict(int)
        below: defaultdict[int, int] = defaultdict(int)
        for index in reversed(self.cell_ids):
            cell = cells[index]
            missing = max(cell.nodes - owned_count[index], below[index], 0)
            alike = (i for i in owned_count if cells[i].cards == cell.cards and cells[i].team in chains[cell.team][1:])
            above = max(alike, key=lambda i: len(chains[cells[i].team]), default=None)
            if above is None:
                found[cell.cards] += missing
            else:
                below[above] += missing
        return found

    def with_task(self, task: TaskPlacement, team: int) -> "CellUsage":
        pools = self.snapshot.gpu_pool
        milli = sum(card.milli for card in task.cards if pools[card.gpu] == self.pool)
        held, inside = self.held_milli.copy(), self.team_milli.copy()
        held[task.node] += milli
        inside[task.node, self.snapshot.cells_of(team)] += milli
        return replace(self, held_milli=held, team_milli=inside)
