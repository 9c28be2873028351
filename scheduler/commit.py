"""A plan becomes typed steps (pure), and a small interpreter runs each in a transaction of its own.

`start_job` is the allocating transaction of DESIGN section 7: check the epoch, lock the limits (teams from root to
leaf, then the user), lock the nodes, lock the cards, and only in later statements sum the live holdings; then refuse,
or insert holdings and advance the tasks. In one statement with the locks the sum would be a look at the past.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from django.db import connection, transaction

from cluster.models import Gpu, Node, NodeState
from common.errors import StaleState
from common.locks import database_now
from events.bus import SCHEDULER, hint, ring
from events.transitions import Move
from jobs.jobfile.spec import declared_ports, from_json
from jobs.lifecycle import add_tasks, load_attempt, lock_job, move_gang
from jobs.models import Job, JobKind, Task
from jobs.states import JobState, TaskState
from quotas.models import RESOURCES, Amounts, Holding, Quota, UserLimit, load_parents, subtree, team_chain
from quotas.services import ensure_user_limit
from scheduler.caches import held_bytes
from scheduler.core.types import Plan, Refusal, TaskPlace
from scheduler.holders import time_of
from scheduler.lease import check_epoch
from scheduler.lending import is_lent
from scheduler.memory import remembered
from scheduler.rows import seconds
from scheduler.snapshots import World
from scheduler.truth import (
    clear_wait,
    count_active,
    find_maintenance,
    load_everyone,
    load_job,
    load_ports,
    lock_cards,
    lock_nodes,
    lock_quota,
    lock_user_limit,
    sum_cards,
    sum_nodes,
    sum_teams,
    sum_user,
    write_holdings,
)

log = logging.getLogger("tessera.commit")

PORTS = range(23_000, 32_000)
"""Where masters listen, and tasks that did not get the port they declared: above what services use, below what the
kernel gives away by itself."""


NOTHING: Amounts = (0, 0, 0)

STOPPABLE = frozenset({TaskState.STARTING, TaskState.RUNNING})
"""A task that has no container yet is not asked to end: it would be lost, not stopped."""

REFRESH_REASONS_S = 15
"""The numbers in a reason may be this old; a new code is written at once."""
NEAR_FRONT = 100
"""A new position up to this one is written at once. Behind, everybody moves with every start: see REFRESH_REASONS_S."""
MOST_REFRESHED = 1000
"""So many jobs of which only numbers changed are written in one cycle, the oldest first."""
MOST_BELLS = 50
"""For so many jobs the pages are told that something changed; who looks at another sees it a little later."""

WRITE_REASONS = """
UPDATE jobs_job SET wait_reasons = told.row -> 1, wait_position = (told.row ->> 2)::int,
    wait_of = (told.row ->> 3)::int, explained_at = clock_timestamp()
FROM jsonb_array_elements(%s::jsonb) AS told(row)
WHERE jobs_job.id = (told.row ->> 0)::bigint AND state = 'QUEUED'
"""


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
    job_id: int
    tasks: tuple[TaskStart, ...]


@dataclass(frozen=True)
class ExplainJobs:
    """reasons: {job id: ([{"code", "params"}], position, of)} of the jobs that wait."""

    reasons: dict[int, tuple[list[dict], int, int]]


@dataclass(frozen=True)
class StopJob:
    """Stop what runs of a job so that another may start; it goes back into the queue. reason: an end reason.

    to: who may start then, None where its machine goes into maintenance.
    """

    job_id: int
    reason: str
    to: int | None = None


Step = StartJob | StopJob | ExplainJobs


class DoesNotFit(StaleState):
    """The truth under the locks has less room than the snapshot had. The next cycle sees it."""

    code = "does_not_fit"


def build_steps(plan: Plan, world: World) -> list[Step]:
    """Starts in the plan's order, then who is stopped, then one step that explains whoever waits."""
    held = held_bytes(world.snapshot)
    steps: list[Step] = [
        StartJob(start.job, tuple(_task_start(task, world, held(start.job, task)) for task in start.tasks))
        for start in plan.starts
    ]
    steps += [StopJob(eviction.job, eviction.reason, eviction.to) for eviction in plan.evictions]
    words: dict[int, dict] = {}
    reasons = {
        job: ([_in_words(refusal, words) for refusal in refusals], *plan.positions[job])
        for job, refusals in plan.refusals.items()
    }
    return [*steps, ExplainJobs(reasons)] if reasons else steps


