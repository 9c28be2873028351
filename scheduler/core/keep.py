"""What a job that nobody may stop leaves to the owners of whole nodes (`cells`).

Two rules for each of its tasks:

* Of the nodes of a size as many stay free as teams have cells that they do not own.
* Cells count as held, used or not; with what everybody holds outside of them and is guaranteed besides, they fit into
  the pool together.

An end breaks neither, so asking at each start is enough. Where a rule is broken already, for a node failed or a
guarantee was raised, nobody makes it worse.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.core.cells import Tenancy, has_cells
from scheduler.core.demand import Demand
from scheduler.core.lending import OWN
from scheduler.core.quota import card_capacity, promised
from scheduler.core.request import kinds_in
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import GPU_MILLI, Ask, Refusal, TaskPlace, Waiting

NOBODYS = -1
"""The owner of a node on which several teams stand, or one without cells."""


def build_keep(snapshot: Snapshot, job: Waiting, demand: Demand) -> "Keep | None":
    """What the job has to leave whole, None where that is nothing. On lent cards of other pools, too."""
    if job.preemptible or not snapshot.cells or not demand.most[GPU_MILLI]:
        return None
    pools = {cell.pool for cell in snapshot.cells} if demand.reach != OWN else {job.pool}
    tenancies = tuple(Tenancy.of(snapshot, pool) for pool in sorted(pools) if has_cells(snapshot, pool))
    return Keep(snapshot, job, tenancies) if tenancies else None


class Keep:
    """The nodes on which one job may start its next task. `after` is the same when a task has its place."""

    def __init__(self, snapshot: Snapshot, job: Waiting, tenancies: tuple[Tenancy, ...], taken_milli: int = 0):
        self._snapshot = snapshot
        self._job = job
        self._tenancies = tenancies
        self._taken_milli = taken_milli
        self._mine = set(snapshot.cells_of(job.team).tolist())

    def after(self, task: TaskPlace) -> "Keep":
        tenancies = tuple(tenancy.with_task(task, self._job.team) for tenancy in self._tenancies)
        taken = self._taken_milli + sum(card.milli for card in task.cards)
        return Keep(self._snapshot, self._job, tenancies, taken)

    def choices(self, ask: Ask, kinds: int) -> list[np.ndarray]:
        """Sets of nodes that a task may go to, bool [N] each, to be tried in turn: first those that are nobody's whole
        node any more, unless that could cost it a kind of card that it likes better.
        """
        if not ask.gpus:
            return [np.ones(len(self._snapshot.nodes), dtype=bool)]
        allowed = self.nodes(ask.gpus * max((ask.need_milli[kind] for kind in kinds_in(kinds)), default=0))
        if len({ask.preference[kind] for kind in kinds_in(kinds)}) > 1:
            return [allowed]
        broken = np.any([tenancy.held > 0 for tenancy in self._tenancies], axis=0)
        return [allowed & broken, allowed]

    def nodes(self, milli: int) -> np.ndarray:
        """Where a task of so many thousandths of cards breaks neither rule: bool [N]."""
        allowed = np.ones(len(self._snapshot.nodes), dtype=bool)
        for tenancy in self._tenancies:
            allowed &= self._leaves_enough(tenancy)
            if tenancy.pool == self._job.pool:
                allowed &= self._fits_with_all(tenancy, milli)
        return allowed

    def refusal(self) -> Refusal:
        """`borrow_denied` with the teams whose cells are not full, and the cards of the largest."""
        cells, kept = self._snapshot.cells, set()
        for tenancy in self._tenancies:
            kept |= {i for i, milli in tenancy.unused.items() if milli and i not in self._mine}
        teams = sorted({cells[i].team for i in kept})
        names = [self._snapshot.team_name(team) for team in teams]
        return Refusal("borrow_denied", {"teams": names, "cards": max((cells[i].cards for i in kept), default=0)})

    def _leaves_enough(self, tenancy: Tenancy) -> np.ndarray:
        """The first rule. Nodes with the same owner are alike: bool [N]."""
        cells = self._snapshot.cells
        owner, allowed = np.full(len(tenancy.size), NOBODYS), np.ones(len(tenancy.size), dtype=bool)
        for index, mine in tenancy.owned.items():
            owner[mine] = index
        owned = {index: int(mine.sum()) for index, mine in tenancy.owned.items()}
        unowned = tenancy.unowned(owned)
        for cards in {cells[index].cards for index in tenancy.cells}:
            free = tenancy.free(cards)
            slack = int(free.sum()) - unowned[cards]
            if slack > 0:
                continue  # one task costs others one node at most
            for nodes, used, gains, loses in self._joins(cards, free, owner, owned):
                then = {i: owned[i] + (i in gains) - (i in loses) for i in owned}
                left = int(free.sum()) - used - tenancy.unowned(then)[cards]
                if left < slack:
                    allowed &= ~nodes
        return allowed

    def _joins(
        self, cards: int, free: np.ndarray, owner: np.ndarray, owned: dict[int, int]
    ) -> Iterator[tuple[np.ndarray, int, set[int], set[int]]]:
        """For each sort of node of a size: (which nodes, free ones used, whose the node then is, whose no more)."""
        cells, chains = self._snapshot.cells, self._snapshot.team_chain
        alike = {index for index in owned if cells[index].cards == cards}
        yield free, 1, alike & self._mine, set()
        for index in alike:
            theirs = {i for i in alike if cells[i].team in chains[cells[index].team]}
            yield owner == index, 0, set(), theirs - self._mine

    def _fits_with_all(self, tenancy: Tenancy, milli: int) -> np.ndarray:
        """The second rule: bool [N]. Inside a cell of its own team a task takes nothing from others. On one of another
        team it turns what that one holds there into something outside of its cells.
        """
        snapshot, pool = self._snapshot, tenancy.pool
        firm, unused = snapshot.firm[:, pool, GPU_MILLI].copy(), tenancy.unused
        chain = list(snapshot.team_chain[self._job.team])
        firm[chain] += self._taken_milli
        most = max(promised(snapshot, pool, firm + tenancy.vacancy(unused)), card_capacity(snapshot, pool))
        firm[chain] += milli

        def fits(changes: dict[int, int]) -> bool:
            then = {index: max(unused[index] + changes.get(index, 0), 0) for index in unused}
            return promised(snapshot, pool, firm + tenancy.vacancy(then)) <= most

        allowed = np.full(len(tenancy.size), fits({}))
        if fits({index: 1000 * self._snapshot.cells[index].cards for index in unused}):
            return np.ones_like(allowed)  # even if every team lost what it holds of a node
        for nodes, filled in self._sorts(tenancy, unused):
            for held in np.unique(tenancy.held[nodes & (tenancy.held < 1000 * tenancy.size)]).tolist():
                changes = {index: -milli if index in self._mine else held for index in filled}
                allowed[nodes & (tenancy.held == held)] = fits(changes)
        return allowed

    def _sorts(self, tenancy: Tenancy, unused: dict[int, int]) -> Iterator[tuple[np.ndarray, set[int]]]:
        """Nodes that are, or with the task would be, cells, and which: the free ones, then those of each team."""
        cells, chains = self._snapshot.cells, self._snapshot.team_chain
        for cards in {cells[index].cards for index in unused}:
            missing = {i for i in unused if cells[i].cards == cards and tenancy.owned[i].sum() < cells[i].nodes}
            yield tenancy.free(cards), missing & self._mine
        for index in unused:  # those of teams further down come later, and say it better
            above = {i for i in unused if cells[i].cards == cells[index].cards}
            yield tenancy.filled[index], {i for i in above if cells[i].team in chains[cells[index].team]}
