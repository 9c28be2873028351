"""The allocating transaction: check the epoch, lock limits, nodes and cards, sum holdings, refuse or write.

Sums in the same statement as locks would see the state before them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Sum

from cluster.maintenance import load_maintenance
from cluster.models import Gpu, Node, NodeState
from common.errors import StaleState
from common.locks import database_now, lock_rows
from events.record_and_publish import SCHEDULER, hint
from jobs.jobfile.spec import declared_ports, from_json
from jobs.lifecycle import TaskMove, add_tasks, load_attempts, lock_jobs, move_tasks
from jobs.models import Job, JobKind, Task, may_be_stopped
from jobs.states import JOB_ACTIVE, JobState, TaskState
from quotas.models import RESOURCES, Amounts, Holding, Quota, UserLimit, list_subtree, load_parents, team_chain
from quotas.services import ensure_user_limit, get_default_limit
from runtimes.contract.node import OWN_NETWORK
from scheduler.commit.steps import CardShare, NumaShare, StartJob, TaskStart
from scheduler.lease import check_epoch
from scheduler.loading.lending_and_maintenance import is_lent
from scheduler.loading.predicted_lengths import load_cautious_lengths, load_stays
from scheduler.runtime import has_own_addresses, list_listening_ports

NOTHING: Amounts = (0, 0, 0)
PENDING = TaskState.PENDING
PORTS = range(23_000, 32_000)
"""Ports for masters and tasks that did not get their declared port: above those of services, below the
ephemeral ports of the kernel."""


class DoesNotFit(StaleState):
    """There is less room than in the snapshot."""

    code = "does_not_fit"


@transaction.atomic
def start_jobs(steps: Sequence[StartJob], epoch: int) -> None:
    """Start jobs of one team, user and pool: all or none. Raise StaleState, DoesNotFit."""
    check_epoch("cycle", epoch)
    found = Job.objects.in_bulk([step.job_id for step in steps])
    jobs = [_enter_pool(found[step.job_id], step) for step in steps]
    job, tasks, parents = jobs[0], [task for step in steps for task in step.tasks], load_parents()
    assert len({(job.team_id, job.user_id, job.pool_id) for job in jobs}) == 1, "limits are locked once for all"
    quotas, own = lock_limits(job, parents)
    nodes = lock_nodes(task.node_id for task in tasks)
    gpus = lock_cards(card.gpu_id for task in tasks for card in task.cards)
    ask = _totals(tasks)
    check_teams(job, quotas, ask, parents)
    check_user(job, own, ask, len(jobs))
    check_nodes(tasks, nodes)
    check_maintenance(jobs, nodes)
    check_gpus(tasks, gpus, jobs)
    assign_tasks(steps, nodes, gpus, epoch)


def lock_limits(job: Job, parents: Mapping[int, int | None]) -> tuple[list[Quota], UserLimit]:
    """Lock quotas from the root team down, then the user's limit."""
    chain = team_chain(job.team_id, parents)
    quotas = [row for team in reversed(chain) for row in lock_rows(Quota.objects.filter(team=team, pool=job.pool_id))]
    if not quotas or quotas[-1].team_id != job.team_id:
        raise DoesNotFit(kind="quota", was="deleted")
    limit = UserLimit.objects.filter(user=job.user_id)
    own = lock_rows(limit)
    if not own:
        ensure_user_limit(job.user)
        own = lock_rows(limit.all())
    return quotas, own[0]


def lock_nodes(pks: Iterable[int]) -> dict[int, Node]:
    """Lock nodes, then read their pools."""
    return {node.pk: node for node in lock_rows(Node.objects.filter(pk__in=set(pks)).prefetch_related("pool"))}


def lock_cards(pks: Iterable[int]) -> dict[int, Gpu]:
    """Lock cards, then read their pools."""
    cards = Gpu.objects.filter(pk__in=set(pks)).select_related("node").prefetch_related("pool")
    return {gpu.pk: gpu for gpu in lock_rows(cards)}