def run_steps(steps: Iterable[Step], epoch: int) -> int:
    """Run each step in its own transaction; one that went stale is dropped. Returns how many jobs were started."""
    started = 0
    for step in steps:
        try:
            if isinstance(step, StartJob):
                start_job(step, epoch)
                started += 1
            elif isinstance(step, StopJob):
                stop_job(step, epoch)
            else:
                explain_jobs(step, epoch)
        except StaleState as stale:
            log.info("%s dropped: %s", type(step).__name__, stale)
    return started


@transaction.atomic
def start_job(step: StartJob, epoch: int) -> None:
    """The allocating transaction. Raises StaleState (DoesNotFit) and changes nothing where the truth has moved on."""
    check_epoch("cycle", epoch)
    job = load_job(step.job_id)
    parents = load_parents()
    quotas, own = lock_limits(job, parents)
    nodes = lock_nodes(task.node_id for task in step.tasks)
    gpus = lock_cards(card.gpu_id for task in step.tasks for card in task.cards)
    ask = _totals(step.tasks)
    check_teams(job, quotas, ask, parents)
    check_user(job, own, ask)
    check_nodes(step.tasks, nodes)
    check_maintenance(job, nodes)
    check_gpus(step.tasks, gpus, job)
    assign(step, job, nodes, gpus, epoch)


def lock_limits(job: Job, parents: Mapping[int, int | None]) -> tuple[list[Quota], UserLimit]:
    """Lock the quota rows of the job's pool from the root team to its own, then the user's limit. Root first."""
    chain = team_chain(job.team_id, parents)
    quotas = [row for team in reversed(chain) for row in lock_quota(team, job.pool_id)]
    if not quotas or quotas[-1].team_id != job.team_id:
        raise DoesNotFit(kind="quota", was="deleted")
    own = lock_user_limit(job.user_id)
    if not own:
        ensure_user_limit(job.user)
        own = lock_user_limit(job.user_id)
    return quotas, own[0]


def check_teams(job: Job, quotas: list[Quota], ask: Amounts, parents: Mapping[int, int | None]) -> None:
    for quota in quotas:
        held = sum_teams(subtree(quota.team_id, parents), job.pool_id)
        _check("team_limit", held, ask, quota.limits())


def check_user(job: Job, own: UserLimit, ask: Amounts) -> None:
    """own: the person's row, locked."""
    limit = own.effective(load_everyone())
    limits = (limit["gpu_milli"], limit["cpu_milli"], limit["memory_mib"])
    _check("user_limit", sum_user(job.user_id), ask, limits)
    running = count_active(job.user_id)
    if limit["jobs_running"] is not None and running >= limit["jobs_running"]:
        raise DoesNotFit(kind="rate_policy", was=running)


def check_nodes(tasks: Iterable[TaskStart], nodes: dict[int, Node]) -> None:
    asks = {pk: [0, 0, 0] for pk in nodes}
    for task in tasks:
        asks[task.node_id][1] += task.cpu_milli
        asks[task.node_id][2] += task.memory_mib
    taken = sum_nodes(nodes)
    for pk, node in nodes.items():
        if node.state != NodeState.READY or node.removed_at is not None:
            raise DoesNotFit(kind="node", was=node.state)
        _, cpu, memory = taken.get(pk, NOTHING)
        _check("node", (0, cpu, memory), tuple(asks[pk]), (None, node.cpu_sellable_milli, node.memory_mib))


def check_maintenance(job: Job, nodes: Iterable[int]) -> None:
    """Nothing starts on a machine that would still run there when its maintenance begins."""
    if planned := find_maintenance(nodes, time_of(job)):
        raise DoesNotFit(kind="maintenance", was=f"from {planned.begins_at}")


def check_gpus(tasks: Iterable[TaskStart], gpus: dict[int, Gpu], job: Job) -> None:
    asks = {pk: [0, 0, 0] for pk in gpus}
    for card in (card for task in tasks for card in task.cards):
        for column, more in enumerate((card.memory_mib, card.compute_percent, 1)):
            asks[card.gpu_id][column] += more
    lenders = {gpu.pool_id for gpu in gpus.values()} - {job.pool_id}
    now = database_now() if lenders else None
    lent = {pool for pool in lenders if now and is_lent(pool, job.pool_id, now)}
    taken = sum_cards(gpus)
    for pk, gpu in gpus.items():
        if not gpu.healthy or gpu.removed_at is not None or gpu.pool_id not in {job.pool_id, *lent}:
            raise DoesNotFit(kind="gpu", was=str(gpu))
        room = (gpu.sellable_mib, 100, gpu.pool.slices_per_gpu)
        _check("gpu", taken.get(pk, NOTHING), tuple(asks[pk]), room)


