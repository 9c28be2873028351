"""A plan as typed steps, each for a transaction of its own (`commit`): rows of the database instead of indices."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.caches import held_bytes
from scheduler.core.types import Plan, Refusal, TaskPlace
from scheduler.snapshots import World


@dataclass(frozen=True)
class Card:
    gpu_id: int
    memory_mib: int
    compute_percent: int
    milli: int


@dataclass(frozen=True)
class TaskStart:
    """Where one task goes, in rows instead of indices. held_bytes: of what it reads, there already. role: of a task
    beyond the least of its gang, for which there is no row yet; else it may be left out.
    """

    rank: int
    node_id: int
    cards: tuple[Card, ...]
    cpu_milli: int
    memory_mib: int
    held_bytes: int = 0
    role: str = ""


@dataclass(frozen=True)
class StartJob:
    """whose: its team, person and pool: those that agree may start in one transaction. None: alone."""

    job_id: int
    tasks: tuple[TaskStart, ...]
    whose: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class ExplainJobs:
    """Why each of the jobs that wait does, the most telling first, and its place in line: {job id: (position, of)}."""

    refusals: Mapping[int, list[Refusal]]
    positions: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class StopJob:
    """Stop what runs of a job so that another may start; it goes back into the queue. reason: an end reason.

    to: who may start then, None where its machine goes into maintenance.
    """

    job_id: int
    reason: str
    to: int | None = None


Step = StartJob | StopJob | ExplainJobs


def build_steps(plan: Plan, world: World) -> list[Step]:
    """Starts in the plan's order, then who is stopped, then one step that explains whoever waits."""
    held, starting = held_bytes(world.snapshot), {start.job for start in plan.starts}
    waiting = world.snapshot.waiting if starting else ()
    whose = {job.job: (job.team, job.user, job.pool) for job in waiting if job.job in starting}
    steps: list[Step] = [
        StartJob(
            start.job,
            tuple(_task_start(task, world, held(start.job, task)) for task in start.tasks),
            whose.get(start.job),
        )
        for start in plan.starts
    ]
    steps += [StopJob(eviction.job, eviction.reason, eviction.to) for eviction in plan.evictions]
    return [*steps, ExplainJobs(plan.refusals, plan.positions)] if plan.refusals else steps


def _task_start(place: TaskPlace, world: World, held: int) -> TaskStart:
    cards = tuple(Card(world.gpus[c.gpu].pk, c.memory_mib, c.compute_percent, c.milli) for c in place.cards)
    return TaskStart(place.rank, world.nodes[place.node].pk, cards, place.cpu_milli, place.memory_mib, held, place.role)
