"""What is usually asked, learnt from the newest jobs: one rule for production, simulations and the bench.

A job counts the less, the more jobs came after it. Which models people want can change within a day and has to be
noticed while cards are still free, so `wishes` forget fast. How large requests are changes slowly, and each change of
the typical sizes costs a new count of all fragments, so `typical` forgets slowly. It does not know who wants which
model: what is scarce has a price already (`scarcity`), and counted twice it would keep cards idle.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import DemandProfile, Role, TaskResources, TypicalRequests
from scheduler.core.placement.fragmentation import find_typical_requests
from scheduler.core.placement.scarcity import build_demand_profile

HISTORY = 6000
"""How many of the newest jobs are looked at."""
WISHES_HALF_LIFE, TYPICAL_HALF_LIFE = 300, 4000
"""A job counts half after so many more. Chosen on `bin/bench b1`: wishes of 1,000 would fill a list that stays as it
was by 0.2 points more, and one that asks for other models by 1 less."""
WISHES_EVERY, TYPICAL_EVERY = 100, 1000
"""New jobs after which it is learnt anew; a tenth of those known is enough."""
BLOCK = 50
"""Ages, in jobs, count in whole blocks, so that a database can add up equal requests."""
BLOCKS = HISTORY // BLOCK
SCALE = 1000
"""What the newest task counts, in whole numbers."""


PastRequest = tuple[TaskResources, int, int]
"""What one role asked, by how many tasks, and how many whole blocks of jobs came after it."""


class RequestHistory:
    """The newest requests, for who sees jobs come one by one. totals_mib: [K] memory of each kind."""

    def __init__(self, totals_mib: tuple[int, ...]):
        self._totals = totals_mib
        self._asks: dict[TaskResources, TaskResources] = {}
        """Equal asks are one object."""
        self._jobs: deque[list[tuple[TaskResources, int]]] = deque(maxlen=HISTORY)
        self._seen, self._wishes_at, self._typical_at = 0, -1, -1

    def add(self, gang: Sequence[Role]) -> None:
        self._jobs.append([(self._asks.setdefault(role.ask, role.ask), role.min) for role in gang])
        self._seen += 1

    def teach(self, snapshot: Snapshot) -> bool:
        """Let the snapshot expect what is usual, where enough came. True if all its scores are out of date then."""
        if is_due(self._seen, self._wishes_at, WISHES_EVERY):
            self._wishes_at = self._seen
            snapshot.wishes, snapshot.prices = learn_wishes(self._list_past(), self._totals), {}
        if not is_due(self._seen, self._typical_at, TYPICAL_EVERY):
            return False
        self._typical_at = self._seen
        snapshot.typical = learn_typical(self._list_past(), self._totals)
        return True

    def _list_past(self) -> Iterator[PastRequest]:
        newest_first = enumerate(reversed(self._jobs))
        return ((ask, tasks, age // BLOCK) for age, asked in newest_first for ask, tasks in asked)


def is_due(seen: int, learnt_at: int, every: int) -> bool:
    """Whether enough jobs came since it was learnt. seen, learnt_at: how many came in all, -1: not yet."""
    return seen - learnt_at >= min(every, learnt_at // 10 + 1)


def learn_wishes(past: Iterable[PastRequest], totals_mib: tuple[int, ...]) -> DemandProfile | None:
    """Learn the demand by model. past: in any order. totals_mib: [K] memory of each kind."""
    return build_demand_profile(weigh(past, WISHES_HALF_LIFE), totals_mib)


def learn_typical(past: Iterable[PastRequest], totals_mib: tuple[int, ...]) -> TypicalRequests | None:
    """Learn the typical sizes, on any model. past: in any order. totals_mib: [K] memory of each kind."""
    return find_typical_requests(weigh(past, TYPICAL_HALF_LIFE), totals_mib, any_kind=True)


def weigh(past: Iterable[PastRequest], half_life: int) -> list[tuple[TaskResources, int]]:
    """Return (request, tasks in 1/SCALE) of those that still count."""
    places: dict[int, int] = {}  # by identity: hashing requests would take longer than all the rest
    asks: list[TaskResources] = []
    at, blocks, counts = [], [], []
    for ask, tasks, block in past:
        place = places.setdefault(id(ask), len(asks))
        if place == len(asks):
            asks.append(ask)
        at.append(place)
        blocks.append(block)
        counts.append(tasks)
    if not asks:
        return []
    weights = np.rint(SCALE * 0.5 ** (np.arange(BLOCKS) * BLOCK / half_life))
    sums = np.bincount(at, np.array(counts) * weights[blocks]).astype(np.int64).tolist()
    return [(ask, count) for ask, count in zip(asks, sums, strict=True) if count]