def check_teams(job: Job, quotas: list[Quota], ask: Amounts, parents: Mapping[int, int | None]) -> None:
    for quota in quotas:
        below = list_subtree(quota.team_id, parents)
        held = Holding.objects.live().filter(pool=job.pool_id, team__in=below).totals()
        _check("team_limit", held, ask, quota.limits())


def check_user(job: Job, own: UserLimit, ask: Amounts, more: int) -> None:
    """Check the locked user limit. more: jobs to start."""
    limit = own.effective(get_default_limit())
    limits = (limit["gpu_milli"], limit["cpu_milli"], limit["memory_mib"])
    _check("user_limit", Holding.objects.live().filter(user=job.user_id).totals(), ask, limits)
    if not more:
        return
    running = count_active(job.user_id)
    if limit["jobs_running"] is not None and running + more > limit["jobs_running"]:
        raise DoesNotFit(kind="rate_policy", was=running)


def count_active(user_id: int) -> int:
    return Job.objects.filter(user=user_id, state__in=JOB_ACTIVE).count()


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


def sum_nodes(node_ids: Iterable[int]) -> dict[int, Amounts]:
    """Return {node: taken}."""
    taken = Holding.objects.live().filter(node__in=list(node_ids)).totals_by("node")
    return {node: amounts for (node,), amounts in taken.items()}


def check_maintenance(jobs: Iterable[Job], nodes: Iterable[int]) -> None:
    """Refuse jobs that would run into a maintenance which does not stop them."""
    wanted, now = set(nodes), database_now()
    planned = [closed.maintenance for closed in load_maintenance(now) if wanted & closed.node_ids]
    if not planned:
        return
    rows = list(jobs)
    stays_s = load_stays(rows)
    for job in rows:
        until = now + timedelta(seconds=stays_s[job.pk])
        for row in planned:
            stops = row.stops and may_be_stopped(job)
            if row.begins_at <= now or (row.begins_at < until and not stops):
                raise DoesNotFit(kind="maintenance", was=f"from {row.begins_at}")


def check_gpus(tasks: Iterable[TaskStart], gpus: dict[int, Gpu], jobs: Sequence[Job]) -> None:
    asks = {pk: [0, 0, 0] for pk in gpus}
    for card in (card for task in tasks for card in task.cards):
        for column, more in enumerate((card.memory_mib, card.compute_percent, 1)):
            asks[card.gpu_id][column] += more
    pool_id = jobs[0].pool_id
    lenders = {gpu.pool_id for gpu in gpus.values()} - {pool_id}
    now = database_now() if lenders else None
    firm = [job for job in jobs if lenders and not may_be_stopped(job)]
    stays_s = max(load_cautious_lengths(firm).values(), default=0.0)
    lent = {pool for pool in lenders if now and is_lent(pool, pool_id, now, stays_s)}
    taken = sum_cards(gpus)
    for pk, gpu in gpus.items():
        if not gpu.healthy or gpu.removed_at is not None or gpu.pool_id not in {pool_id, *lent}:
            raise DoesNotFit(kind="gpu", was=str(gpu))
        room = (gpu.sellable_mib, 100, gpu.max_slices)
        _check("gpu", taken.get(pk, NOTHING), tuple(asks[pk]), room)


def sum_cards(gpu_ids: Iterable[int]) -> dict[int, tuple[int, int, int]]:
    """Return {card: (MiB, percent, tasks) taken}."""
    taken = Holding.objects.live().filter(gpu__in=list(gpu_ids)).order_by().values_list("gpu")
    columns = {"mib": Sum("gpu_memory_mib"), "percent": Sum("gpu_compute_percent"), "count": Count("pk")}
    return {gpu: (mib, percent, count) for gpu, mib, percent, count in taken.annotate(**columns)}


def check_growth(gpu: Gpu, memory_mib: int, compute_percent: int) -> None:
    """Check the card's room for a larger slice."""
    if not gpu.healthy or gpu.removed_at is not None:
        raise DoesNotFit(kind="gpu", was=str(gpu))
    taken = sum_cards([gpu.pk])
    _check("gpu", taken.get(gpu.pk, NOTHING), (memory_mib, compute_percent, 0), (gpu.sellable_mib, 100, None))


