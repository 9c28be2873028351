"""Fragmentation: free GPU that usual requests cannot use (FGD, Weng et al., USENIX ATC'23, section 3.2), in milli."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from scheduler.core.model.requests import RequestClass
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import TaskResources, TypicalRequests
from scheduler.core.placement.filters import find_fitting_grid

TYPICAL_SHARE = 0.95
"""Share of all requests that the typical ones cover."""
UNACCEPTABLE_MILLI = 1 << 40
"""More milli than any card has."""

MIN_ROWS_TO_GROUP = 64
MAX_CACHED_STATES = 100_000
_MEASURE_CACHE: "WeakKeyDictionary[TypicalRequests, dict[Measure, dict[bytes, float]]]" = WeakKeyDictionary()
"""Cached measures by state."""

RequestShape = tuple[int, int, tuple[int, ...]]
"""CPU milli, cards, [K] milli of one card (NEVER: not acceptable)."""


@dataclass(frozen=True)
class NodeStates:
    """S nodes of C cards. cpu: [S], free: [S, C] milli. kind: [S, C], -1: no card."""

    cpu: np.ndarray
    free: np.ndarray
    kind: np.ndarray

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, nodes: np.ndarray) -> "NodeStates":
        grid = snapshot.card_grid[nodes]
        there = grid >= 0
        memory, total = snapshot.gpu_free_mib[grid], snapshot.gpu_total_mib[grid]
        free = np.where(there, _free_milli(memory, total, snapshot.gpu_free_percent[grid]), 0)
        return cls(snapshot.node_cpu_free[nodes], free, np.where(there, snapshot.gpu_kind[grid], -1))


Measure = Callable[[TypicalRequests, NodeStates], np.ndarray]


def find_typical_requests(
    history: Iterable[tuple[TaskResources, int]], totals_mib: tuple[int, ...], *, any_kind: bool = False
) -> TypicalRequests | None:
    """Find the typical requests of a history, None if empty. totals_mib: [K] memory of each kind.

    any_kind: as if each took every kind of card, in the least part that it takes of one.
    """
    alike: Counter[RequestShape] = Counter()
    for ask, tasks in history:
        needed = _needed_milli(ask, totals_mib)
        if any_kind:
            needed = tuple(min(needed) if milli == UNACCEPTABLE_MILLI else milli for milli in needed)
        alike[ask.cpu_milli, ask.gpus, needed] += tasks
    return most_frequent_requests(sorted(alike.items()))


def most_frequent_requests(counted: Iterable[tuple[RequestShape, int]]) -> TypicalRequests | None:
    """Return the most frequent shapes that cover 95 % together; ties keep their order."""
    falling = sorted(counted, key=lambda item: -item[1])
    total, covered, chosen = sum(count for _, count in falling), 0, []
    for shape, count in falling:
        if covered >= TYPICAL_SHARE * total:
            break
        covered += count
        chosen.append((shape, count))
    if not chosen:
        return None
    cpu, gpus, needs = zip(*(shape for shape, _ in chosen), strict=True)
    need = np.array([(*of_kinds, UNACCEPTABLE_MILLI) for of_kinds in needs], dtype=np.int64).T
    return TypicalRequests(np.array([count for _, count in chosen]), total, np.array(cpu), np.array(gpus), need)


def keep_useful(snapshot: Snapshot, request: RequestClass, nodes: np.ndarray) -> np.ndarray:
    """Score how much a placement lowers fragmentation, 0 to 1; rounded so that small differences scatter nothing."""
    if snapshot.typical is None:
        return np.zeros(len(nodes))
    return np.floor(100 * sigmoid(fragmentation_gain(snapshot, request, nodes) / 1000)) / 100


def sigmoid(gain: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-gain))


def fragmentation_gain(
    snapshot: Snapshot, request: RequestClass, nodes: np.ndarray, measure: Measure | None = None
) -> np.ndarray:
    """Return how much one task lowers each node's fragmentation: float [len(nodes)]."""
    ask, measure, typical = request.ask, measure or measure_fragmentation, snapshot.typical
    assert typical is not None, "nobody knows what is usually asked"
    if ask.gpus and not ask.whole:
        owner, _, gain = fragmentation_gain_by_card(snapshot, request, nodes, measure)
        best = np.full(len(nodes), -np.inf)
        np.maximum.at(best, owner, gain)
        return best
    states = NodeStates.from_snapshot(snapshot, nodes)
    free = states.free
    if ask.gpus:
        fits = find_fitting_grid(snapshot, request, nodes)
        free = np.where(fits & (np.cumsum(fits, axis=1) <= ask.gpus), 0, free)
    after = NodeStates(states.cpu - ask.cpu_milli, free, states.kind)
    return _measure_cached(measure, typical, states) - _measure_cached(measure, typical, after)