def assign(step: StartJob, job: Job, nodes: dict[int, Node], gpus: dict[int, Gpu], epoch: int) -> None:
    """Write the holdings and move the tasks to ASSIGNED. The limits, nodes and cards are locked and have the room."""
    locked = lock_job(job.pk)
    if locked.state != JobState.QUEUED or locked.held_at is not None or locked.stop_requested_at is not None:
        raise StaleState(kind="job", was=locked.state)
    tasks = {task.rank: task for task in load_attempt(locked) if task.state == TaskState.PENDING}
    least = sum(role["min"] for role in locked.gang)
    if more := {place.rank: place.role for place in step.tasks if place.rank >= least}:
        tasks |= {task.rank: task for task in add_tasks(locked, more)}
    if set(tasks) != {place.rank for place in step.tasks}:
        raise StaleState(kind="task", was="other ranks")
    taken = _taken_ports(nodes)
    master = _free_port(taken[next(place.node_id for place in step.tasks if place.rank == 0)])
    write_holdings(row for place in step.tasks for row in _holdings(tasks[place.rank], place, locked, gpus))
    moves = []
    for place in step.tasks:
        task, node = tasks[place.rank], nodes[place.node_id]
        columns = {
            "node": node,
            "epoch": epoch,
            "address": node.address,
            "cpu_milli": place.cpu_milli,
            "memory_mib": place.memory_mib,
            "cards": [_card_view(card, gpus[card.gpu_id]) for card in place.cards],
            "ports": {"master": master, **_map_ports(locked, task, taken[node.pk])},
        }
        told = {"node": node.name, "gpus": [str(gpus[c.gpu_id]) for c in place.cards], **_spread(place, gpus)}
        told |= {"kind": "near_data", "held_bytes": place.held_bytes} if place.held_bytes else {}
        moves.append(Move(task, told, columns))
    move_gang(moves, TaskState.ASSIGNED, actor=SCHEDULER)
    clear_wait(locked.pk)
    hint("reconcile")


@transaction.atomic
def stop_job(step: StopJob, epoch: int) -> None:
    """Move all that runs of the job to STOPPING; reconcile asks it to end. Changes nothing where the truth moved on."""
    check_epoch("cycle", epoch)
    job = lock_job(step.job_id)
    tasks = load_attempt(job)
    if job.stop_requested_at is not None or any(task.state not in STOPPABLE for task in tasks):
        raise StaleState(kind="job", was=job.state)
    params = {"team": load_job(step.to).team.name} if step.to is not None else {}
    moves = [Move(task, params) for task in tasks]
    move_gang(moves, TaskState.STOPPING, reason=step.reason, actor=SCHEDULER)
    hint("reconcile")


@transaction.atomic
def explain_jobs(step: ExplainJobs, epoch: int) -> None:
    """Write why each job waits, where a code changed or, near the front, its position, or 15 s passed. No events."""
    check_epoch("cycle", epoch)
    until = database_now().timestamp() - REFRESH_REASONS_S
    changed, stale = [], []
    for row in load_told():
        if row.pk not in step.reasons:
            continue
        reasons, position, of = step.reasons[row.pk]
        now = ([_with_names(reason, row.held_by) for reason in reasons] if row.held_by else reasons, position, of)
        before = row[1:4]
        if now == before:
            continue
        moved = position <= NEAR_FRONT and now[1:] != before[1:]
        if moved or _codes(now[0]) != _codes(row.reasons):
            changed.append((row.pk, *now))
        elif (row.told_at or 0.0) < until:
            stale.append((row.told_at or 0.0, (row.pk, *now)))
    _write_reasons([*changed, *(line for _, line in sorted(stale, key=itemgetter(0))[:MOST_REFRESHED])])
    _ring_for([pk for pk, *_ in sorted(changed, key=itemgetter(2))[:MOST_BELLS]])


class ToldRow(NamedTuple):
    """What was written last about why a job waits."""

    pk: int
    reasons: list[dict]
    position: int | None
    of: int | None
    told_at: float | None
    held_by: str


def load_told() -> list[ToldRow]:
    columns = ("pk", "wait_reasons", "wait_position", "wait_of", seconds("explained_at"), "held_by")
    return remembered("queue", ToldRow, *columns)


def _write_reasons(rows: list[tuple[int, list[dict], int, int]]) -> None:
    """All in one statement. A job that no longer waits is left as it is."""
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(WRITE_REASONS, [json.dumps([list(row) for row in rows])])


def _ring_for(job_ids: list[int]) -> None:
    for job in Job.objects.filter(pk__in=job_ids).only("pk", "team_id", "pool_id").order_by("pk"):
        ring(job)