def assign_tasks(steps: Sequence[StartJob], nodes: dict[int, Node], gpus: dict[int, Gpu], epoch: int) -> None:
    """Write holdings and move tasks to ASSIGNED, after the locks."""
    jobs = lock_jobs([step.job_id for step in steps])
    for locked in jobs:
        if locked.state != JobState.QUEUED or locked.held_at is not None or locked.stop_requested_at is not None:
            raise StaleState(kind="job", was=locked.state)
        if locked.waits_for:
            raise StaleState(kind="job", was="after others")
    known = {pk: {task.rank: task for task in tasks} for pk, tasks in load_attempts(jobs).items()}
    of_job = {locked.pk: locked for locked in jobs}
    if any(of_job[step.job_id].revision != step.revision for step in steps):
        raise StaleState(kind="job", was="changed")
    for step in steps:
        _enter_pool(of_job[step.job_id], step)
        _fill_gang(step, of_job[step.job_id], known[step.job_id])
    placed = [(known[step.job_id][place.rank], place) for step in steps for place in step.tasks]
    Holding.objects.bulk_create(row for task, place in placed for row in _holdings(task, place, gpus))
    taken = load_taken_ports(nodes)
    moves = [move for step in steps for move in _moves(step, known[step.job_id], nodes, gpus, taken, epoch)]
    move_tasks(moves, actor=SCHEDULER)
    waited = Job.objects.filter(pk__in=[locked.pk for locked in jobs])
    waited.update(wait_reasons=[], wait_position=None, wait_of=None, wait_places=[], give_up_at=None)
    for locked in jobs:
        if locked.choices:
            started_in = {"pool": locked.pool_id, "gang": locked.gang, "max_time_s": locked.max_time_s}
            started_in |= {"preemptible": locked.preemptible}
            Job.objects.filter(pk=locked.pk).update(**started_in)
    hint("reconcile")


def _enter_pool(job: Job, step: StartJob) -> Job:
    """Return the job as it is in the pool where it starts; raise StaleState if it waits there no more."""
    if not job.enter_pool(step.pool_id or job.pool_id):
        raise StaleState(kind="job", was="waits in another pool")
    return job


def _fill_gang(step: StartJob, locked: Job, tasks: dict[int, Task]) -> None:
    """Add tasks beyond the gang's minimum."""
    least = sum(role["min"] for role in locked.gang)
    if more := {place.rank: place.role for place in step.tasks if place.rank >= least}:
        tasks |= {task.rank: task for task in add_tasks(locked, more)}
    if set(tasks) != {place.rank for place in step.tasks} or {task.state for task in tasks.values()} != {PENDING}:
        raise StaleState(kind="task", was="other ranks")


def _moves(
    step: StartJob,
    tasks: dict[int, Task],
    nodes: dict[int, Node],
    gpus: dict[int, Gpu],
    taken: dict[int, set[int]],
    epoch: int,
) -> list[TaskMove]:
    """Build the moves. taken: ports by node where jobs share its network, extended here."""
    of_job = {pk: taken.get(pk, set()) for pk in {place.node_id for place in step.tasks}}
    master = find_free_port(of_job[next(place.node_id for place in step.tasks if place.rank == 0)])
    own_addresses, moves = has_own_addresses(), []
    for place in step.tasks:
        task, node = tasks[place.rank], nodes[place.node_id]
        alone = own_addresses or node.pk not in taken
        columns = {
            "node": node,
            "epoch": epoch,
            "address": node.address,
            "cpu_milli": place.cpu_milli,
            "memory_mib": place.memory_mib,
            "cards": [_card_view(card, gpus[card.gpu_id]) for card in place.cards],
            "ports": {
                "master": master,
                **map_ports(task.job, task, {master} if own_addresses else of_job[node.pk], alone=alone),
            },
        }
        told = {"node": node.name, "gpus": [str(gpus[c.gpu_id]) for c in place.cards], **_tell_numa(place, gpus)}
        told |= {"kind": "near_data", "held_bytes": place.held_bytes} if place.held_bytes else {}
        moves.append(TaskMove(task, TaskState.ASSIGNED, params=told, also=columns))
        of_job[node.pk].add(master)
    return moves


