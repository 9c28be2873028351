"""Whole nodes that teams are guaranteed: who owns which.

A guarantee in cells is a promise of nodes and not of scattered cards, so that a job of a node's size always finds one
(Zhao et al., "HiveD", OSDI'20). A cell is bound to no node until a job of its team that cannot be stopped starts on a
free one; from then on the node is the team's own, until the last such job of it has ended or one of another team has
come. Jobs that can be stopped do not count: they may stand anywhere, and are stopped when the owner comes.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import TaskPlace


def has_cells(snapshot: Snapshot, pool: int) -> bool:
    return any(cell.pool == pool for cell in snapshot.cells)


def vacancy(snapshot: Snapshot, pool: int) -> np.ndarray:
    """Thousandths of cards in cells that each team does not hold, [T]; those of a team cover those below it."""
    if not has_cells(snapshot, pool):
        return np.zeros(len(snapshot.team_chain), dtype=np.int64)
    tenancy = Tenancy.of(snapshot, pool)
    return tenancy.vacancy(tenancy.unused)


def covering(snapshot: Snapshot, own: np.ndarray) -> np.ndarray:
    """[T] what each team has, and at least what those below it have together."""
    chains, own, below = snapshot.team_chain, own.copy(), np.zeros_like(own)
    for team in sorted(range(len(chains)), key=lambda team: -len(chains[team])):
        own[team] = max(own[team], below[team])
        if len(chains[team]) > 1:
            below[chains[team][1]] += own[team]
    return own


@dataclass(frozen=True, eq=False)
class Tenancy:
    """Who stands on the nodes of one pool with jobs that cannot be stopped. Thousandths of cards.

    size: [N] cards of the pool. well: [N] bool, the node and these cards can be used. held: [N] by all. inside: [N, C]
    by the team of each cell of the snapshot and those below it.
    """

    snapshot: Snapshot
    pool: int
    size: np.ndarray
    well: np.ndarray
    held: np.ndarray
    inside: np.ndarray

    @classmethod
    def of(cls, snapshot: Snapshot, pool: int) -> "Tenancy":
        cards = snapshot.gpu_pool == pool
        size = np.bincount(snapshot.gpu_node[cards], minlength=len(snapshot.nodes))
        well = snapshot.node_open.copy()
        well[snapshot.gpu_node[cards & ~snapshot.gpu_open]] = False
        firm = snapshot.firm_in(pool).copy()
        return cls(snapshot, pool, size, well, firm[:, 0], firm[:, 1:])

    @cached_property
    def cells(self) -> list[int]:
        """The cells of this pool, those of teams further down later."""
        found = (index for index, cell in enumerate(self.snapshot.cells) if cell.pool == self.pool)
        return sorted(found, key=lambda index: len(self.snapshot.team_chain[self.snapshot.cells[index].team]))

    @cached_property
    def owned(self) -> dict[int, np.ndarray]:
        """{cell: the nodes of its size on which its team stands alone, bool [N]}."""
        taken, sizes = self.held > 0, [cell.cards for cell in self.snapshot.cells]
        alone = (self.inside == self.held[:, None]) & taken[:, None] & (self.size[:, None] == sizes)
        return {index: alone[:, index] for index in self.cells}

    @cached_property
    def filled(self) -> dict[int, np.ndarray]:
        """{cell: of the nodes that its team owns those that count as its cells, the fullest, bool [N]}."""
        return {index: self._fullest(index, mine) for index, mine in self.owned.items()}

    def _fullest(self, index: int, mine: np.ndarray) -> np.ndarray:
        most = self.snapshot.cells[index].nodes
        if mine.sum() <= most:
            return mine
        nodes, fullest = mine.nonzero()[0], np.zeros_like(mine)
        fullest[nodes[np.argsort(-self.inside[nodes, index], kind="stable")][:most]] = True
        return fullest

    def free(self, cards: int) -> np.ndarray:
        """The nodes of this size that could be anybody's cell: bool [N]."""
        return self.well & (self.size == cards) & (self.held == 0)

    @cached_property
    def unused(self) -> dict[int, int]:
        """{cell: thousandths of cards in it that its team does not hold}."""
        found = {}
        for index in self.cells:
            cell, inside = self.snapshot.cells[index], self.inside[self.filled[index], index]
            found[index] = max(1000 * cell.cards * cell.nodes - int(inside.sum()), 0)
        return found

    def vacancy(self, unused: dict[int, int]) -> np.ndarray:
        """[T] the same by team, where those of a team cover those of the teams below it."""
        own = np.zeros(len(self.snapshot.team_chain), dtype=np.int64)
        for index, milli in unused.items():
            own[self.snapshot.cells[index].team] = milli
        return covering(self.snapshot, own)

    def unowned(self, owned: dict[int, int]) -> dict[int, int]:
        """{size: how many cells teams do not own}, where `owned` says how many nodes each does."""
        cells, chains = self.snapshot.cells, self.snapshot.team_chain
        found: defaultdict[int, int] = defaultdict(int)
        below: defaultdict[int, int] = defaultdict(int)
        for index in reversed(self.cells):
            cell = cells[index]
            missing = max(cell.nodes - owned[index], below[index], 0)
            alike = (i for i in owned if cells[i].cards == cell.cards and cells[i].team in chains[cell.team][1:])
            above = max(alike, key=lambda i: len(chains[cells[i].team]), default=None)
            if above is None:
                found[cell.cards] += missing
            else:
                below[above] += missing
        return found

    def with_task(self, task: TaskPlace, team: int) -> "Tenancy":
        """As it is when a job of the team that cannot be stopped has this task."""
        pools = self.snapshot.gpu_pool
        milli = sum(card.milli for card in task.cards if pools[card.gpu] == self.pool)
        held, inside = self.held.copy(), self.inside.copy()
        held[task.node] += milli
        inside[task.node, self.snapshot.cells_of(team)] += milli
        return replace(self, held=held, inside=inside)
