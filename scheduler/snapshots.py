"""The database's rows as the scheduler's arrays. Reads only; decides nothing."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from math import inf
from uuid import UUID

import numpy as np
from django.db.models import Count, Sum

from accounts.models import Team
from cluster.models import Arrangement, Gpu, Node, NodeState, Pool
from common.resources import GpuAsk, gpu_milli, matches_model, parse_gpu, slice_of
from jobs.models import Job, JobKind, Task
from jobs.states import JOB_ACTIVE, TaskState
from quotas.models import Amounts, Holding, Quota, UserLimit, add_amounts, load_parents, team_chain
from quotas.services import limit_of_everyone
from scheduler.core.fragmentation import build_typical
from scheduler.core.future import expected_end
from scheduler.core.scores import spread, weigh
from scheduler.core.snapshot import UNLIMITED, Snapshot
from scheduler.core.topology import Layout, Words, build_layout
from scheduler.core.types import Ask, CardShare, Policy, Role, Running, TaskPlace, Waiting

NOTHING: Amounts = (0, 0, 0)

LEAVING_S = 30.0
"""What is being stopped is expected to be gone after so long."""

HISTORY = 1000
"""So many of the newest jobs tell what is usually asked."""


@dataclass(frozen=True)
class Kind:
    """Cards that are alike for every ask. sliceable: a slice's memory limit is as strong as the pool demands."""

    model: str
    product: str
    sellable_mib: int
    sliceable: bool


@dataclass(frozen=True)
class World:
    """A snapshot and what its indices stand for: rows in the order of the arrays. Waiting jobs carry their real ids."""

    snapshot: Snapshot
    policy: Policy
    nodes: list[Node]
    gpus: list[Gpu]
    pools: list[Pool]
    teams: list[Team]
    user_ids: list[int]
    kinds: list[Kind]


def load_world(*, jobs: Iterable[Job] | None = None, user_id: int | None = None) -> World:
    """The cluster, its holdings and the queue now.

    jobs: the waiting jobs, where they are not those of the database. user_id: a person to include besides.
    """
    queue = load_queue() if jobs is None else list(jobs)
    pools, teams = list(Pool.objects.order_by("pk")), list(Team.objects.order_by("pk"))
    nodes = list(Node.objects.present().select_related("pool").order_by("pk"))
    gpus = list(Gpu.objects.present().select_related("pool", "node").order_by("pk"))
    held = load_held()
    people = {job.user_id for job in queue} | {holder.job.user_id for holder in held}
    user_ids = sorted(people | ({user_id} if user_id else set()))
    by_node = {pk: list(cards) for pk, cards in groupby(sorted(gpus, key=lambda g: g.node_id), key=lambda g: g.node_id)}
    kinds = sorted({kind_of(gpu) for gpu in gpus}, key=lambda k: (k.model, k.sellable_mib, k.product, k.sliceable))
    pool_at, team_at = _places(p.pk for p in pools), _places(t.pk for t in teams)
    arrays = {
        **_card_arrays(gpus, _places(n.pk for n in nodes), pool_at, kinds),
        **_node_arrays(nodes, pool_at),
        "layouts": tuple(build_node_layout(node, by_node.get(node.pk, [])) for node in nodes),
        **_team_arrays(teams, pools),
        **_user_arrays(user_ids),
    }
    users = _places(user_ids)
    waiting = tuple(
        build_waiting(job, team=team_at[job.team_id], user=users[job.user_id], pool=pool_at[job.pool_id], kinds=kinds)
        for job in queue
    )
    typical = build_typical(load_history(kinds), tuple(kind.sellable_mib for kind in kinds))
    names = tuple(kind.model for kind in kinds)
    places = Places(team_at, users, pool_at, _places(n.pk for n in nodes), _places(g.pk for g in gpus))
    now = time.time()
    running = tuple(build_running(holder, places, now) for holder in held if places.know(holder))
    snapshot = Snapshot(**arrays, kind_names=names, waiting=waiting, running=running, typical=typical)
    return World(snapshot, build_policy(pools), nodes, gpus, pools, teams, user_ids, kinds)


def build_policy(pools: Iterable[Pool]) -> Policy:
    """What holds in each of these pools, in their order."""
    return Policy(pools=tuple(_policy_of(pool) for pool in pools))


