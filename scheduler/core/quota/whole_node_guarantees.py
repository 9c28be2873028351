"""Limits that guarantees of whole nodes put on non-preemptible jobs of others.

* Enough nodes of each size stay free for cells without a node.
* Cells, with usage and guarantees outside of them, fit into the pool.

Ends break neither rule. If one is already broken, starts must not make it worse.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.core.model.demand import GangDemand
from scheduler.core.model.requests import OWN_POOL, list_kinds
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import GPU_MILLI, Refusal, TaskPlacement, TaskResources, WaitingJob
from scheduler.core.quota.cells import CellUsage, has_cells
from scheduler.core.quota.limits import card_capacity_milli, committed_milli

NO_OWNER = -1
"""Owner of nodes shared by teams, or without cells."""


def build_cell_constraint(snapshot: Snapshot, job: WaitingJob, demand: GangDemand) -> "CellConstraint | None":
    """Build the constraint for a job, None if there is none."""
    if job.preemptible or not snapshot.cells or not demand.most[GPU_MILLI]:
        return None
    pools = {cell.pool for cell in snapshot.cells} if demand.reach != OWN_POOL else {job.pool}
    tenancies = tuple(CellUsage.from_snapshot(snapshot, pool) for pool in sorted(pools) if has_cells(snapshot, pool))
    return CellConstraint(snapshot, job, tenancies) if tenancies else None


class CellConstraint:
    """Nodes on which a job may start its next task."""

    def __init__(self, snapshot: Snapshot, job: WaitingJob, tenancies: tuple[CellUsage, ...], taken_milli: int = 0):
        self._snapshot = snapshot
        self._job = job
        self._usages = tenancies
        self._taken_milli = taken_milli
        self._team_cells = set(snapshot.cells_of(job.team).tolist())

    def with_task(self, task: TaskPlacement) -> "CellConstraint":
        tenancies = tuple(tenancy.with_task(task, self._job.team) for tenancy in self._usages)
        taken = self._taken_milli + sum(card.milli for card in task.cards)
        return CellConstraint(self._snapshot, self._job, tenancies, taken)

    def node_choices(self, ask: TaskResources, kinds: int) -> list[np.ndarray]:
        """Return sets of nodes to try in turn, bool [N] each: shared nodes first."""
        if not ask.gpus:
            return [np.ones(len(self._snapshot.nodes), dtype=bool)]
        allowed = self.allowed_nodes(ask.gpus * max((ask.need_milli[kind] for kind in list_kinds(kinds)), default=0))
        if len({ask.preference[kind] for kind in list_kinds(kinds)}) > 1:
            return [allowed]
        broken = np.any([tenancy.held_milli > 0 for tenancy in self._usages], axis=0)
        return [allowed & broken, allowed]

    def allowed_nodes(self, milli: int) -> np.ndarray:
        """Return where a task of this size breaks neither rule: bool [N]."""
        allowed = np.ones(len(self._snapshot.nodes), dtype=bool)
        for tenancy in self._usages:
            allowed &= self._leaves_free_nodes(tenancy)
            if tenancy.pool == self._job.pool:
                allowed &= self._fits_guarantees(tenancy, milli)
        return allowed

    def refusal(self) -> Refusal:
        """Return `borrow_denied` with the teams whose cells are unused."""
        cells, kept = self._snapshot.cells, set()
        for tenancy in self._usages:
            kept |= {i for i, milli in tenancy.unused_milli.items() if milli and i not in self._team_cells}
        teams = sorted({cells[i].team for i in kept})
        names = [self._snapshot.team_name(team) for team in teams]
        return Refusal("borrow_denied", {"teams": names, "cards": max((cells[i].cards for i in kept), default=0)})

    def _leaves_free_nodes(self, tenancy: CellUsage) -> np.ndarray:
        """Check the first rule: bool [N]."""
        cells = self._snapshot.cells
        owner, allowed = np.full(len(tenancy.card_count), NO_OWNER), np.ones(len(tenancy.card_count), dtype=bool)
        for index, mine in tenancy.owned_nodes.items():
            owner[mine] = index
        owned = {index: int(mine.sum()) for index, mine in tenancy.owned_nodes.items()}
        unowned = tenancy.missing_cells(owned)
        for cards in {cells[index].cards for index in tenancy.cell_ids}:
            free = tenancy.free_nodes(cards)
            slack = int(free.sum()) - unowned[cards]
            if slack > 0:
                continue  # one task takes at most one node
            for nodes, used, gains, loses in self._ownership_changes(cards, free, owner, owned):
                then = {i: owned[i] + (i in gains) - (i in loses) for i in owned}
                left = int(free.sum()) - used - tenancy.missing_cells(then)[cards]
                if left < slack:
                    allowed &= ~nodes
        return allowed

    def _ownership_changes(
        self, cards: int, free: np.ndarray, owner: np.ndarray, owned: dict[int, int]
    ) -> Iterator[tuple[np.ndarray, int, set[int], set[int]]]:
        """Yield by class of node: (nodes, free ones used, cells that gain it, that lose it)."""
        cells, chains = self._snapshot.cells, self._snapshot.team_chain
        alike = {index for index in owned if cells[index].cards == cards}
        yield free, 1, alike & self._team_cells, set()
        for index in alike:
            theirs = {i for i in alike if cells[i].team in chains[cells[index].team]}
            yield owner == index, 0, set(), theirs - self._team_cells

    def _fits_guarantees(self, tenancy: CellUsage, milli: int) -> np.ndarray:
        """Check the second rule: bool [N]."""
        snapshot, pool = self._snapshot, tenancy.pool
        firm, unused = snapshot.firm[:, pool, GPU_MILLI].copy(), tenancy.unused_milli
        chain = list(snapshot.team_chain[self._job.team])
        firm[chain] += self._taken_milli
        most = max(
            committed_milli(snapshot, pool, firm + tenancy.sum_by_team(unused)), card_capacity_milli(snapshot, pool)
        )
        firm[chain] += milli

        def fits(changes: dict[int, int]) -> bool:
            then = {index: max(unused[index] + changes.get(index, 0), 0) for index in unused}
            return committed_milli(snapshot, pool, firm + tenancy.sum_by_team(then)) <= most

        allowed = np.full(len(tenancy.card_count), fits({}))
        if fits({index: 1000 * self._snapshot.cells[index].cards for index in unused}):
            return np.ones_like(allowed)  # even in the worst case
        for nodes, filled in self._node_classes(tenancy, unused):
            for held in np.unique(
                tenancy.held_milli[nodes & (tenancy.held_milli < 1000 * tenancy.card_count)]
            ).tolist():
                changes = {index: -milli if index in self._team_cells else held for index in filled}
                allowed[nodes & (tenancy.held_milli == held)] = fits(changes)
        return allowed

    def _node_classes(self, tenancy: CellUsage, unused: dict[int, int]) -> Iterator[tuple[np.ndarray, set[int]]]:
        """Yield classes of nodes with the cells they fill: free ones, then each team's."""
        cells, chains = self._snapshot.cells, self._snapshot.team_chain
        for cards in {cells[index].cards for index in unused}:
            missing = {i for i in unused if cells[i].cards == cards and tenancy.owned_nodes[i].sum() < cells[i].nodes}
            yield tenancy.free_nodes(cards), missing & self._team_cells
        for index in unused:  # child teams come later and override
            above = {i for i in unused if cells[i].cards == cells[index].cards}
            yield tenancy.filled_nodes[index], {i for i in above if cells[i].team in chains[cells[index].team]}
