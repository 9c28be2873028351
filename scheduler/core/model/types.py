"""Types of the scheduler core: requests, placements, refusals and the plan.

Integers are indices into a `Snapshot`, or MiB, percent of a card, thousandths (milli) of a card or core, seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

LOW, NORMAL, HIGH, URGENT = range(4)
"""Priority classes."""

GPU_MILLI, CPU_MILLI, MEMORY_MIB = range(3)
"""Columns of quota arrays."""
RESOURCES = ("gpu_milli", "cpu_milli", "memory_mib")


@dataclass(frozen=True)
class TaskResources:
    """Resources of one task. The tuples are indexed by kind of card, empty for CPU-only work.

    whole: exclusive cards, otherwise a slice of each. need_milli: quota per card.
    preference: 0 is the best kind, -1 not acceptable. fetch: indices into `Snapshot.contents`.
    beside_cards: CPU-only task of a gang with cards; allowed on any node with its pool's cards.
    rdma: only on a node with an RDMA adapter.
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
    rdma: bool = False


@dataclass(frozen=True, eq=False)
class CachedContent:
    """A cached dataset or image: which nodes hold it, and how many bytes each."""

    nodes: np.ndarray
    bytes: np.ndarray


SWITCH, NODE = "switch", "node"
"""Levels of topology domains, "" for none."""


@dataclass(frozen=True)
class PlaceRule:
    """Which level of domain the tasks of a job must share, and which they share where it costs no wait."""

    same: str = ""
    prefer: str = ""


@dataclass(frozen=True)
class Role:
    """A kind of task in a job: `min` tasks start together, `grow` may add more up to `max`.

    place: of the whole job, the same in each of its roles.
    """

    name: str
    min: int
    max: int
    ask: TaskResources
    place: PlaceRule | None = None


@dataclass(frozen=True)
class WaitingJob:
    """A queued job, whose gang starts together or not at all.

    A job that waits in several pools has a record for each: they share `job`, and at most one of them starts.
    time_s: estimated run time. latest_s: length that nine in ten of such jobs do not exceed. stops: how often it was
    preempted. revision: how often what it asks for was changed.
    queued_at: since when its age counts, if it was queued again; its place among equals stays that of its submit.
    choice: the pool's place in the job's order of preference, -1 if it waits in no other.
    after: jobs that must end before it starts, and arrays of jobs, which have negative numbers.
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
    after: tuple[int, ...] = ()
    time_s: float = inf
    limit_s: float = inf
    latest_s: float = inf
    preemptible: bool = False
    stops: int = 0
    revision: int = 0
    choice: int = -1
    queued_at: float = -inf

    @property
    def waits_from(self) -> float:
        return max(self.submitted_at, self.queued_at)

    @property
    def cautious_s(self) -> float:
        """Estimated run time for who must not be late: `latest_s` where it is known."""
        return self.latest_s if self.latest_s < inf else self.time_s


@dataclass(frozen=True, eq=False)
class TypicalRequests:
    """The M most common task requests.

    of: all requests. need: [K + 1, M] milli of one card, more than any card has if not acceptable; the last row is "no
    card".
    """

    count: np.ndarray
    of: int
    cpu_milli: np.ndarray
    gpus: np.ndarray
    need: np.ndarray


@dataclass(frozen=True, eq=False)
class DemandProfile:
    """Demand of W classes of tasks. milli: [W] of cards in all. accepts: [W, K] bool."""

    count: np.ndarray
    cpu_milli: np.ndarray
    milli: np.ndarray
    accepts: np.ndarray


@dataclass(frozen=True)
class CardShare:
    """The part of one card that a task holds."""

    gpu: int
    memory_mib: int
    compute_percent: int
    milli: int


@dataclass(frozen=True)
class NumaShare:
    """The part of one NUMA node that a task holds. numa: its place among those of the machine."""

    numa: int
    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True)
class TaskPlacement:
    """Node and cards of one task. `rank` counts over the whole gang, in the order of its roles.

    near: the NUMA nodes that its cores and memory are of; () where the machine has one, or they are not known.
    """

    role: str
    rank: int
    node: int
    cards: tuple[CardShare, ...]
    cpu_milli: int
    memory_mib: int
    near: tuple[NumaShare, ...] = ()


def sum_quota_usage(tasks: tuple[TaskPlacement, ...]) -> tuple[int, int, int]:
    """Sum the quota that tasks use, by RESOURCES."""
    gpu_milli = sum([card.milli for task in tasks for card in task.cards])
    return gpu_milli, sum([task.cpu_milli for task in tasks]), sum([task.memory_mib for task in tasks])


@dataclass(frozen=True)
class Placement:
    """Where a job's tasks are. choice: of the record that it is for."""

    job: int
    tasks: tuple[TaskPlacement, ...]
    choice: int = -1