def load_queue() -> list[Job]:
    """The jobs that wait and may start: without a stop wish."""
    wanted = (
        *("id", "team_id", "user_id", "pool_id", "priority", "submitted_at", "gang", "held_at", "not_before"),
        *("kind", "preemptible", "time_s", "max_time_s"),
    )
    return list(Job.objects.waiting().filter(stop_requested_at__isnull=True).only(*wanted).order_by("id"))


def load_history(kinds: list[Kind]) -> list[tuple[Ask, int]]:
    """What the tasks of the last HISTORY jobs asked, and how many did."""
    recent = Job.objects.order_by("-pk").values("pk")[:HISTORY]
    gangs = Job.objects.filter(pk__in=recent).order_by().values_list("gang").annotate(jobs=Count("pk"))
    return [(build_ask(role["request"], kinds), jobs * role["min"]) for gang, jobs in gangs for role in gang]


def build_waiting(job: Job, *, team: int, user: int, pool: int, kinds: list[Kind]) -> Waiting:
    return Waiting(
        job=job.pk or 0,
        team=team,
        user=user,
        pool=pool,
        priority=job.priority,
        submitted_at=_seconds(job.submitted_at),
        gang=tuple(Role(r["role"], r["min"], r["max"], build_ask(r["request"], kinds)) for r in job.gang),
        held=job.held_at is not None,
        not_before=_seconds(job.not_before),
        time_s=time_of(job),
        preemptible=may_be_stopped(job),
    )


def _policy_of(pool: Pool) -> Policy:
    scores = weigh(
        useful=pool.weight_useful,
        whole=pool.weight_whole,
        full_cards=pool.weight_full_cards,
        links=pool.weight_links,
        full_nodes=pool.weight_full_nodes,
    )
    return Policy(
        ageing_s=pool.ageing_s,
        reservations=pool.reservations,
        preempt=pool.preempt,
        scores=spread(scores) if pool.arrangement == Arrangement.SPREAD else scores,
    )


@dataclass(frozen=True)
class Held:
    """A job and what its tasks hold: (task, its live holdings) in the order of ranks."""

    job: Job
    tasks: list[tuple[Task, list[Holding]]]

    def is_in(self, *states: TaskState) -> bool:
        return all(task.state in states for task, _ in self.tasks)


@dataclass(frozen=True)
class Places:
    """Where the rows of the database stand in the arrays: {id: index}."""

    team: dict[int, int]
    user: dict[int, int]
    pool: dict[int, int]
    node: dict[int, int]
    gpu: dict[int, int]

    def know(self, holder: Held) -> bool:
        """A task on a node or card that is gone keeps its holdings until its end is proved, and nobody waits for it."""
        rows = [row for _, rows in holder.tasks for row in rows]
        return all(row.node_id in self.node and (row.gpu_id is None or row.gpu_id in self.gpu) for row in rows)


def load_held() -> list[Held]:
    """The jobs that hold something and of whose tasks none is lost: nobody knows when those end."""
    rows: dict[UUID, list[Holding]] = {}
    for row in Holding.objects.live().order_by("pk"):
        rows.setdefault(row.task, []).append(row)
    tasks = Task.objects.holding().select_related("job").defer("job__spec", "job__gang", "cards", "job__wait_reasons")
    of_job = groupby(tasks.order_by("job_id", "rank"), key=lambda task: task.job_id)
    held = [[(task, rows[task.uuid]) for task in group if task.uuid in rows] for _, group in of_job]
    return [
        Held(tasks[0][0].job, tasks)
        for tasks in held
        if tasks and all(task.state != TaskState.LOST for task, _ in tasks)
    ]


def build_running(holder: Held, places: Places, now: float) -> Running:
    job = holder.job
    started_at = max(_seconds(task.started_at) or now for task, _ in holder.tasks)
    leaving = job.stop_requested_at is not None or any(task.state == TaskState.STOPPING for task, _ in holder.tasks)
    return Running(
        job=job.pk,
        team=places.team[job.team_id],
        user=places.user[job.user_id],
        pool=places.pool[job.pool_id],
        priority=job.priority,
        tasks=tuple(_task_place(task, rows, places) for task, rows in holder.tasks),
        saved_at=max(started_at, min(_seconds(task.checkpointed_at) for task, _ in holder.tasks)),
        ends_at=now + LEAVING_S if leaving else expected_end(started_at, time_of(job), now),
        started_at=started_at,
        time_s=time_of(job),
        preemptible=may_be_stopped(job) and holder.is_in(TaskState.STARTING, TaskState.RUNNING),
        leaving=leaving,
    )


