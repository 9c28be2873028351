"""Description of a simulated cluster, and its Snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.model.snapshot import UNLIMITED, Snapshot
from scheduler.core.model.types import GPU_MILLI, RESOURCES, Cell, LendingWindow, MaintenanceWindow, TaskResources

UNLIMITED_CAPACITY = 2**40
"""CPU and memory of a node, which are not simulated."""


@dataclass(frozen=True)
class SimulatedNode:
    """cards: (model, MiB, pool) of each; the first one's pool is the node's."""

    name: str
    cards: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True)
class SimulatedTeam:
    """guarantee, limit: {pool: milli of cards}. cell: {pool: cards of a whole node}."""

    name: str
    weight: int = 1
    guarantee: Mapping[str, int] = field(default_factory=dict)
    limit: Mapping[str, int] = field(default_factory=dict)
    cell: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedCluster:
    """slices: {pool: slices per card}, 1: not shared."""

    nodes: tuple[SimulatedNode, ...]
    max_slices: Mapping[str, int]
    teams: tuple[SimulatedTeam, ...]
    users: tuple[str, ...]

    @property
    def pools(self) -> tuple[str, ...]:
        return tuple(self.max_slices)

    @property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """Distinct (model, MiB) of cards."""
        return tuple(dict.fromkeys((model, mib) for machine in self.nodes for model, mib, _ in machine.cards))

    def card_names(self) -> list[str]:
        return [f"{machine.name} {place}" for machine in self.nodes for place in range(len(machine.cards))]

    def build_resources(self, *, gpus: int, memory_mib: int | None = None, models: Sequence[str] = ()) -> TaskResources:
        """Build a request for whole cards, or with `memory_mib` for a slice with the same share of compute."""
        if not gpus:
            return TaskResources(0, False, (), (), (), (), 0, 0)
        accepted = tuple(0 if not models or model in models else -1 for model, _ in self.kinds)
        if memory_mib is None:
            return TaskResources(
                gpus,
                True,
                tuple(mib for _, mib in self.kinds),
                (100,) * len(self.kinds),
                (1000,) * len(self.kinds),
                accepted,
                0,
                0,
            )
        percent = tuple(min(100 * memory_mib // mib, 100) for _, mib in self.kinds)
        milli = tuple(max(1000 * memory_mib // mib, 1) for _, mib in self.kinds)
        return TaskResources(1, False, (memory_mib,) * len(self.kinds), percent, milli, accepted, 0, 0)


def build_snapshot(
    cluster: SimulatedCluster, windows: tuple[LendingWindow, ...] = (), closings: tuple[MaintenanceWindow, ...] = ()
) -> Snapshot:
    """Build the empty cluster. Raises ValueError if a card's pool is not listed."""
    cards = [(node, *card) for node, machine in enumerate(cluster.nodes) for card in machine.cards]
    if missing := {pool for *_, pool in cards} - set(cluster.pools):
        raise ValueError(f"cards are in pools that are not listed: {', '.join(sorted(missing))}")
    totals = [mib for _, _, mib, _ in cards]
    pools = [cluster.pools.index(pool) for *_, pool in cards]
    most = list(cluster.max_slices.values())
    plenty = np.full(len(cluster.nodes), UNLIMITED_CAPACITY)
    home = [cluster.pools.index(machine.cards[0][2]) if machine.cards else 0 for machine in cluster.nodes]
    teams, users = len(cluster.teams), len(cluster.users)
    shape = (teams, len(cluster.pools), len(RESOURCES))
    return Snapshot(
        gpu_node=np.array([node for node, *_ in cards]),
        gpu_pool=np.array(pools),
        gpu_kind=np.array([cluster.kinds.index((model, mib)) for _, model, mib, _ in cards]),
        gpu_total_mib=np.array(totals),
        gpu_free_mib=np.array(totals),
        gpu_free_percent=np.full(len(cards), 100),
        gpu_slices=np.zeros(len(cards)),
        gpu_max_slices=np.array([most[pool] for pool in pools]),
        gpu_open=np.ones(len(cards)),
        node_pool=np.array(home),
        node_cpu_free=plenty,
        node_memory_free=plenty,
        node_open=np.ones(len(cluster.nodes)),
        node_cpu_total=plenty,
        node_memory_total=plenty,
        team_chain=tuple((team,) for team in range(teams)),
        held=np.zeros(shape),
        guarantee=_quota_array(cluster, [team.guarantee for team in cluster.teams], 0),
        limit=_quota_array(cluster, [team.limit for team in cluster.teams], UNLIMITED),
        weight=np.array([[team.weight] * len(cluster.pools) for team in cluster.teams]),
        user_held=np.zeros((users, len(RESOURCES))),
        user_limit=np.full((users, len(RESOURCES)), UNLIMITED),
        user_jobs=np.zeros(users),
        user_jobs_limit=np.full(users, UNLIMITED),
        kind_names=tuple(model for model, _ in cluster.kinds),
        node_names=tuple(machine.name for machine in cluster.nodes),
        pool_names=cluster.pools,
        team_names=tuple(team.name for team in cluster.teams),
        windows=windows,
        closings=closings,
        cells=tuple(_list_cells(cluster)),
    )


def _list_cells(cluster: SimulatedCluster) -> Iterator[Cell]:
    for place, team in enumerate(cluster.teams):
        for pool, cards in team.cell.items():
            yield Cell(place, cluster.pools.index(pool), cards, team.guarantee.get(pool, 0) // (1000 * cards))


def _quota_array(cluster: SimulatedCluster, each: list[Mapping[str, int]], otherwise: int) -> np.ndarray:
    quota = np.full((len(each), len(cluster.pools), len(RESOURCES)), otherwise, dtype=np.int64)
    for team, amounts in enumerate(each):
        for pool, milli in amounts.items():
            quota[team, cluster.pools.index(pool), GPU_MILLI] = milli
    return quota
