"""The cluster at one moment, as a struct of arrays that can take, give back and copy."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.core.topology import Layout
from scheduler.core.types import (
    GPU_MILLI,
    Cell,
    Closing,
    Content,
    Placement,
    Running,
    TaskPlace,
    Typical,
    Waiting,
    Window,
    Wishes,
    amounts_of,
)

UNLIMITED = np.iinfo(np.int64).max
"""A limit that is none."""

_FLAGS = ("gpu_open", "node_open")
_AS_GIVEN = (
    "waiting", "running", "team_chain", "layouts", "typical", "closings", "windows", "contents", "cells", "wishes"
)  # fmt: skip
_LIVE = (
    "gpu_free_mib",
    "gpu_free_percent",
    "gpu_slices",
    "node_firm",
    "node_cpu_free",
    "node_memory_free",
    "held",
    "firm",
    "guests",
    "user_held",
    "user_jobs",
)
"""What starts and ends of tasks change; everything else is shared between copies."""


@dataclass(eq=False)
class Snapshot:
    """G cards on N nodes in P pools, T teams, U users, K kinds of cards, R = 3 resources (`types.RESOURCES`).

    Sequences are copied into int64 (or bool) arrays, so that the caller's stay as they were.
    """

    gpu_node: np.ndarray  # [G]
    gpu_pool: np.ndarray  # [G]
    gpu_kind: np.ndarray  # [G], a kind is a distinct (model, sellable MiB)
    gpu_total_mib: np.ndarray  # [G], what the card sells
    gpu_free_mib: np.ndarray  # [G]
    gpu_free_percent: np.ndarray  # [G]
    gpu_slices: np.ndarray  # [G], live slices; a card taken whole counts one
    gpu_max_slices: np.ndarray  # [G], 1: its pool is not shared, whole cards only
    gpu_open: np.ndarray  # [G], bool: healthy
    node_pool: np.ndarray  # [N], home pool: owns the node's CPU-only work
    node_cpu_free: np.ndarray  # [N], milli, after overcommit
    node_memory_free: np.ndarray  # [N], MiB
    node_open: np.ndarray  # [N], bool: READY
    node_cpu_total: np.ndarray  # [N], milli, after overcommit
    node_memory_total: np.ndarray  # [N], MiB
    team_chain: tuple[tuple[int, ...], ...]  # [T], the team itself, then its ancestors
    held: np.ndarray  # [T, P, R], a team's number includes its descendants
    guarantee: np.ndarray  # [T, P, R], 0: none
    limit: np.ndarray  # [T, P, R]
    weight: np.ndarray  # [T, P]
    user_held: np.ndarray  # [U, R]
    user_limit: np.ndarray  # [U, R]
    user_jobs: np.ndarray  # [U], running now
    user_jobs_limit: np.ndarray  # [U]
    kind_names: tuple[str, ...]  # [K]
    waiting: tuple[Waiting, ...] = ()
    running: tuple[Running, ...] = ()
    node_names: tuple[str, ...] = ()  # [N] or empty
    pool_names: tuple[str, ...] = ()  # [P] or empty
    team_names: tuple[str, ...] = ()  # [T] or empty
    layouts: tuple[Layout | None, ...] = ()  # [N] or empty: links of the node's cards in ascending order, None: unknown
    typical: Typical | None = None  # what is usually asked, None: unknown
    closings: tuple[Closing, ...] = ()  # times to come in which cards take nobody
    contents: tuple[Content, ...] = ()  # what nodes hold of what is wanted
    windows: tuple[Window, ...] = ()  # times in which pools lend their cards, now and to come
    cells: tuple[Cell, ...] = ()  # guarantees of whole nodes
    wishes: Wishes | None = None  # what is asked of which kinds, None: unknown

    def __post_init__(self):
        for name in self.__dataclass_fields__:
            if name not in _AS_GIVEN and not name.endswith("_names"):
                kind = np.bool_ if name in _FLAGS else np.int64
                setattr(self, name, np.array(getattr(self, name), dtype=kind))
        self.nodes = np.arange(len(self.node_open))
        self.version = 0
        self.prices: dict[int, Any] = {}
        """{pool: prices}, kept for `scarcity` and shared between copies."""
        self.changed_at = np.zeros(len(self.nodes), dtype=np.int64)
        self._chains = [np.array(chain, dtype=np.int64) for chain in self.team_chain]
        self.gpu_window = np.full(len(self.gpu_node), -1, dtype=np.int64)
        """[G] the window that is open for the card, -1: none. See `turn_to`."""
        self.window_kinds = [self._kinds_of(window.gpus) for window in self.windows]
        """[window] bit mask of the kinds of cards that it lends."""
        self._count_firm()
        self.promise(self.cells)
        self._by_node = np.argsort(self.gpu_node, kind="stable")
        self._owner = self.gpu_node[self._by_node]
        self._first = np.searchsorted(self._owner, np.arange(len(self.nodes) + 1))
        self._place = np.empty(len(self.gpu_node), dtype=np.int64)
        self._place[self._by_node] = np.arange(len(self._owner)) - self._first[self._owner]
        self.card_grid = np.full((len(self.nodes), max(np.diff(self._first), default=0)), -1, dtype=np.int64)
        """[N, C] the cards of each node, -1 where it has no more."""
        self.card_grid[self._owner, self._place[self._by_node]] = self._by_node
        self.pool_kinds = [0] * self.held.shape[1]
        for pool, kind in set(zip(self.gpu_pool.tolist(), self.gpu_kind.tolist(), strict=True)):
            self.pool_kinds[pool] |= 1 << kind

    def _count_firm(self) -> None:
        self.firm = self.held.copy()
        """[T, P, R] what of `held` nobody may take back: of jobs that are not preemptible, on cards of their pool."""
        self.guests = np.zeros(self.held.shape[1], dtype=np.int64)
        """[P] thousandths of its cards that such jobs of other pools hold."""
        pools = self.gpu_pool.tolist()
        self.lends = bool(self.windows) or any(
            pools[card.gpu] != job.pool for job in self.running for task in job.tasks for card in task.cards
        )
        """May anybody stand on a card of another pool than its own?"""
        soft = [job for job in self.running if job.preemptible]
        held = np.zeros_like(self.held)
        whose = [job.team for job in soft], [job.pool for job in soft]
        np.add.at(held, whose, np.array([job.amounts for job in soft], dtype=np.int64).reshape(-1, held.shape[2]))
        for team, chain in enumerate(self._chains):
            self.firm[chain] -= held[team]
        for job in self.running if self.lends else ():
            if not job.preemptible:
                self._count_guests(job.tasks, job, 1)

    def copy(self) -> "Snapshot":
        """An independent world: what happens to one is not seen by the other. Costs a handful of array copies."""
        twin = copy.copy(self)
        for name in (*_LIVE, "changed_at"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def emptied(self) -> "Snapshot":
        """A copy in which nobody holds anything, every node and card is open, and each card is for its own pool."""
        twin = self.copy()
        twin.gpu_window = np.full_like(self.gpu_window, -1)
        twin.gpu_free_mib[:] = self.gpu_total_mib
        twin.gpu_free_percent[:] = 100
        twin.node_cpu_free[:] = self.node_cpu_total
        twin.node_memory_free[:] = self.node_memory_total
        for name in ("gpu_slices", "node_firm", "held", "firm", "guests", "user_held", "user_jobs"):
            getattr(twin, name)[:] = 0
        twin.gpu_open, twin.node_open = np.ones_like(self.gpu_open), np.ones_like(self.node_open)
        return twin

    def take(self, placement: Placement, waiting: Waiting) -> None:
        """Let a job have what its placement says. The caller has asked the filters and the limits."""
        for task in placement.tasks:
            self.take_task(task)
        self.charge(placement.tasks, waiting)

    def give_back(self, placement: Placement, waiting: Waiting) -> None:
        """The exact undo of `take`."""
        for task in placement.tasks:
            self.give_back_task(task)
        self.charge(placement.tasks, waiting, sign=-1)

    def leave(self, job: Running) -> None:
        """A running job ends: its places come back and nobody is charged for it any more."""
        for task in job.tasks:
            self.give_back_task(task)
        self.charge(job.tasks, job, sign=-1)

    def come_back(self, job: Running) -> None:
        """The exact undo of `leave`."""
        for task in job.tasks:
            self.take_task(task)
        self.charge(job.tasks, job)

    def take_task(self, task: TaskPlace) -> None:
        """Take one task's cards, CPU and memory, without charging anybody."""
        self._move(task, 1)

    def give_back_task(self, task: TaskPlace) -> None:
        self._move(task, -1)

    def charge(self, tasks: tuple[TaskPlace, ...], waiting: Waiting | Running, sign: int = 1) -> None:
        """Count a job's tasks for its team, the ancestors, and its user."""
        amounts = sign * np.array(amounts_of(tasks), dtype=np.int64)
        self.held[self._chains[waiting.team], waiting.pool] += amounts
        if not waiting.preemptible:
            self.firm[self._chains[waiting.team], waiting.pool] += amounts
            if self.lends:
                self._count_guests(tasks, waiting, sign)
            self._mark(tasks, waiting.team, sign)
        self.user_held[waiting.user] += amounts
        self.user_jobs[waiting.user] += sign

    def turn_to(self, at: float) -> None:
        """Let those windows be open that are open at this time."""
        if self.windows:
            self.gpu_window = np.full_like(self.gpu_window, -1)
            for index, window in enumerate(self.windows):
                if window.begins_at <= at < window.ends_at:
                    self.gpu_window[list(window.gpus)] = index
            self.touch(self.nodes)

    def promise(self, cells: tuple[Cell, ...]) -> None:
        """Let these be the guarantees of whole nodes."""
        self.cells = cells
        self._cell_pools = {pool: place for place, pool in enumerate(sorted({cell.pool for cell in cells}))}
        self.node_firm = np.zeros((len(self._cell_pools), len(self.nodes), 1 + len(cells)), dtype=np.int64)
        """[pools with cells, N, 1 + cells] thousandths of the pool's cards that jobs hold that cannot be stopped: of
        all; of the team of each cell and those below it.
        """
        self._cells_of = [
            np.array([i for i, cell in enumerate(cells) if cell.team in chain], dtype=np.int64)
            for chain in self.team_chain
        ]
        if cells:
            unknown = self.gpu_slices.copy()
            for job in self.running:
                for task in job.tasks:
                    unknown[[card.gpu for card in task.cards]] -= 1
                if not job.preemptible:
                    self._mark(job.tasks, job.team, 1)
            for gpu in (unknown > 0).nonzero()[0].tolist():  # of those that nobody knows when they end
                if (place := self._cell_pools.get(int(self.gpu_pool[gpu]))) is not None:
                    self.node_firm[place, self.gpu_node[gpu], 0] += 1

    def firm_in(self, pool: int) -> np.ndarray:
        """`node_firm` of a pool with cells: [N, 1 + cells]."""
        return self.node_firm[self._cell_pools[pool]]

    def cells_of(self, team: int) -> np.ndarray:
        """The cells of the team and of those above it, as indices."""
        return self._cells_of[team]

    def touch(self, nodes: int | np.ndarray) -> None:
        """Whoever remembers something of these nodes looks again."""
        self.version += 1
        self.changed_at[nodes] = self.version

    def team_room(self, team: int, pool: int) -> np.ndarray:
        """What the team may still take, [R]: the narrowest of its own limit and its ancestors'. May be negative."""
        chain = self._chains[team]
        return (self.limit[chain, pool] - self.held[chain, pool]).min(axis=0)

    def cards_of(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All cards of these nodes, and for each the position in `nodes` of the node that carries it."""
        if nodes is self.nodes:
            return self._by_node, self._owner
        if len(nodes) == 1:
            gpus = self._by_node[self._first[nodes[0]] : self._first[nodes[0] + 1]]
            return gpus, np.zeros(len(gpus), dtype=np.int64)
        first, counts = self._first[nodes], self._first[nodes + 1] - self._first[nodes]
        owner = np.repeat(np.arange(len(nodes)), counts)
        before = np.cumsum(counts) - counts
        return self._by_node[np.arange(len(owner)) + (first - before)[owner]], owner

    def place_on_node(self, gpus: np.ndarray) -> np.ndarray:
        """The place of each card in the layout of its node."""
        return self._place[gpus]

    def layout_of(self, node: int) -> Layout | None:
        """The links between the node's cards, where they are known."""
        return self.layouts[node] if self.layouts else None

    def node_name(self, node: int) -> str:
        return self.node_names[node] if self.node_names else f"node {node}"

    def team_name(self, team: int) -> str:
        return self.team_names[team] if self.team_names else f"team {team}"

    def _kinds_of(self, gpus: tuple[int, ...]) -> int:
        return sum(1 << kind for kind in np.unique(self.gpu_kind[list(gpus)]).tolist())

    def _count_guests(self, tasks: tuple[TaskPlace, ...], job: Waiting | Running, sign: int) -> None:
        """What a job that cannot be stopped holds of other pools is not of its own."""
        for task in tasks:
            for card in task.cards:
                if (pool := self.gpu_pool[card.gpu]) != job.pool:
                    self.firm[self._chains[job.team], job.pool, GPU_MILLI] -= sign * card.milli
                    self.guests[pool] += sign * card.milli

    def _mark(self, tasks: tuple[TaskPlace, ...], team: int, sign: int) -> None:
        if self.cells:
            for task in tasks:
                for card in task.cards:
                    if (place := self._cell_pools.get(int(self.gpu_pool[card.gpu]))) is not None:
                        self.node_firm[place, task.node, 0] += sign * card.milli
                        self.node_firm[place, task.node, 1 + self._cells_of[team]] += sign * card.milli

    def _move(self, task: TaskPlace, sign: int) -> None:
        for card in task.cards:
            self.gpu_free_mib[card.gpu] -= sign * card.memory_mib
            self.gpu_free_percent[card.gpu] -= sign * card.compute_percent
            self.gpu_slices[card.gpu] += sign
        self.node_cpu_free[task.node] -= sign * task.cpu_milli
        self.node_memory_free[task.node] -= sign * task.memory_mib
        self.touch(task.node)