def time_of(job: Job) -> float:
    """How long the job says that it runs, in seconds: its own estimate, else when it is stopped at the latest."""
    return float(job.time_s or job.max_time_s or inf)


def may_be_stopped(job: Job) -> bool:
    return job.preemptible and job.kind != JobKind.INTERACTIVE


def _task_place(task: Task, rows: list[Holding], places: Places) -> TaskPlace:
    cards = tuple(
        CardShare(places.gpu[row.gpu_id], row.gpu_memory_mib, row.gpu_compute_percent, row.gpu_milli)
        for row in rows
        if row.gpu_id is not None
    )
    cpu, memory = sum(row.cpu_milli for row in rows), sum(row.memory_mib for row in rows)
    return TaskPlace(task.role, task.rank, places.node[rows[0].node_id], cards, cpu, memory)


def build_ask(request: dict, kinds: list[Kind]) -> Ask:
    """A request of a gang, with its GPUs in the integers of each kind of card (the unit rule of common.resources)."""
    ask = parse_gpu(request["gpu"])
    cpu, memory = request["cpu_milli"], request["memory_mib"]
    if ask.count == 0:
        return Ask(0, False, (), (), (), (), cpu, memory)
    needs = [_need(ask, kind) for kind in kinds]
    mib, percent, milli, preference = zip(*needs, strict=True) if needs else ((), (), (), ())
    return Ask(ask.count, not ask.is_slice, mib, percent, milli, preference, cpu, memory)


def build_node_layout(node: Node, gpus: list[Gpu]) -> Layout | None:
    """The links between `gpus`, the node's present cards, in their order; None where nothing is known of them.

    The stored matrices are over the cards by index: they are believed only where their size is the number of cards.
    """
    links, pcie = node.topology.get("links") or [], node.topology.get("pcie") or []
    if not gpus or len(links) != len(gpus):
        return None
    rows = {gpu.pk: row for row, gpu in enumerate(sorted(gpus, key=lambda gpu: gpu.index))}
    order = [rows[gpu.pk] for gpu in gpus]
    socket_of = {numa["id"]: numa.get("socket") for numa in node.numa}
    return build_layout(
        _reordered(links, order),
        _reordered(pcie, order) if len(pcie) == len(links) else (),
        tuple(gpu.numa for gpu in gpus),
        tuple(socket_of.get(gpu.numa) for gpu in gpus),
    )


def kind_of(gpu: Gpu) -> Kind:
    return Kind(
        gpu.model, gpu.product, gpu.sellable_mib, gpu.pool.accepts_watched_only or gpu.enforcement != "watchdog"
    )


def _need(ask: GpuAsk, kind: Kind) -> tuple[int, int, int, int]:
    """(MiB, percent, thousandths for quota, preference) of one card of this kind; preference -1 = not acceptable."""
    share = slice_of(ask, kind.sellable_mib)
    wanted = [place for place, model in enumerate(ask.models) if matches_model(model, kind.model, kind.product)]
    if share is None or (ask.models and not wanted) or (ask.is_slice and not kind.sliceable):
        return 0, 0, 0, -1
    return share.memory_mib, share.compute_percent, gpu_milli(share, kind.sellable_mib), min(wanted, default=0)


def _reordered(matrix: list[list[str]], order: list[int]) -> Words:
    return tuple(tuple(matrix[i][j] for j in order) for i in order)


def _card_arrays(gpus: list[Gpu], node_at: dict[int, int], pool_at: dict[int, int], kinds: list[Kind]) -> dict:
    kind_at = {kind: place for place, kind in enumerate(kinds)}
    used = {
        gpu: (mib, percent, count)
        for gpu, mib, percent, count in Holding.objects.live()
        .filter(gpu__isnull=False)
        .order_by()
        .values_list("gpu")
        .annotate(mib=Sum("gpu_memory_mib"), percent=Sum("gpu_compute_percent"), count=Count("pk"))
    }
    return {
        "gpu_node": [node_at[gpu.node_id] for gpu in gpus],
        "gpu_pool": [pool_at[gpu.pool_id] for gpu in gpus],
        "gpu_kind": [kind_at[kind_of(gpu)] for gpu in gpus],
        "gpu_total_mib": [gpu.sellable_mib for gpu in gpus],
        "gpu_free_mib": [gpu.sellable_mib - used.get(gpu.pk, NOTHING)[0] for gpu in gpus],
        "gpu_free_percent": [100 - used.get(gpu.pk, NOTHING)[1] for gpu in gpus],
        "gpu_slices": [used.get(gpu.pk, NOTHING)[2] for gpu in gpus],
        "gpu_max_slices": [gpu.pool.slices_per_gpu for gpu in gpus],
        "gpu_open": [gpu.healthy for gpu in gpus],
    }