def fragmentation_gain_by_card(
    snapshot: Snapshot, request: RequestClass, nodes: np.ndarray, measure: Measure | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each card that fits a slice: its node's position, the card, the gain."""
    measure, typical = measure or measure_fragmentation, snapshot.typical
    assert typical is not None, "nobody knows what is usually asked"
    states = NodeStates.from_snapshot(snapshot, nodes)
    owner, column = find_fitting_grid(snapshot, request, nodes).nonzero()
    gpus = snapshot.card_grid[nodes][owner, column]
    memory = snapshot.gpu_free_mib[gpus] - request.need_mib_by_kind[snapshot.gpu_kind[gpus]]
    percent = snapshot.gpu_free_percent[gpus] - request.need_percent_by_kind[snapshot.gpu_kind[gpus]]
    free = states.free[owner]
    free[np.arange(len(owner)), column] = _free_milli(memory, snapshot.gpu_total_mib[gpus], percent)
    after = NodeStates(states.cpu[owner] - request.ask.cpu_milli, free, states.kind[owner])
    return owner, gpus, _measure_cached(measure, typical, states)[owner] - _measure_cached(measure, typical, after)


def measure_fragmentation(typical: TypicalRequests, states: NodeStates) -> np.ndarray:
    """Compute fragmentation, float [S]. Integer sums keep equal states equal."""
    fits_cards, stranded = fit_cards(typical, states)
    fits = fits_cards & (states.cpu[:, None] >= typical.cpu_milli) & (typical.gpus > 0)
    useless = np.where(fits, stranded, states.free.sum(axis=1)[:, None])
    return (useless * typical.count).sum(axis=1) / typical.count.sum()


def fit_cards(typical: TypicalRequests, states: NodeStates) -> tuple[np.ndarray, np.ndarray]:
    """Return ([S, M] enough cards, [S, M] milli free on unsuitable cards)."""
    usable = states.free[:, :, None] >= typical.need[states.kind]
    return usable.sum(axis=1) >= typical.gpus, np.where(usable, 0, states.free[:, :, None]).sum(axis=1)


def _measure_cached(measure: Measure, typical: TypicalRequests, states: NodeStates) -> np.ndarray:
    """Return the measure of each state, float [S], cached: even large clusters have few distinct states."""
    known = _MEASURE_CACHE.setdefault(typical, {}).setdefault(measure, {})
    if len(known) > MAX_CACHED_STATES:
        known.clear()
    rows = np.empty((len(states.cpu), states.free.shape[1] + 1), dtype=np.int64)
    rows[:, 0] = np.searchsorted(np.sort(typical.cpu_milli), states.cpu, side="right")
    rows[:, 1:] = np.sort(states.free * len(typical.need) + states.kind, axis=1)
    first, which = _group_equal_rows(rows)
    text, width = rows[first].tobytes(), rows.shape[1] * rows.itemsize
    keys = [text[at : at + width] for at in range(0, len(text), width)]
    if new := {key: place for place, key in zip(first.tolist(), keys, strict=True) if key not in known}:
        at = list(new.values())
        found = measure(typical, NodeStates(states.cpu[at], states.free[at], states.kind[at]))
        known.update(zip(new, found.tolist(), strict=True))
    return np.array([known[key] for key in keys], dtype=np.float64)[which]


def _group_equal_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (first index of each distinct row, distinct row of each)."""
    alone = np.arange(len(rows))
    if len(rows) < MIN_ROWS_TO_GROUP:
        return alone, alone
    sums = rows @ np.cumprod(np.full(rows.shape[1], 1_000_003))  # a wrapping hash
    _, first, which = np.unique(sums, return_index=True, return_inverse=True)
    return (first, which) if np.array_equal(rows[first][which], rows) else (alone, alone)


def _free_milli(memory: np.ndarray, total: np.ndarray, percent: np.ndarray) -> np.ndarray:
    return np.minimum(1000 * memory // np.maximum(total, 1), 10 * percent)


def _needed_milli(ask: TaskResources, totals_mib: tuple[int, ...]) -> tuple[int, ...]:
    if not ask.gpus:
        return (UNACCEPTABLE_MILLI,) * len(totals_mib)
    return tuple(
        (1000 if ask.whole else max(-(-1000 * mib // max(total, 1)), 10 * percent, 1))
        if rank >= 0
        else UNACCEPTABLE_MILLI
        for mib, percent, rank, total in zip(ask.need_mib, ask.need_percent, ask.preference, totals_mib, strict=True)
    )
