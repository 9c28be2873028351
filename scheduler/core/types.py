"""The words of the scheduler's mind: what is asked, what is placed, what is refused, and the plan.

Teams, users, pools, nodes, cards and kinds of cards are indices into the arrays of a `Snapshot`. Quantities are
integers: MiB, percent of one card's compute, thousandths of a card (milli) for quota, thousandths of a CPU core. Times
are seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

LOW, NORMAL, HIGH, URGENT = range(4)
"""The classes of priority."""

GPU_MILLI, CPU_MILLI, MEMORY_MIB = range(3)
"""Columns of every quota array."""
RESOURCES = ("gpu_milli", "cpu_milli", "memory_mib")


@dataclass(frozen=True)
class Ask:
    """What each task of a role needs. The tuples are indexed by kind of card and may be empty when `gpus` is 0.

    gpus: cards per task, all of one kind and on one node; 0 is CPU-only work.
    whole: take cards that are entirely free and keep them alone; otherwise a slice of each card.
    need_mib, need_percent: per card. need_milli: what quota counts per card.
    preference: 0 is the best kind, larger is worse, -1 is not acceptable.
    fetch: what it reads that some nodes hold already and others would fetch, as indices into `Snapshot.contents`.
    beside_cards: it asks for none in a gang that does, and may go where cards of its pool are, whosoever home that is.
    """

    gpus: int
    whole: bool
    need_mib: tuple[int, ...]
    need_percent: tuple[int, ...]
    need_milli: tuple[int, ...]
    preference: tuple[int, ...]
    cpu_milli: int
    memory_mib: int
    fetch: tuple[int, ...] = ()
    beside_cards: bool = False


@dataclass(frozen=True, eq=False)
class Content:
    """A dataset or image that nodes hold. nodes, bytes: [H], which, and how much of it."""

    nodes: np.ndarray
    bytes: np.ndarray


@dataclass(frozen=True)
class Role:
    """A named kind of task in a job. `min` tasks start or none; up to `max` where that disturbs nobody (`grow`)."""

    name: str
    min: int
    max: int
    ask: Ask


@dataclass(frozen=True)
class Waiting:
    """A job that waits. All tasks of its gang start together or not at all.

    time_s: how long it says that it will run; without a word it may run for ever. limit_s: after so long it is stopped.
    preemptible: it may be stopped for others, and is queued again. stops: how often it was.
    """

    job: int
    team: int
    user: int
    pool: int
    priority: int
    submitted_at: float
    gang: tuple[Role, ...]
    held: bool = False
    not_before: float = 0.0
    time_s: float = inf
    limit_s: float = inf
    preemptible: bool = False
    stops: int = 0


@dataclass(frozen=True, eq=False)
class Typical:
    """M asks that are usual on K kinds of cards.

    count: [M] how often each came. of: how many asks there were, those that are not usual included. cpu_milli, gpus:
    [M]. need: [K + 1, M] thousandths of one card, more than any card has where the kind is not acceptable, and in the
    last row, which stands for no card.
    """

    count: np.ndarray
    of: int
    cpu_milli: np.ndarray
    gpus: np.ndarray
    need: np.ndarray


@dataclass(frozen=True, eq=False)
class Wishes:
    """What tasks of W sorts ask of K kinds of cards. count: [W] how many there were. cpu_milli: [W]. milli: [W]
    thousandths of a card in all, 0: work without cards. accepts: [W, K] bool."""

    count: np.ndarray
    cpu_milli: np.ndarray
    milli: np.ndarray
    accepts: np.ndarray


@dataclass(frozen=True)
class CardShare:
    """What a task keeps of one card."""

    gpu: int
    memory_mib: int
    compute_percent: int
    milli: int


@dataclass(frozen=True)
class TaskPlace:
    """Where one task goes. `rank` counts over the whole gang, in the order of its roles."""

    role: str
    rank: int
    node: int
    cards: tuple[CardShare, ...]
    cpu_milli: int
    memory_mib: int


def amounts_of(tasks: tuple[TaskPlace, ...]) -> tuple[int, int, int]:
    """What tasks count in quota, by RESOURCES."""
    gpu_milli = sum([card.milli for task in tasks for card in task.cards])
    return gpu_milli, sum([task.cpu_milli for task in tasks]), sum([task.memory_mib for task in tasks])


@dataclass(frozen=True)
class Placement:
    job: int
    tasks: tuple[TaskPlace, ...]


@dataclass(frozen=True)
class Running:
    """A job that holds something, as far as others may count on its end or take its place.

    started_at, time_s: since when, and for how long by its own word. limit_s: after so long it is stopped. ends_at:
    when it is expected to end, `inf` where nobody can say (`ends.expected_end`). saved_at: its last checkpoint, else
    its start; what a stop costs begins here. preemptible: it may be stopped for others. leaving: it is being stopped
    already. waited_s: how long it had waited when it started. stops: how often it was stopped before.
    """

    job: int
    team: int
    user: int
    pool: int
    priority: int
    tasks: tuple[TaskPlace, ...]
    saved_at: float = 0.0
    ends_at: float = inf
    started_at: float = 0.0
    time_s: float = inf
    limit_s: float = inf
    preemptible: bool = False
    leaving: bool = False
    waited_s: float = 0.0
    stops: int = 0

    @cached_property
    def amounts(self) -> tuple[int, int, int]:
        """What it counts in quota, by RESOURCES."""
        return amounts_of(self.tasks)


@dataclass(frozen=True)
class Closing:
    """Machines in maintenance from `at` to `ends_at`, with all their cards, cores and memory: what starts on them ends
    before. stops: when it begins, what runs on them and may be stopped is.
    """

    nodes: tuple[int, ...]
    at: float
    ends_at: float
    stops: bool = False


@dataclass(frozen=True)
class Window:
    """For a while another pool, `to`, may use these cards, too: jobs of it that end before the window does, or that may
    be stopped then. Nobody of it starts on them after `last_start`.
    """

    gpus: tuple[int, ...]
    to: int
    begins_at: float
    ends_at: float
    last_start: float = inf


@dataclass(frozen=True)
class Cell:
    """What of a team's guarantee in a pool is whole: so many nodes that have exactly so many of the pool's cards."""

    team: int
    pool: int
    cards: int
    nodes: int


@dataclass(frozen=True)
class Eviction:
    """A running job that makes room for `to`, a waiting one, or for nobody: its machine goes into maintenance.

    reason: `window_closed`, `reclaimed`, `preempted`, `overtaken` or `maintenance`.
    """

    job: int
    reason: str
    to: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a job does not start: a stable reason code and the numbers of its sentence (raw integers, names)."""

    reason: str
    params: dict


