"""The cluster at one moment, as arrays that placements change and that are cheap to copy."""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.core.model.topology import LinkLayout
from scheduler.core.model.types import (
    GPU_MILLI,
    CachedContent,
    Cell,
    DemandProfile,
    LendingWindow,
    MaintenanceWindow,
    Placement,
    RunningJob,
    TaskPlacement,
    TypicalRequests,
    WaitedArray,
    WaitingJob,
    sum_quota_usage,
)

UNLIMITED = np.iinfo(np.int64).max
"""Value of an absent limit."""

_BOOL_ARRAYS = ("gpu_open", "node_open", "node_rdma")
_NOT_ARRAYS = (
    "waiting", "running", "team_chain", "layouts", "typical", "closings", "draining", "expected_s", "windows",
    "contents", "cells", "wishes", "arrays",
)  # fmt: skip
_CHANGING_ARRAYS = (
    "gpu_free_mib",
    "gpu_free_percent",
    "gpu_slices",
    "node_firm",
    "node_cpu_free",
    "node_memory_free",
    "numa_free",
    "held",
    "firm",
    "guests",
    "user_held",
    "user_jobs",
)
"""Arrays that placements change; all else is shared between copies."""


def _none() -> np.ndarray:
    return np.zeros(0, dtype=np.int64)


