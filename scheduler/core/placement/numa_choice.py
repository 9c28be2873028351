"""Which NUMA nodes of a machine the cores and the memory of a task are taken from."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import NumaShare, TaskResources


def choose_numa(snapshot: Snapshot, ask: TaskResources, node: int, cards: Sequence[int]) -> tuple[NumaShare, ...]:
    """Choose those of the task's cards; without cards the fullest one where all of it fits, else the fewest.

    () where the machine has one NUMA node, or they are not known.
    """
    if not snapshot.has_numa[node]:
        return ()
    if cards:
        near: Counter[int] = Counter(snapshot.gpu_numa[list(cards)].tolist())
        return () if -1 in near else _divide(ask, sorted(near.items()))
    free, roomy = snapshot.numa_free[node], find_roomy_numa(snapshot, ask, np.array([node]))[0]
    if roomy.any():
        with_cards = np.isin(np.arange(len(free)), snapshot.gpu_numa[snapshot.cards_on(np.array([node]))[0]])
        choice = np.lexsort((free[:, 0], with_cards, ~roomy))[0]  # cores beside cards are kept for who uses these
        return (NumaShare(int(choice), ask.cpu_milli, ask.memory_mib),)
    return _divide(ask, _take_fewest(free, ask))


def find_roomy_numa(snapshot: Snapshot, ask: TaskResources, nodes: np.ndarray) -> np.ndarray:
    """Check which NUMA nodes have room for the whole task: bool [len(nodes), Z]."""
    has_room = (snapshot.numa_free[nodes] >= (ask.cpu_milli, ask.memory_mib)).all(axis=2)
    return has_room & (snapshot.numa_total[nodes, :, 0] > 0)


def _take_fewest(free: np.ndarray, ask: TaskResources) -> list[tuple[int, int]]:
    """Return (NUMA node, milli of its cores) of as few as have room together, those with most room first."""
    room = np.maximum(free, 0)
    order = np.lexsort((-room[:, 1], -room[:, 0]))
    enough = (room[order].cumsum(axis=0) >= (ask.cpu_milli, ask.memory_mib)).all(axis=1)
    chosen = order[: int(enough.argmax()) + 1 if enough.any() else len(order)].tolist()
    taken, left = [], ask.cpu_milli
    for numa in chosen:
        taken.append((numa, min(int(room[numa, 0]), left)))
        left -= taken[-1][1]
    taken[-1] = taken[-1][0], taken[-1][1] + left
    return sorted((numa, cores) for numa, cores in taken if cores) or [(chosen[0], 1)]


def _divide(ask: TaskResources, weights: Sequence[tuple[int, int]]) -> tuple[NumaShare, ...]:
    """Divide cores and memory by weight. weights: (NUMA node, weight)."""
    total = sum(weight for _, weight in weights)
    ends = [0, *accumulate(weight for _, weight in weights)]
    cores, memory = ([amount * end // total for end in ends] for amount in (ask.cpu_milli, ask.memory_mib))
    parts = zip(weights, pairwise(cores), pairwise(memory), strict=True)
    return tuple(NumaShare(numa, c - a, d - b) for (numa, _), (a, c), (b, d) in parts)