@dataclass(frozen=True)
class Policy:
    """ageing_s: waiting this long raises a job by one class of priority, never to urgent; once more, and it goes before
    those of its class that hold less (`order`).
    reservations: so many of the first in line for a pool's kinds of cards keep a place in time that nobody may delay.
    preempt: a job may stop others of a lower class.
    short_first: of the jobs of one class and one person the one with the fewest card-seconds to go by its own word goes
    first, and who waits weighs less by and by; long jobs age more slowly (`order.PATIENCE`). Else who came first.
    longest_s: for that, an estimate beyond this says no more than none, which counts as much.
    stop_longer: a job may stop those of its class that are more than so many times as long (`overtake`), at least 1;
    None: nobody. most_stops: nobody is stopped for that who was stopped so often already.

    References in simulations rule the whole cluster; in production each pool has its own (`of`).
    """

    ageing_s: float = 12 * 3600.0
    reservations: int = 2
    preempt: bool = True
    short_first: bool = False
    longest_s: float = 7 * 86_400.0
    stop_longer: float | None = None
    most_stops: int = 10
    scores: tuple[tuple[Callable, float], ...] | None = None
    """(score, weight) instead of `scores.SCORES`."""
    cards: Callable | None = None
    """`(snapshot, request, node) -> cards of one task` instead of `cards.choose_cards`."""
    pools: tuple["Policy", ...] = ()
    """[P] what holds in each pool, or empty: this policy holds in all."""

    def of(self, pool: int) -> "Policy":
        return self.pools[pool] if self.pools else self

    @property
    def overtakes(self) -> bool:
        """May anybody anywhere stop what is longer?"""
        return any(own.stop_longer is not None for own in self.pools or (self,))


@dataclass
class Plan:
    """The result of one cycle.

    refusals: for each job that still waits, at least one, the most telling first.
    positions: for each job that still waits, (n, m): the n-th of m in its pool, in the order in which they would start.
    reserved_at: when the first in line start at the latest, if all that run keep to their times.
    """

    starts: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    reserved_at: dict[int, float] = field(default_factory=dict)
    refusals: dict[int, list[Refusal]] = field(default_factory=dict)
    positions: dict[int, tuple[int, int]] = field(default_factory=dict)