@dataclass(frozen=True)
class RunningJob:
    """A job that holds resources.

    saved_at: last checkpoint, else its start. ends_at: expected end, `inf` if unknown. leaving: being stopped.
    latest_s: length that nine in ten of such jobs do not exceed. waited_s: since it was queued last, for its start.
    """

    job: int
    team: int
    user: int
    pool: int
    priority: int
    tasks: tuple[TaskPlacement, ...]
    saved_at: float = 0.0
    ends_at: float = inf
    started_at: float = 0.0
    time_s: float = inf
    limit_s: float = inf
    latest_s: float = inf
    preemptible: bool = False
    leaving: bool = False
    waited_s: float = 0.0
    stops: int = 0

    @cached_property
    def quota_usage(self) -> tuple[int, int, int]:
        """Quota in use, by RESOURCES."""
        return sum_quota_usage(self.tasks)


@dataclass(frozen=True)
class MaintenanceWindow:
    """Maintenance of whole nodes: jobs placed there must end before `at`. stops: preemptible ones are stopped then."""

    nodes: tuple[int, ...]
    at: float
    ends_at: float
    stops: bool = False


@dataclass(frozen=True)
class LendingWindow:
    """A time in which pool `to` may use these cards, for jobs that end in it or are preemptible."""

    gpus: tuple[int, ...]
    to: int
    begins_at: float
    ends_at: float
    last_start: float = inf


@dataclass(frozen=True)
class WaitedArray:
    """An array of jobs after which some job starts. number: as in WaitingJob.after. elements: jobs of it that are open.

    last_made_at: when the last one ends that has yet to be made, as far as it is known; 0 if all are made.
    """

    number: int
    elements: tuple[int, ...]
    last_made_at: float = 0.0


@dataclass(frozen=True)
class Cell:
    """A team's guarantee of whole nodes, each with exactly `cards` cards of the pool."""

    team: int
    pool: int
    cards: int
    nodes: int


@dataclass(frozen=True)
class Eviction:
    """A running job to stop, for job `to` or for maintenance.

    reason: `window_closed`, `reclaimed`, `preempted`, `overtaken` or `maintenance`.
    """

    job: int
    reason: str
    to: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a job does not start: a reason code and the raw values of its message."""

    reason: str
    params: dict


@dataclass(frozen=True)
class Policy:
    """Settings of the scheduling policy.

    ageing_s: wait that raises a job by one class. reservations: per pool and kinds of cards. drains_from: part of that
    wait after which a job with a reservation drains its place.
    short_first: within a user, the fewest card-seconds first. longest_s: longer estimates, and none, count as this.
    stop_longer: stop jobs of the class that are so many times as long, most_stops times each.
    """

    ageing_s: float = 12 * 3600.0
    reservations: int = 2
    drains_from: float = 1 / 3
    preempt: bool = True
    short_first: bool = False
    longest_s: float = 7 * 86_400.0
    stop_longer: float | None = None
    most_stops: int = 10
    scores: tuple[tuple[Callable, float], ...] | None = None
    """(score, weight), replaces `scores.SCORES`."""
    cards: Callable | None = None
    """`(snapshot, request, node) -> cards of one task`, replaces `cards.choose_cards`."""
    pools: tuple["Policy", ...] = ()
    """[P] policy of each pool; empty: this one applies to all."""

    def for_pool(self, pool: int) -> "Policy":
        return self.pools[pool] if self.pools else self

    @property
    def preempts_longer(self) -> bool:
        """Whether any pool sets `stop_longer`."""
        return any(own.stop_longer is not None for own in self.pools or (self,))


QueuePlace = tuple[int, int, int]
"""A waiting job's (pool, position, length) of the queue of one pool."""


@dataclass
class Plan:
    """The result of one cycle.

    refusals, positions: {waiting job: ...}. Position and length of its pool's queue; of several pools, both tell of the
    one where it is to start first.
    places: {job that waits in several pools: where it stands in each}, that one first.
    starts_by: {job that drains its place: when all is gone there, by the pessimistic ends}, if anything bounds them.
    given_up: {job that starts: how many reservations it had in other pools}. The next cycle may start more there.
    """

    starts: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    reserved_at: dict[int, float] = field(default_factory=dict)
    starts_by: dict[int, float] = field(default_factory=dict)
    refusals: dict[int, list[Refusal]] = field(default_factory=dict)
    positions: dict[int, tuple[int, int]] = field(default_factory=dict)
    places: dict[int, list[QueuePlace]] = field(default_factory=dict)
    given_up: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StartRange:
    """Start time quantiles; `inf`: beyond the simulated time."""

    p10: float
    p50: float
    p90: float