@dataclass(eq=False)
class Snapshot:
    """State of G cards, N nodes, P pools, T teams, U users, K kinds of cards and R resources.

    Sequences given are copied into int64 or bool arrays.
    """

    gpu_node: np.ndarray  # [G]
    gpu_pool: np.ndarray  # [G]
    gpu_kind: np.ndarray  # [G], distinct (model, MiB)
    gpu_total_mib: np.ndarray  # [G], allocatable
    gpu_free_mib: np.ndarray  # [G]
    gpu_free_percent: np.ndarray  # [G]
    gpu_slices: np.ndarray  # [G], in use; 1 if taken whole
    gpu_max_slices: np.ndarray  # [G], 1: whole cards only
    gpu_open: np.ndarray  # [G], healthy
    node_pool: np.ndarray  # [N], pool of its CPU-only work
    node_cpu_free: np.ndarray  # [N], milli, after overcommit
    node_memory_free: np.ndarray  # [N], MiB
    node_open: np.ndarray  # [N], READY
    node_cpu_total: np.ndarray  # [N], milli, after overcommit
    node_memory_total: np.ndarray  # [N], MiB
    team_chain: tuple[tuple[int, ...], ...]  # [T], itself, then ancestors
    held: np.ndarray  # [T, P, R], with descendants
    guarantee: np.ndarray  # [T, P, R], 0: none
    limit: np.ndarray  # [T, P, R]
    weight: np.ndarray  # [T, P]
    user_held: np.ndarray  # [U, R]
    user_limit: np.ndarray  # [U, R]
    user_jobs: np.ndarray  # [U], running
    user_jobs_limit: np.ndarray  # [U]
    kind_names: tuple[str, ...]  # [K]
    waiting: tuple[WaitingJob, ...] = ()
    running: tuple[RunningJob, ...] = ()
    node_names: tuple[str, ...] = ()  # [N] or empty
    pool_names: tuple[str, ...] = ()  # [P] or empty
    team_names: tuple[str, ...] = ()  # [T] or empty
    layouts: tuple[LinkLayout | None, ...] = ()  # [N] or empty
    typical: TypicalRequests | None = None  # common requests
    closings: tuple[MaintenanceWindow, ...] = ()  # maintenance
    draining: tuple[int, ...] = ()  # nodes that what can be queued again must leave
    expected_s: tuple[float, ...] = ()  # [P] or empty: run time of a job that gives none, if maintenance is planned
    contents: tuple[CachedContent, ...] = ()  # cached data and images
    windows: tuple[LendingWindow, ...] = ()  # lending, now and later
    cells: tuple[Cell, ...] = ()  # guarantees of whole nodes
    wishes: DemandProfile | None = None  # demand by kind
    arrays: tuple[WaitedArray, ...] = ()  # those after which some job starts
    node_switch: np.ndarray = field(default_factory=_none)  # [N], number of its switch, -1: not known
    switch_names: tuple[str, ...] = ()  # by number, or empty
    node_rdma: np.ndarray = field(default_factory=_none)  # [N], has an RDMA adapter with a link
    gpu_numa: np.ndarray = field(default_factory=_none)  # [G], place of its NUMA node among its node's Z, -1: not known
    numa_total: np.ndarray = field(default_factory=_none)  # [N, Z, 2], milli and MiB; 0 beyond those that it has
    numa_free: np.ndarray = field(default_factory=_none)  # [N, Z, 2]

    def __post_init__(self):
        for name in self.__dataclass_fields__:
            if name not in _NOT_ARRAYS and not name.endswith("_names"):
                kind = np.bool_ if name in _BOOL_ARRAYS else np.int64
                setattr(self, name, np.array(getattr(self, name), dtype=kind))
        if not self.node_rdma.size:
            self.node_rdma = np.zeros_like(self.node_open)
        if not self.node_switch.size:
            self.node_switch = np.full(len(self.node_open), -1, dtype=np.int64)
        if not self.gpu_numa.size:
            self.gpu_numa = np.full_like(self.gpu_node, -1)
        if not self.numa_total.size:
            self.numa_total = np.zeros((len(self.node_open), 0, 2), dtype=np.int64)
        if not self.numa_free.size:
            self.numa_free = self.numa_total.copy()
        self.nodes = np.arange(len(self.node_open))
        self.has_numa = (self.numa_total[:, :, 0] > 0).sum(axis=1) > 1
        """[N] whether the node has several NUMA nodes, and they are known."""
        self.version = 0
        self.prices: dict[int, Any] = {}
        """{pool: prices}, cached by `scarcity` and shared between copies."""
        self.changed_at = np.zeros(len(self.nodes), dtype=np.int64)
        self._chains = [np.array(chain, dtype=np.int64) for chain in self.team_chain]
        self.gpu_window = np.full(len(self.gpu_node), -1, dtype=np.int64)
        """[G] open lending window of the card, -1: none. See `open_windows_at`."""
        self.window_kinds = [self._kinds_mask(window.gpus) for window in self.windows]
        """[window] bit mask of the kinds that it lends."""
        self._count_firm_usage()
        self.set_cells(self.cells)
        self._cards_by_node = np.argsort(self.gpu_node, kind="stable")
        self._card_owners = self.gpu_node[self._cards_by_node]
        self._first_card = np.searchsorted(self._card_owners, np.arange(len(self.nodes) + 1))
        self._layout_index = np.empty(len(self.gpu_node), dtype=np.int64)
        self._layout_index[self._cards_by_node] = (
            np.arange(len(self._card_owners)) - self._first_card[self._card_owners]
        )
        self.card_grid = np.full((len(self.nodes), max(np.diff(self._first_card), default=0)), -1, dtype=np.int64)
        """[N, C] cards of each node, padded with -1."""
        self.card_grid[self._card_owners, self._layout_index[self._cards_by_node]] = self._cards_by_node
        self.pool_kinds = [0] * self.held.shape[1]
        for pool, kind in set(zip(self.gpu_pool.tolist(), self.gpu_kind.tolist(), strict=True)):
            self.pool_kinds[pool] |= 1 << kind

    def _count_firm_usage(self) -> None:
        self.firm = self.held.copy()
        """[T, P, R] non-preemptible part of `held`, on cards of the job's own pool."""
        self.guests = np.zeros(self.held.shape[1], dtype=np.int64)
        """[P] milli of the pool's cards held by non-preemptible jobs of other pools."""
        pools = self.gpu_pool.tolist()
        self.has_lending = bool(self.windows) or any(
            pools[card.gpu] != job.pool for job in self.running for task in job.tasks for card in task.cards
        )
        """Whether any job may use cards of another pool."""
        soft = [job for job in self.running if job.preemptible]
        held = np.zeros_like(self.held)
        whose = [job.team for job in soft], [job.pool for job in soft]
        np.add.at(held, whose, np.array([job.quota_usage for job in soft], dtype=np.int64).reshape(-1, held.shape[2]))
        for team, chain in enumerate(self._chains):
            self.firm[chain] -= held[team]
        for job in self.running if self.has_lending else ():
            if not job.preemptible:
                self._count_guests(job.tasks, job, 1)

    def copy(self) -> "Snapshot":
        """Return an independent copy."""
        twin = copy.copy(self)
        for name in (*_CHANGING_ARRAYS, "changed_at"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def empty_copy(self) -> "Snapshot":
        """Return a copy with nothing allocated, everything open and no card lent."""
        twin = self.copy()
        twin.gpu_window = np.full_like(self.gpu_window, -1)
        twin.gpu_free_mib[:] = self.gpu_total_mib
        twin.gpu_free_percent[:] = 100
        twin.node_cpu_free[:] = self.node_cpu_total
        twin.node_memory_free[:] = self.node_memory_total
        twin.numa_free[:] = self.numa_total
        for name in ("gpu_slices", "node_firm", "held", "firm", "guests", "user_held", "user_jobs"):
            getattr(twin, name)[:] = 0
        twin.gpu_open, twin.node_open = np.ones_like(self.gpu_open), np.ones_like(self.node_open)
        return twin

    def allocate(self, placement: Placement, job: WaitingJob) -> None:
        """Allocate a placement and charge quota, without checking filters or limits."""
        for task in placement.tasks:
            self.allocate_task(task)
        self.charge_quota(placement.tasks, job)

    def release(self, placement: Placement, job: WaitingJob) -> None:
        """Undo `take`."""
        for task in placement.tasks:
            self.release_task(task)
        self.charge_quota(placement.tasks, job, sign=-1)

    def remove_job(self, job: RunningJob) -> None:
        """Free what a running job holds, and its quota."""
        for task in job.tasks:
            self.release_task(task)
        self.charge_quota(job.tasks, job, sign=-1)

    def restore_job(self, job: RunningJob) -> None:
        """Undo `leave`."""
        for task in job.tasks:
            self.allocate_task(task)
        self.charge_quota(job.tasks, job)

    def allocate_task(self, task: TaskPlacement) -> None:
        """Allocate one task's resources, without charging quota."""
        self._apply_task(task, 1)

    def release_task(self, task: TaskPlacement) -> None:
        self._apply_task(task, -1)

    def charge_quota(self, tasks: tuple[TaskPlacement, ...], job: WaitingJob | RunningJob, sign: int = 1) -> None:
        """Add a job's tasks to the usage of its team, the team's ancestors and its user."""
        amounts = sign * np.array(sum_quota_usage(tasks), dtype=np.int64)
        self.held[self._chains[job.team], job.pool] += amounts
        if not job.preemptible:
            self.firm[self._chains[job.team], job.pool] += amounts
            if self.has_lending:
                self._count_guests(tasks, job, sign)
            self._charge_cells(tasks, job.team, sign)
        self.user_held[job.user] += amounts
        self.user_jobs[job.user] += sign

    def open_windows_at(self, at: float) -> None:
        """Open the lending windows that include this time; close the others."""
        if self.windows:
            self.gpu_window = np.full_like(self.gpu_window, -1)
            for index, window in enumerate(self.windows):
                if window.begins_at <= at < window.ends_at:
                    self.gpu_window[list(window.gpus)] = index
            self.mark_changed(self.nodes)

    def set_cells(self, cells: tuple[Cell, ...]) -> None:
        """Set the guarantees of whole nodes."""
        self.cells = cells
        self._cell_pool_index = {pool: place for place, pool in enumerate(sorted({cell.pool for cell in cells}))}
        self.node_firm = np.zeros((len(self._cell_pool_index), len(self.nodes), 1 + len(cells)), dtype=np.int64)
        """[pools with cells, N, 1 + cells] milli of the pool's cards held by non-preemptible jobs: in all, then of each
        cell's team and its descendants.
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
                    self._charge_cells(job.tasks, job.team, 1)
            for gpu in (unknown > 0).nonzero()[0].tolist():  # slices of jobs not in `running`
                if (place := self._cell_pool_index.get(int(self.gpu_pool[gpu]))) is not None:
                    self.node_firm[place, self.gpu_node[gpu], 0] += 1

    def firm_usage_in(self, pool: int) -> np.ndarray:
        """Return `node_firm` of one pool: [N, 1 + cells]."""
        return self.node_firm[self._cell_pool_index[pool]]

    def cells_of(self, team: int) -> np.ndarray:
        """Return the cells of a team and its ancestors, as indices."""
        return self._cells_of[team]

    def mark_changed(self, nodes: int | np.ndarray) -> None:
        """Mark nodes as changed, so that cached scores are recomputed."""
        self.version += 1
        self.changed_at[nodes] = self.version

    def remaining_team_quota(self, team: int, pool: int) -> np.ndarray:
        """Return the quota left to a team and its ancestors, [R]; may be negative."""
        chain = self._chains[team]
        return (self.limit[chain, pool] - self.held[chain, pool]).min(axis=0)

    def cards_on(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all cards of these nodes, and the position in `nodes` of each card's node."""
        if nodes is self.nodes:
            return self._cards_by_node, self._card_owners
        if len(nodes) == 1:
            gpus = self._cards_by_node[self._first_card[nodes[0]] : self._first_card[nodes[0] + 1]]
            return gpus, np.zeros(len(gpus), dtype=np.int64)
        first, counts = self._first_card[nodes], self._first_card[nodes + 1] - self._first_card[nodes]
        owner = np.repeat(np.arange(len(nodes)), counts)
        before = np.cumsum(counts) - counts
        return self._cards_by_node[np.arange(len(owner)) + (first - before)[owner]], owner

    def layout_indices(self, gpus: np.ndarray) -> np.ndarray:
        """Return each card's index in its node's layout."""
        return self._layout_index[gpus]

    def layout_of(self, node: int) -> LinkLayout | None:
        return self.layouts[node] if self.layouts else None

    def node_name(self, node: int) -> str:
        return self.node_names[node] if self.node_names else f"node {node}"

    def team_name(self, team: int) -> str:
        return self.team_names[team] if self.team_names else f"team {team}"

    def _kinds_mask(self, gpus: tuple[int, ...]) -> int:
        return sum(1 << kind for kind in np.unique(self.gpu_kind[list(gpus)]).tolist())

    def _count_guests(self, tasks: tuple[TaskPlacement, ...], job: WaitingJob | RunningJob, sign: int) -> None:
        """Count cards that a non-preemptible job holds in other pools."""
        for task in tasks:
            for card in task.cards:
                if (pool := self.gpu_pool[card.gpu]) != job.pool:
                    self.firm[self._chains[job.team], job.pool, GPU_MILLI] -= sign * card.milli
                    self.guests[pool] += sign * card.milli

    def _charge_cells(self, tasks: tuple[TaskPlacement, ...], team: int, sign: int) -> None:
        if self.cells:
            for task in tasks:
                for card in task.cards:
                    if (place := self._cell_pool_index.get(int(self.gpu_pool[card.gpu]))) is not None:
                        self.node_firm[place, task.node, 0] += sign * card.milli
                        self.node_firm[place, task.node, 1 + self._cells_of[team]] += sign * card.milli

    def _apply_task(self, task: TaskPlacement, sign: int) -> None:
        for card in task.cards:
            self.gpu_free_mib[card.gpu] -= sign * card.memory_mib
            self.gpu_free_percent[card.gpu] -= sign * card.compute_percent
            self.gpu_slices[card.gpu] += sign
        self.node_cpu_free[task.node] -= sign * task.cpu_milli
        self.node_memory_free[task.node] -= sign * task.memory_mib
        for share in task.near:
            self.numa_free[task.node, share.numa] -= sign * share.cpu_milli, sign * share.memory_mib
        self.mark_changed(task.node)
