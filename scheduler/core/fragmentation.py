"""How much free GPU is of no use to the requests that the cluster usually gets, and what a placement adds to it.

Fragmentation of a node for one typical request: all that is free, where the request does not fit the node; else what is
free on cards that are too small for it or not acceptable to it. Over all typical requests, weighted by how often they
come, this is the FGD measure (Weng et al., "Beware of Fragmentation", USENIX ATC'23, section 3.2). All in
thousandths of a card.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from scheduler.core.filters import fitting_grid
from scheduler.core.request import Request
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Ask, Typical

COVERED = 0.95
"""The most frequent asks count as typical until they are this share of all."""
NEVER = 1 << 40
"""More thousandths than a card has."""

MANY = 64
MOST_KNOWN = 100_000
_KNOWN: "WeakKeyDictionary[Typical, dict[Measure, dict[bytes, float]]]" = WeakKeyDictionary()
"""What was measured of which states."""

Shape = tuple[int, int, tuple[int, ...]]
"""What matters of an ask: CPU in thousandths, cards, [K] thousandths of one card (NEVER: not acceptable)."""


@dataclass(frozen=True)
class States:
    """S states of nodes of C cards. cpu: [S] free milli. free: [S, C] thousandths. kind: [S, C], -1: no card."""

    cpu: np.ndarray
    free: np.ndarray
    kind: np.ndarray

    @classmethod
    def of(cls, snapshot: Snapshot, nodes: np.ndarray) -> "States":
        grid = snapshot.card_grid[nodes]
        there = grid >= 0
        memory, total = snapshot.gpu_free_mib[grid], snapshot.gpu_total_mib[grid]
        free = np.where(there, _milli(memory, total, snapshot.gpu_free_percent[grid]), 0)
        return cls(snapshot.node_cpu_free[nodes], free, np.where(there, snapshot.gpu_kind[grid], -1))


Measure = Callable[[Typical, States], np.ndarray]


def build_typical(history: Iterable[tuple[Ask, int]], totals_mib: tuple[int, ...]) -> Typical | None:
    """The typical asks of a history: what tasks asked, and how many did. totals_mib: [K] what each kind of card sells.

    Asks that differ in memory of the node only are one. None where the history is empty.
    """
    alike: Counter[Shape] = Counter()
    for ask, tasks in history:
        alike[ask.cpu_milli, ask.gpus, _needs(ask, totals_mib)] += tasks
    return most_frequent(sorted(alike.items()))


def most_frequent(counted: Iterable[tuple[Shape, int]]) -> Typical | None:
    """Of shapes with how often each came, those that cover 95 % together; of equals the earlier ones first."""
    falling = sorted(counted, key=lambda item: -item[1])
    total, covered, chosen = sum(count for _, count in falling), 0, []
    for shape, count in falling:
        if covered >= COVERED * total:
            break
        covered += count
        chosen.append((shape, count))
    if not chosen:
        return None
    cpu, gpus, needs = zip(*(shape for shape, _ in chosen), strict=True)
    need = np.array([(*of_kinds, NEVER) for of_kinds in needs], dtype=np.int64).T
    return Typical(np.array([count for _, count in chosen]), total, np.array(cpu), np.array(gpus), need)


def keep_useful(snapshot: Snapshot, request: Request, nodes: np.ndarray) -> np.ndarray:
    """Between 0 and 1, 0.5 where the placement changes nothing: sigmoid of the cards that it makes useful again, in
    whole hundredths, so that small differences do not scatter what could be together.
    """
    if snapshot.typical is None:
        return np.zeros(len(nodes))
    return np.floor(100 * sigmoid(useful_gain(snapshot, request, nodes) / 1000)) / 100


def sigmoid(gain: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-gain))


def useful_gain(snapshot: Snapshot, request: Request, nodes: np.ndarray, measure: Measure | None = None) -> np.ndarray:
    """By how much fragmentation falls on each node with one task of the request, for a slice on its best card.

    Thousandths of a card, float [len(nodes)]. The nodes passed the filters.
    """
    ask, measure, typical = request.ask, measure or fragmentation, snapshot.typical
    assert typical is not None, "nobody knows what is usually asked"
    if ask.gpus and not ask.whole:
        owner, _, gain = gain_of_cards(snapshot, request, nodes, measure)
        best = np.full(len(nodes), -np.inf)
        np.maximum.at(best, owner, gain)
        return best
    states = States.of(snapshot, nodes)
    free = states.free
    if ask.gpus:
        fits = fitting_grid(snapshot, request, nodes)
        free = np.where(fits & (np.cumsum(fits, axis=1) <= ask.gpus), 0, free)
    after = States(states.cpu - ask.cpu_milli, free, states.kind)
    return _once(measure, typical, states) - _once(measure, typical, after)


def gain_of_cards(
    snapshot: Snapshot, request: Request, nodes: np.ndarray, measure: Measure | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each card that fits a slice: its node's position in `nodes`, the card, by how much fragmentation falls."""
    measure, typical = measure or fragmentation, snapshot.typical
    assert typical is not None, "nobody knows what is usually asked"
    states = States.of(snapshot, nodes)
    owner, column = fitting_grid(snapshot, request, nodes).nonzero()
    gpus = snapshot.card_grid[nodes][owner, column]
    memory = snapshot.gpu_free_mib[gpus] - request.need_mib[snapshot.gpu_kind[gpus]]
    percent = snapshot.gpu_free_percent[gpus] - request.need_percent[snapshot.gpu_kind[gpus]]
    free = states.free[owner]
    free[np.arange(len(owner)), column] = _milli(memory, snapshot.gpu_total_mib[gpus], percent)
    after = States(states.cpu[owner] - request.ask.cpu_milli, free, states.kind[owner])
    return owner, gpus, _once(measure, typical, states)[owner] - _once(measure, typical, after)