def _node_arrays(nodes: list[Node], pool_at: dict[int, int]) -> dict:
    used = {key[0]: total for key, total in Holding.objects.live().totals_by("node").items()}
    return {
        "node_pool": [pool_at[node.pool_id] for node in nodes],
        "node_cpu_total": [node.cpu_sellable_milli for node in nodes],
        "node_memory_total": [node.memory_mib for node in nodes],
        "node_cpu_free": [node.cpu_sellable_milli - used.get(node.pk, NOTHING)[1] for node in nodes],
        "node_memory_free": [node.memory_mib - used.get(node.pk, NOTHING)[2] for node in nodes],
        "node_open": [node.state == NodeState.READY for node in nodes],
        "node_names": tuple(node.name for node in nodes),
    }


def _team_arrays(teams: list[Team], pools: list[Pool]) -> dict:
    parents = load_parents()
    at = _places(team.pk for team in teams)
    chains = [tuple(at[pk] for pk in team_chain(team.pk, parents)) for team in teams]
    quotas = {(quota.team_id, quota.pool_id): quota for quota in Quota.objects.all()}
    own = Holding.objects.live().totals_by("team", "pool")
    below: dict[int, list[int]] = {place: [] for place in range(len(teams))}
    for place, chain in enumerate(chains):
        for ancestor in chain:
            below[ancestor].append(teams[place].pk)
    return {
        "team_chain": tuple(chains),
        "held": _cube(teams, pools, lambda t, p: add_amounts(own.get((u, p.pk), NOTHING) for u in below[at[t.pk]])),
        "guarantee": _cube(teams, pools, lambda t, p: _guarantee(quotas.get((t.pk, p.pk)))),
        "limit": _cube(teams, pools, lambda t, p: _limit(quotas.get((t.pk, p.pk)), t.pk in parents.values())),
        "weight": [[_weight(quotas.get((team.pk, pool.pk))) for pool in pools] for team in teams],
        "team_names": tuple(team.name for team in teams),
        "pool_names": tuple(pool.name for pool in pools),
    }


def _user_arrays(user_ids: list[int]) -> dict:
    everyone = limit_of_everyone()
    rows = {row.user_id: row for row in UserLimit.objects.filter(user__in=user_ids)}
    limits = [rows.get(pk, everyone).effective(everyone) for pk in user_ids]
    held = {key[0]: total for key, total in Holding.objects.live().filter(user__in=user_ids).totals_by("user").items()}
    active = Job.objects.filter(state__in=JOB_ACTIVE, user__in=user_ids)
    running = dict(active.order_by().values_list("user").annotate(n=Count("pk")))
    return {
        "user_held": _table([held.get(pk, NOTHING) for pk in user_ids]),
        "user_limit": _table([(_open(x["gpu_milli"]), _open(x["cpu_milli"]), _open(x["memory_mib"])) for x in limits]),
        "user_jobs": [running.get(pk, 0) for pk in user_ids],
        "user_jobs_limit": [_open(x["jobs_running"]) for x in limits],
    }


def _guarantee(quota: Quota | None) -> Amounts:
    return quota.guarantees() if quota else NOTHING


def _limit(quota: Quota | None, is_parent: bool) -> Amounts:
    """Without a row a team holds nothing in a pool; a parent without a row sets no limit for its children."""
    if quota is None:
        return (UNLIMITED, UNLIMITED, UNLIMITED) if is_parent else NOTHING
    gpu, cpu, memory = quota.limits()
    return _open(gpu), _open(cpu), _open(memory)


def _weight(quota: Quota | None) -> int:
    return quota.weight if quota else 1


def _open(limit: int | None) -> int:
    return UNLIMITED if limit is None else limit


def _cube(teams: list[Team], pools: list[Pool], value: Callable[[Team, Pool], Amounts]) -> np.ndarray:
    """[T, P, 3] of what `value` says for each team and pool."""
    rows = [[value(team, pool) for pool in pools] for team in teams]
    return np.array(rows, dtype=np.int64).reshape(len(teams), len(pools), 3)


def _table(rows: list[Amounts]) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), 3)


def _places(keys: Iterable[int]) -> dict[int, int]:
    return {key: place for place, key in enumerate(keys)}


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0
