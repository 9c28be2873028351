"""A cluster, its pools, teams and people in plain words, made into a Snapshot for the scheduler's mind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.snapshot import UNLIMITED, Snapshot
from scheduler.core.types import GPU_MILLI, RESOURCES, Ask, Cell, Closing, Window

GENEROUS = 2**40
"""CPU and memory of a machine: what is simulated are cards."""


@dataclass(frozen=True)
class Machine:
    """cards: (model, MiB that it sells, pool) of each. The pool of the first one is its home."""

    name: str
    cards: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True)
class Team:
    """guarantee, limit: {pool: thousandths of a card}. cell: {pool: cards of a node}, if nodes are guaranteed."""

    name: str
    weight: int = 1
    guarantee: Mapping[str, int] = field(default_factory=dict)
    limit: Mapping[str, int] = field(default_factory=dict)
    cell: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster:
    """slices: {pool: most slices on one card}, 1 where a card is never shared."""

    machines: tuple[Machine, ...]
    slices: Mapping[str, int]
    teams: tuple[Team, ...]
    users: tuple[str, ...]

    @property
    def pools(self) -> tuple[str, ...]:
        return tuple(self.slices)

    @property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """The distinct (model, MiB) of cards."""
        return tuple(dict.fromkeys((model, mib) for machine in self.machines for model, mib, _ in machine.cards))

    def card_names(self) -> list[str]:
        return [f"{machine.name} {place}" for machine in self.machines for place in range(len(machine.cards))]

    def ask(self, *, gpus: int, memory_mib: int | None = None, models: Sequence[str] = ()) -> Ask:
        """Whole cards, or with `memory_mib` a slice of one, with as much of its compute as of its memory."""
        if not gpus:
            return Ask(0, False, (), (), (), (), 0, 0)
        accepted = tuple(0 if not models or model in models else -1 for model, _ in self.kinds)
        if memory_mib is None:
            return Ask(
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
        return Ask(1, False, (memory_mib,) * len(self.kinds), percent, milli, accepted, 0, 0)


def build_snapshot(cluster: Cluster, windows: tuple[Window, ...] = (), closings: tuple[Closing, ...] = ()) -> Snapshot:
    """The empty cluster; nobody waits. Raises ValueError where a card is in no pool."""
    cards = [(node, *card) for node, machine in enumerate(cluster.machines) for card in machine.cards]
    if missing := {pool for *_, pool in cards} - set(cluster.pools):
        raise ValueError(f"cards are in pools that are not listed: {', '.join(sorted(missing))}")
    totals = [mib for _, _, mib, _ in cards]
    pools = [cluster.pools.index(pool) for *_, pool in cards]
    most = list(cluster.slices.values())
    plenty = np.full(len(cluster.machines), GENEROUS)
    home = [cluster.pools.index(machine.cards[0][2]) if machine.cards else 0 for machine in cluster.machines]
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
        node_open=np.ones(len(cluster.machines)),
        node_cpu_total=plenty,
        node_memory_total=plenty,
        team_chain=tuple((team,) for team in range(teams)),
        held=np.zeros(shape),
        guarantee=_quota(cluster, [team.guarantee for team in cluster.teams], 0),
        limit=_quota(cluster, [team.limit for team in cluster.teams], UNLIMITED),
        weight=np.array([[team.weight] * len(cluster.pools) for team in cluster.teams]),
        user_held=np.zeros((users, len(RESOURCES))),
        user_limit=np.full((users, len(RESOURCES)), UNLIMITED),
        user_jobs=np.zeros(users),
        user_jobs_limit=np.full(users, UNLIMITED),
        kind_names=tuple(model for model, _ in cluster.kinds),
        node_names=tuple(machine.name for machine in cluster.machines),
        pool_names=cluster.pools,
        team_names=tuple(team.name for team in cluster.teams),
        windows=windows,
        closings=closings,
        cells=tuple(_cells(cluster)),
    )


def _cells(cluster: Cluster) -> Iterator[Cell]:
    for place, team in enumerate(cluster.teams):
        for pool, cards in team.cell.items():
            yield Cell(place, cluster.pools.index(pool), cards, team.guarantee.get(pool, 0) // (1000 * cards))


def _quota(cluster: Cluster, each: list[Mapping[str, int]], otherwise: int) -> np.ndarray:
    quota = np.full((len(each), len(cluster.pools), len(RESOURCES)), otherwise, dtype=np.int64)
    for team, amounts in enumerate(each):
        for pool, milli in amounts.items():
            quota[team, cluster.pools.index(pool), GPU_MILLI] = milli
    return quota