def fragmentation(typical: Typical, states: States) -> np.ndarray:
    """Thousandths of a card, float [S]. Summed as whole numbers: states that are equally good are equal."""
    fits_cards, stranded = card_fit(typical, states)
    fits = fits_cards & (states.cpu[:, None] >= typical.cpu_milli) & (typical.gpus > 0)
    useless = np.where(fits, stranded, states.free.sum(axis=1)[:, None])
    return (useless * typical.count).sum(axis=1) / typical.count.sum()


def card_fit(typical: Typical, states: States) -> tuple[np.ndarray, np.ndarray]:
    """([S, M] bool: are there enough cards; [S, M] int: what is free on cards that are too small)."""
    usable = states.free[:, :, None] >= typical.need[states.kind]
    return usable.sum(axis=1) >= typical.gpus, np.where(usable, 0, states.free[:, :, None]).sum(axis=1)


def _once(measure: Measure, typical: Typical, states: States) -> np.ndarray:
    """The measure of each state, float [S]; of states that are alike it is asked once, as long as `typical` is in use.

    Alike are those with the same cards in any order, and enough CPU for the same typical asks: a cluster of thousands
    of nodes is in a few states, and a placement makes one or two new ones.
    """
    known = _KNOWN.setdefault(typical, {}).setdefault(measure, {})
    if len(known) > MOST_KNOWN:
        known.clear()
    rows = np.empty((len(states.cpu), states.free.shape[1] + 1), dtype=np.int64)
    rows[:, 0] = np.searchsorted(np.sort(typical.cpu_milli), states.cpu, side="right")
    rows[:, 1:] = np.sort(states.free * len(typical.need) + states.kind, axis=1)
    first, which = _alike(rows)
    text, width = rows[first].tobytes(), rows.shape[1] * rows.itemsize
    keys = [text[at : at + width] for at in range(0, len(text), width)]
    if new := {key: place for place, key in zip(first.tolist(), keys, strict=True) if key not in known}:
        at = list(new.values())
        found = measure(typical, States(states.cpu[at], states.free[at], states.kind[at]))
        known.update(zip(new, found.tolist(), strict=True))
    return np.array([known[key] for key in keys], dtype=np.float64)[which]


def _alike(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the places of rows that differ, for each row which of these it is like). Few rows are all taken to differ."""
    alone = np.arange(len(rows))
    if len(rows) < MANY:
        return alone, alone
    sums = rows @ np.cumprod(np.full(rows.shape[1], 1_000_003))  # wraps round, as a hash may
    _, first, which = np.unique(sums, return_index=True, return_inverse=True)
    return (first, which) if np.array_equal(rows[first][which], rows) else (alone, alone)


def _milli(memory: np.ndarray, total: np.ndarray, percent: np.ndarray) -> np.ndarray:
    return np.minimum(1000 * memory // np.maximum(total, 1), 10 * percent)


def _needs(ask: Ask, totals_mib: tuple[int, ...]) -> tuple[int, ...]:
    if not ask.gpus:
        return (NEVER,) * len(totals_mib)
    return tuple(
        (1000 if ask.whole else max(-(-1000 * mib // max(total, 1)), 10 * percent, 1)) if rank >= 0 else NEVER
        for mib, percent, rank, total in zip(ask.need_mib, ask.need_percent, ask.preference, totals_mib, strict=True)
    )