def _in_words(refusal: Refusal, words: dict[int, dict]) -> dict:
    """Jobs that ask alike share a refusal. words: {id of a refusal: what was made of it}."""
    found = words.get(id(refusal))
    if found is None:
        found = words[id(refusal)] = {"code": refusal.reason, "params": refusal.params}
    return found


def _codes(reasons: list[dict]) -> list[str]:
    return [reason["code"] for reason in reasons]


def _with_names(reason: dict, held_by: str) -> dict:
    return {"code": "held", "params": {"who": held_by}} if reason["code"] == "held" else reason


def _task_start(place: TaskPlace, world: World, held: int) -> TaskStart:
    cards = tuple(Card(world.gpus[c.gpu].pk, c.memory_mib, c.compute_percent, c.milli) for c in place.cards)
    return TaskStart(place.rank, world.nodes[place.node].pk, cards, place.cpu_milli, place.memory_mib, held, place.role)


def _totals(tasks: Iterable[TaskStart]) -> Amounts:
    tasks = list(tasks)
    gpu = sum(card.milli for task in tasks for card in task.cards)
    return gpu, sum(task.cpu_milli for task in tasks), sum(task.memory_mib for task in tasks)


def _check(what: str, held: tuple[int, ...], ask: tuple[int, ...], limits: tuple[int | None, ...]) -> None:
    for name, used, more, limit in zip(RESOURCES, held, ask, limits, strict=True):
        if limit is not None and more and used + more > limit:
            raise DoesNotFit(kind=what, was=f"{name} {used}+{more}>{limit}")


def _holdings(task: Task, place: TaskStart, job: Job, gpus: dict[int, Gpu]) -> list[Holding]:
    """One row for CPU and memory, one for each card."""
    whose = {"task": task.uuid, "team_id": job.team_id, "user_id": job.user_id, "pool_id": job.pool_id}
    numa = {gpus[card.gpu_id].numa for card in place.cards}
    near = numa.pop() if len(numa) == 1 else None
    rows = [Holding(**whose, node_id=place.node_id, cpu_milli=place.cpu_milli, memory_mib=place.memory_mib, numa=near)]
    for card in place.cards:
        share = {
            "gpu_memory_mib": card.memory_mib,
            "gpu_compute_percent": card.compute_percent,
            "gpu_milli": card.milli,
        }
        rows.append(Holding(**whose, node_id=place.node_id, gpu_id=card.gpu_id, numa=gpus[card.gpu_id].numa, **share))
    return rows


def _spread(place: TaskStart, gpus: dict[int, Gpu]) -> dict:
    """The NUMA nodes of cards that could not all be near one: a warning in the task's history."""
    numa = {gpus[card.gpu_id].numa for card in place.cards} - {None}
    return {"numa": sorted(numa)} if len(numa) > 1 else {}


def _card_view(card: Card, gpu: Gpu) -> dict:
    """What the task's row remembers of its card, for its page and its environment."""
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "model": gpu.model,
        "memory_mib": card.memory_mib,
        "compute_percent": card.compute_percent,
        "milli": card.milli,
        "whole": card.memory_mib == gpu.sellable_mib and card.compute_percent == 100,
        "simulated": gpu.simulated,
        "enforcement": gpu.enforcement,
    }


def _taken_ports(nodes: Iterable[int]) -> dict[int, set[int]]:
    """{node id: ports that its live tasks were given}. The nodes' rows are locked, so no two tasks get the same."""
    taken: dict[int, set[int]] = {node: set() for node in nodes}
    for node, ports in load_ports(taken):
        taken[node] |= set(ports.values())
    return taken


def _free_port(taken: set[int], start: int = 0) -> int:
    """The first of PORTS, counted from `start` and round, that is not taken; it is from now on."""
    port = next(port for port in (PORTS[(start + i) % len(PORTS)] for i in range(len(PORTS))) if port not in taken)
    taken.add(port)
    return port


def _map_ports(job: Job, task: Task, taken: set[int]) -> dict[str, int]:
    """{declared: where this task listens instead}. A batch job gets the number it declared where no live task of its
    node has it; a notebook never does, since other programs of the machine love its number too. The search begins at a
    place of the task's own, so that an address is not soon another's.
    """
    given: dict[str, int] = {}
    for declared in declared_ports(from_json(job.spec), task.role, task.rank):
        keep = job.kind != JobKind.INTERACTIVE and declared not in taken
        given[str(declared)] = declared if keep else _free_port(taken, task.uuid.int)
        taken.add(given[str(declared)])
    return given
