"""Convert a plan to typed steps with database ids, each for one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.model.types import Placement, Plan, QueuePlace, Refusal, TaskPlacement, WaitingJob
from scheduler.loading.cache_locations import held_bytes
from scheduler.loading.snapshots import World


@dataclass(frozen=True)
class CardShare:
    gpu_id: int
    memory_mib: int
    compute_percent: int
    milli: int


@dataclass(frozen=True)
class NumaShare:
    """numa: the kernel's number of the NUMA node, None if not known."""

    numa: int | None
    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True)
class TaskStart:
    """A task's place. held_bytes: data there. role: beyond the gang's minimum. near: () if there is one NUMA node."""

    rank: int
    node_id: int
    cards: tuple[CardShare, ...]
    cpu_milli: int
    memory_mib: int
    held_bytes: int = 0
    role: str = ""
    near: tuple[NumaShare, ...] = ()


@dataclass(frozen=True)
class StartJob:
    """whose: (team, user, pool); equal ones share a transaction. revision: of what the job asked for when read.

    pool_id: the one of its pools where it starts, None for its own.
    """

    job_id: int
    tasks: tuple[TaskStart, ...]
    whose: tuple[int, int, int] | None = None
    revision: int = 0
    pool_id: int | None = None


@dataclass(frozen=True)
class ExplainJobs:
    """Wait reasons, the main one first, and (position, of). places: as Plan.places. pools: (id, name) by index."""

    refusals: Mapping[int, list[Refusal]]
    positions: Mapping[int, tuple[int, int]]
    places: Mapping[int, list[QueuePlace]] = field(default_factory=dict)
    pools: Sequence[tuple[int, str]] = ()

    def list_told_pools(self) -> dict[int, int]:
        """Return {job: which of its several pools reasons and position are of}."""
        ids = [pool for pool, _ in self.pools]
        return {job: ids[places[0][0]] for job, places in self.places.items()}

    def list_places(self, job_id: int) -> list[dict]:
        """Return where the job stands in each of several pools, as Job.wait_places."""
        each = ((*self.pools[pool], position, of) for pool, position, of in self.places.get(job_id, ()))
        return [dict(zip(("pool", "name", "position", "of"), place, strict=True)) for place in each]


@dataclass(frozen=True)
class StopJob:
    """Preempt and requeue a job. to: the job that may start then, None for maintenance."""

    job_id: int
    reason: str
    to: int | None = None


Step = StartJob | StopJob | ExplainJobs


def build_steps(plan: Plan, world: World) -> list[Step]:
    """Return starts, stops, then an explanation."""
    held, starting = held_bytes(world.snapshot), {start.job for start in plan.starts}
    records = (job for job in world.snapshot.waiting if job.job in starting) if starting else ()
    waiting = {(job.job, job.choice): job for job in records}
    steps: list[Step] = [
        _start_job(start, waiting.get((start.job, start.choice)), world, held) for start in plan.starts
    ]
    steps += [StopJob(eviction.job, eviction.reason, eviction.to) for eviction in plan.evictions]
    if not plan.refusals:
        return steps
    pools = [(pool.pk, pool.name) for pool in world.pools]
    return [*steps, ExplainJobs(plan.refusals, plan.positions, plan.places, pools)]


def _start_job(
    start: Placement, job: WaitingJob | None, world: World, held: Callable[[int, TaskPlacement], int]
) -> StartJob:
    tasks = tuple(_task_start(task, world, held(start.job, task)) for task in start.tasks)
    if job is None:
        return StartJob(start.job, tasks)
    return StartJob(start.job, tasks, (job.team, job.user, job.pool), job.revision, world.pools[job.pool].pk)


def _task_start(place: TaskPlacement, world: World, held: int) -> TaskStart:
    cards = tuple(CardShare(world.gpus[c.gpu].pk, c.memory_mib, c.compute_percent, c.milli) for c in place.cards)
    ids = world.numa_ids[place.node].tolist()
    near = tuple(NumaShare(ids[share.numa], share.cpu_milli, share.memory_mib) for share in place.near)
    amounts = place.cpu_milli, place.memory_mib
    return TaskStart(place.rank, world.nodes[place.node].pk, cards, *amounts, held, place.role, near)