def load_taken_ports(nodes: Mapping[int, Node]) -> dict[int, set[int]]:
    """Return {node id: ports of its tasks and of other programs there}, where jobs have no networks of their own.

    Callers lock the nodes.
    """
    shared = [pk for pk, node in nodes.items() if node.facts.get("network") != OWN_NETWORK]
    others = list_listening_ports() if shared else set()
    taken: dict[int, set[int]] = {node: {*others} for node in shared}
    for node, ports in Task.objects.holding().filter(node__in=taken).values_list("node", "ports"):
        taken[node] |= set(ports.values())
    return taken


def find_free_port(taken: set[int], start: int = 0) -> int:
    """Take the first free port, searching from `start`."""
    port = next(port for port in (PORTS[(start + i) % len(PORTS)] for i in range(len(PORTS))) if port not in taken)
    taken.add(port)
    return port


def map_ports(job: Job, task: Task, taken: set[int], *, alone: bool = False) -> dict[str, int]:
    """Return {declared: actual} ports. Batch jobs keep free ones; notebooks do not, since other programs use theirs.

    The task's own start of search avoids early reuse. alone: own address, or network of its job.
    """
    given: dict[str, int] = {}
    for declared in declared_ports(from_json(job.spec), task.role, task.rank):
        keep = (alone or job.kind != JobKind.INTERACTIVE) and declared not in taken
        given[str(declared)] = declared if keep else find_free_port(taken, task.uuid.int)
        taken.add(given[str(declared)])
    return given


def _totals(tasks: Iterable[TaskStart]) -> Amounts:
    tasks = list(tasks)
    gpu = sum(card.milli for task in tasks for card in task.cards)
    return gpu, sum(task.cpu_milli for task in tasks), sum(task.memory_mib for task in tasks)


def _check(what: str, held: tuple[int, ...], ask: tuple[int, ...], limits: tuple[int | None, ...]) -> None:
    for name, used, more, limit in zip(RESOURCES, held, ask, limits, strict=True):
        if limit is not None and more and used + more > limit:
            raise DoesNotFit(kind=what, was=f"{name} {used}+{more}>{limit}")


def _holdings(task: Task, place: TaskStart, gpus: dict[int, Gpu]) -> list[Holding]:
    """Build a row for CPU and memory of each NUMA node, and one per card."""
    whose = {"task": task.uuid, "team_id": task.team_id, "user_id": task.user_id, "pool_id": task.pool_id}
    whose["priority"] = task.job.priority
    rows = [Holding(**whose, node_id=place.node_id, **asdict(share)) for share in place.near]
    if not rows:
        numa = {gpus[card.gpu_id].numa for card in place.cards}
        near = NumaShare(numa.pop() if len(numa) == 1 else None, place.cpu_milli, place.memory_mib)
        rows = [Holding(**whose, node_id=place.node_id, **asdict(near))]
    for card in place.cards:
        share = {
            "gpu_memory_mib": card.memory_mib,
            "gpu_compute_percent": card.compute_percent,
            "gpu_milli": card.milli,
        }
        rows.append(Holding(**whose, node_id=place.node_id, gpu_id=card.gpu_id, numa=gpus[card.gpu_id].numa, **share))
    return rows


def _tell_numa(place: TaskStart, gpus: dict[int, Gpu]) -> dict:
    """Return the NUMA nodes, if the machine has several."""
    numa = {share.numa for share in place.near} or {gpus[card.gpu_id].numa for card in place.cards} - {None}
    return {"numa": sorted(numa)} if place.near or len(numa) > 1 else {}


def _card_view(card: CardShare, gpu: Gpu) -> dict:
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
