"""Rows of queue, cards and nodes, with the fields of other teams' work left empty.

Everybody sees the whole queue, but of other teams only size, state, reason code and expected end, and as much of whose
it is as TESSERA_VISIBILITY tells. Hidden values never enter the rows.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from cluster.maintenance import load_maintenance
from cluster.models import Gpu, Maintenance, Node
from common.resources import show_place
from jobs.models import Job, JobQuerySet, Task
from jobs.reason_messages import UNEXPLAINED, describe_wait
from jobs.states import JOB_ACTIVE, JobState
from monitoring.samples.growth import scale_to_share
from monitoring.samples.newest import (
    CardUse,
    NodeUse,
    TaskUse,
    load_card_uses,
    load_node_uses,
    load_task_uses,
)
from portal.wording.resources import describe_other_pools
from portal.wording.starts import describe_start
from quotas.models import Holding
from scheduler.preview.stored_forecasts import StoredForecast, load_forecasts

MOST_ROWS = 5000

# What is told outside a team of whose its work is, by TESSERA_VISIBILITY.
NAMED: dict[str, tuple[str, ...]] = {"open": ("team", "owner"), "team": ("team",), "private": ()}

SHOWN_OF_TASKS = (
    *("uuid", "role", "rank", "state", "job__name", "job__state", "job__started_at", "job__time_s", "job__max_time_s"),
    *("job__team__name", "job__user__username"),
)
"""Thousands of tasks are read for a map: the other columns would take as long as all else."""

# Reasons without numbers and names, for other teams.
SHORT_WORDS = {
    "ahead_in_queue": gettext_lazy("other jobs are ahead"),
    "making_room": gettext_lazy("room is being made"),
    "emptying": gettext_lazy("machines are being emptied for it"),
    "maintenance": gettext_lazy("free resources go into maintenance too soon"),
    "reserved_for_larger": gettext_lazy("free resources are reserved for a job ahead"),
    "borrow_denied": gettext_lazy("free resources are promised to other teams"),
    "no_fit_now": gettext_lazy("not enough is free in one place"),
    "gang_incomplete": gettext_lazy("not all tasks fit together yet"),
    "fits_only_apart": gettext_lazy("not all tasks fit together in one place yet"),
    "fragmented": gettext_lazy("enough is free in total, but in pieces that are too small"),
    "team_limit": gettext_lazy("the team is at its limit"),
    "user_limit": gettext_lazy("the owner is at a limit"),
    "rate_policy": gettext_lazy("the owner runs as many jobs as allowed"),
    "model_unavailable": gettext_lazy("no card of the model has room"),
    "dependency": gettext_lazy("starts after other jobs"),
    "start_after": gettext_lazy("starts later"),
    "held": gettext_lazy("held by someone"),
    "node_recovering": gettext_lazy("no node is ready"),
    "impossible": gettext_lazy("the cluster can never provide this"),
}


@dataclass(frozen=True, kw_only=True)
class RedactedRow:
    """Common fields of rows. full: of one's own teams; else fields marked * are empty.

    own*. team, owner (a user name): "" = not named. state: of the job, upper case. expected_end_at: by estimate or time
    limit. job_id*: "job-412". name*.
    """

    full: bool
    own: bool = False
    team: str = ""
    state: str = ""
    expected_end_at: datetime | None = None
    job_id: str = ""
    name: str = ""
    owner: str = ""

    @property
    def team_label(self) -> str:
        return self.team or _("another team")


@dataclass(frozen=True, kw_only=True)
class QueueRow(RedactedRow):
    """A queued or active job.

    pool: where it runs or is to start first. pools: all where it waits. places: (pool, position, of) in each of them.
    gpu, cpu_milli, memory_mib: per task; of several roles as Job.request. asks: (gpu, tasks) of each role. position,
    of: in the queue of `pool`, None before the first cycle. reason: code of the first blocker. reasons*: [{"code",
    "params"}]. priority*, submitted_at*, started_at*. as_of: last cycle. starts*: forecast in words.
    """

    pool: str
    pools: tuple[str, ...]
    gpu: str
    tasks: int
    asks: tuple[tuple[str, int], ...]
    cpu_milli: int
    memory_mib: int
    position: int | None
    of: int | None
    reason: str
    as_of: datetime | None
    reasons: tuple[dict, ...] = ()
    priority: int | None = None
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    starts: str = ""
    places: tuple[tuple[str, int, int], ...] = ()

    @property
    def other_pools(self) -> str:
        """Say where else it waits, or ""."""
        return "" if self.reason == "held" else describe_other_pools(self.pool, self.pools)

    def seen_in(self, pool: str) -> "QueueRow":
        """Return the row as it stands in the queue of one of its pools."""
        for name, position, of in self.places:
            if name == pool:
                return replace(self, pool=pool, position=position, of=of)
        return self if self.pool == pool else replace(self, pool=pool, position=None, of=None)

    @property
    def reason_text(self) -> str:
        """The first reason in the reader's language, with numbers if visible."""
        if self.reasons:
            return describe_wait(self.reasons[0])
        return str(SHORT_WORDS.get(self.reason, "")) or (_("waiting") if self.state == JobState.QUEUED else "")


@dataclass(frozen=True, kw_only=True)
class SliceView(RedactedRow):
    """A task's share of a card. milli: thousandths, as quota counts. state: of the task.

    task*: uuid. role*, rank*: within the job. activity*: percent of its share that it uses now, None if not known.
    """

    memory_mib: int
    compute_percent: int
    milli: int
    task: str = ""
    role: str = ""
    rank: int | None = None
    activity: float | None = None


@dataclass(frozen=True, kw_only=True)
class CardView:
    """A physical card with its slices, largest first. sellable_mib is 100 % of its bar. use: of the whole card now,
    whoever uses it.
    """

    uuid: str
    index: int
    node: str
    pool: str
    model: str
    product: str
    memory_mib: int
    sellable_mib: int
    shared: bool
    max_slices: int
    allows_mps: bool
    simulated: bool
    healthy: bool
    fault: str
    closed: bool
    enforcement: str
    evidence: str
    probed_at: datetime | None
    numa: int | None
    slices: tuple[SliceView, ...]
    use: CardUse | None = None

    @property
    def place(self) -> str:
        return show_place(self.index)

    @property
    def used_mib(self) -> int:
        return sum(part.memory_mib for part in self.slices)

    @property
    def used_percent(self) -> int:
        return sum(part.compute_percent for part in self.slices)

    @property
    def free_mib(self) -> int:
        return max(self.sellable_mib - self.used_mib, 0)

    @property
    def free_percent(self) -> int:
        return max(100 - self.used_percent, 0)


@dataclass(frozen=True, kw_only=True)
class NodeTaskView(RedactedRow):
    """A task on a node. gpu_milli: over its cards. Others as in SliceView."""

    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    task: str = ""
    role: str = ""
    rank: int | None = None


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """A node with its holders. maintenance: current and planned. use: of the machine itself, None if not known. at: the
    past moment that it shows, None for now.
    """

    node: Node
    cards: tuple[CardView, ...]
    tasks: tuple[NodeTaskView, ...]
    maintenance: tuple[Maintenance, ...] = ()
    use: NodeUse | None = None
    at: datetime | None = None

    @property
    def cpu_held_milli(self) -> int:
        return sum(task.cpu_milli for task in self.tasks)

    @property
    def memory_held_mib(self) -> int:
        return sum(task.memory_mib for task in self.tasks)


class InQueues(Protocol):
    @property
    def positions(self) -> Mapping[str, int | None]:
        """{pool: the position there}"""


Waits = TypeVar("Waits", bound=InQueues)


def list_queue_rows(user: User, pool: str | None = None) -> list[QueueRow]:
    """List everybody's queued jobs by pool, in starting order; at most MOST_ROWS."""
    order = ("pool__name", F("wait_position").asc(nulls_last=True), "-priority", "id")
    jobs = list(_jobs(pool).filter(state=JobState.QUEUED).order_by(*order)[:MOST_ROWS])
    rows = build_queue_rows(user, jobs)
    if pool:
        return [rows[job.pk].seen_in(pool) for job in sort_by_position(jobs, pool)]
    return sorted(rows.values(), key=lambda row: (row.pool, row.position is None, row.position or 0))


def load_queue_rows(user: User, job_ids: Collection[int]) -> dict[int, QueueRow]:
    """Return {job id: its row} of those that still wait."""
    return build_queue_rows(user, _jobs(None).filter(state=JobState.QUEUED, pk__in=job_ids))


def sort_by_position(jobs: Iterable[Waits], pool: str) -> list[Waits]:
    """Return those that wait in the pool, in its starting order."""
    there = [(positions[pool], job) for job in jobs if pool in (positions := job.positions)]
    return [job for _position, job in sorted(there, key=lambda one: (one[0] is None, one[0] or 0))]


def build_queue_rows(user: User, jobs: Iterable[Job]) -> dict[int, QueueRow]:
    """Return {job id: its row}, in the same order."""
    jobs, sight = list(jobs), team_ids_in_sight(user)
    told = load_forecasts([job for job in jobs if job.state == JobState.QUEUED])
    return {
        job.pk: _build_queue_row(user, job, sight is None or job.team_id in sight, told.get(job.pk)) for job in jobs
    }


def list_active_rows(user: User, pool: str | None = None, most: int = MOST_ROWS) -> list[QueueRow]:
    """List everybody's active jobs by pool, oldest first. most: rows."""
    active = _jobs(pool).filter(state__in=sorted(JOB_ACTIVE))
    return list(build_queue_rows(user, active.order_by("pool__name", "id")[:most]).values())


def count_active() -> Counter[str]:
    """Return how many jobs are active in each pool, by name."""
    rows = Job.objects.filter(state__in=sorted(JOB_ACTIVE)).order_by().values_list("pool__name")
    return Counter(dict(rows.annotate(jobs=Count("pk"))))


def load_gpu_slices(user: User, *, pool: str | None = None, node: str | None = None) -> list[CardView]:
    """List all cards with their holders, by node and index."""
    cards = Gpu.objects.present().select_related("node", "pool").order_by("node__name", "index")
    cards = cards.filter(pool__name=pool) if pool else cards
    found = list(cards.filter(node__name=node) if node else cards)
    held = list(Holding.objects.live().filter(gpu__in=found))
    return _build_cards(user, found, held, load_tasks_of(held))


def list_node_views(
    user: User, *, pool: str | None = None, name: str | None = None, only_cards: bool = False
) -> list[NodeView]:
    """List all nodes with cards and tasks. pool: its nodes, and those with a card of it. only_cards: without tasks."""
    nodes = filter_nodes(pool=pool or "")
    return view_nodes(user, nodes.filter(name=name) if name else nodes, only_cards=only_cards)


def filter_nodes(*, words: str = "", pool: str = "", state: str = "") -> QuerySet[Node]:
    """Return nodes by name. words: a part of the name. pool: its nodes, and those with a card of it."""
    nodes = Node.objects.present().select_related("pool").order_by("name")
    if pool:
        with_cards = Gpu.objects.present().filter(pool__name=pool).values("node")
        nodes = nodes.filter(Q(pool__name=pool) | Q(pk__in=with_cards))
    if words:
        nodes = nodes.filter(name__icontains=words)
    return nodes.filter(state=state) if state else nodes


def view_nodes(user: User, nodes: Iterable[Node], *, only_cards: bool = False) -> list[NodeView]:
    """Return nodes, which have their pools, with cards and tasks. only_cards: without tasks and use of the machines."""
    found = list(nodes)
    rows = Holding.objects.live().filter(node__in=found)
    held = list(rows.filter(gpu__isnull=False) if only_cards else rows)
    tasks_of = load_tasks_of(held)
    cards: dict[str, list[CardView]] = defaultdict(list)
    for card in _build_cards(user, _load_cards_of(found), [row for row in held if row.gpu_id], tasks_of):
        cards[card.node].append(card)
    tasks = _node_tasks(user, [] if only_cards else held, tasks_of)
    planned = load_maintenance(timezone.now())
    uses = {} if only_cards else load_node_uses(node.pk for node in found)
    return [
        NodeView(
            node=node,
            cards=tuple(cards[node.name]),
            tasks=tuple(tasks[node.pk]),
            maintenance=tuple(closed.maintenance for closed in planned if node.pk in closed.node_ids),
            use=uses.get(node.pk),
        )
        for node in found
    ]


def _load_cards_of(nodes: list[Node]) -> list[Gpu]:
    """Load the nodes' cards by index. They share rows of node and pool: thousands of copies would take most time."""
    node_of = {node.pk: node for node in nodes}
    cards = list(Gpu.objects.present().filter(node__in=nodes).prefetch_related("pool").order_by("index"))
    for card in cards:
        card.node = node_of[card.node_id]
    return cards


def team_ids_in_sight(user: User) -> set[int] | None:
    """Return the teams `user` sees in full, None = all; same rule as Job.objects.visible_to."""
    if user.is_authenticated and user.is_active:
        return None if user.sees_all else set(user.memberships.values_list("team_id", flat=True))
    return set()


def _jobs(pool: str | None) -> JobQuerySet:
    """Queued jobs without stop request, and active ones; without unused columns."""
    named = Job.objects.prefetch_related("team", "user", "pool")  # thousands of jobs share a few rows of these
    jobs = named.filter(Q(stop_requested_at__isnull=True) | Q(state__in=sorted(JOB_ACTIVE)))
    return (jobs.in_pool(pool) if pool else jobs).defer("spec", "labels")


def _build_queue_row(user: User, job: Job, full: bool, told: StoredForecast | None) -> QueueRow:
    request, sizes, waiting = job.request, job.sizes, job.state == JobState.QUEUED
    reasons = tuple(job.wait_reasons) if waiting else ()
    seen = {
        "reasons": reasons,
        "priority": job.priority,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "starts": describe_start(told),
    }
    return QueueRow(
        **describe_whose(user, job, job.state, full),
        pool=job.told_pool_name,
        pools=tuple(job.pool_names),
        places=tuple((place["name"], place["position"], place["of"]) for place in job.wait_places) if waiting else (),
        gpu=request["gpu"],
        tasks=sum(sizes.values()),
        asks=tuple((role["request"]["gpu"], sizes.get(role["role"], 0)) for role in job.gang),
        cpu_milli=request["cpu_milli"],
        memory_mib=request["memory_mib"],
        position=job.wait_position if waiting else None,
        of=job.wait_of if waiting else None,
        reason=(reasons[0]["code"] if reasons else UNEXPLAINED) if waiting else job.reason,
        as_of=job.explained_at if waiting else None,
        **(seen if full else {}),
    )


def _build_cards(user: User, cards: list[Gpu], held: list[Holding], tasks: dict[UUID, Task]) -> list[CardView]:
    sight = team_ids_in_sight(user)
    uses = load_task_uses(task.pk for task in tasks.values() if sight is None or task.job.team_id in sight)
    uuids: dict[int | None, str] = {card.pk: card.uuid for card in cards}
    slices: dict[int | None, list[SliceView]] = defaultdict(list)
    for row in held:
        task = tasks[row.task]
        full = sight is None or row.team_id in sight
        activity = _read_activity(uses.get(task.pk), uuids[row.gpu_id], row.gpu_compute_percent) if full else None
        slices[row.gpu_id].append(build_slice(user, row, task, task.state, full, activity=activity))
    now = load_card_uses(card.pk for card in cards)
    return [build_card(card, slices[card.pk], now.get(card.pk)) for card in cards]


def build_slice(user: User, row: Holding, task: Task, state: str, full: bool, **more: Any) -> SliceView:
    """more: fields that the row does not have."""
    return SliceView(
        **{**describe_whose(user, task.job, state, full), **more},
        memory_mib=row.gpu_memory_mib,
        compute_percent=row.gpu_compute_percent,
        milli=row.gpu_milli,
        **(_task_names(task) if full else {}),
    )


def _read_activity(use: TaskUse | None, uuid: str, compute_percent: int) -> float | None:
    """Return how much of its share of a card a task uses, in percent; None if that is not known."""
    share = use.shares.get(uuid) if use is not None else None
    if share is None or share.busy_percent is None or not compute_percent:
        return None
    return scale_to_share(share.busy_percent, compute_percent)


def build_card(card: Gpu, slices: Iterable[SliceView], use: CardUse | None) -> CardView:
    same = ("uuid", "index", "model", "product", "memory_mib", "sellable_mib", "simulated", "healthy")
    more = ("enforcement", "evidence", "probed_at", "numa")
    return CardView(
        **{name: getattr(card, name) for name in (*same, *more)},
        fault=card.why_out,
        closed=bool(card.closed),
        node=card.node.name,
        pool=card.pool.name,
        shared=card.shared,
        max_slices=card.max_slices,
        allows_mps=card.pool.allows_mps,
        slices=tuple(sorted(slices, key=lambda part: -part.memory_mib)),
        use=use,
    )


def _node_tasks(user: User, held: list[Holding], tasks: dict[UUID, Task]) -> dict[int, list[NodeTaskView]]:
    """Return {node id: tasks}, oldest first."""
    sight = team_ids_in_sight(user)
    rows: dict[tuple[int, UUID], list[Holding]] = defaultdict(list)
    for row in sorted(held, key=lambda row: row.pk):
        rows[row.node_id, row.task].append(row)
    views: dict[int, list[NodeTaskView]] = defaultdict(list)
    for (node_id, uuid), parts in rows.items():
        task = tasks[uuid]
        full = sight is None or task.job.team_id in sight
        views[node_id].append(
            NodeTaskView(
                **describe_whose(user, task.job, task.state, full),
                cpu_milli=sum(part.cpu_milli for part in parts),
                memory_mib=sum(part.memory_mib for part in parts),
                gpu_milli=sum(part.gpu_milli for part in parts),
                **(_task_names(task) if full else {}),
            )
        )
    return views


def load_tasks_of(held: Iterable[Holding]) -> dict[UUID, Task]:
    """Return the tasks that hold these, {uuid: task}, with what rows show of their jobs."""
    tasks = Task.objects.filter(uuid__in={row.task for row in held})
    return {task.uuid: task for task in tasks.select_related("job__team", "job__user").only(*SHOWN_OF_TASKS)}


def _task_names(task: Task) -> dict:
    return {"task": str(task.uuid), "role": task.role, "rank": task.rank}


def name_to_others(job: Job) -> dict[str, str]:
    """Return what people outside its team are told of whose a job is: the only place that shows or hides it."""
    names = {"team": job.team.name, "owner": job.user.username}
    return {name: names[name] for name in NAMED[settings.TESSERA_VISIBILITY]}


def describe_whose(user: User, job: Job, state: str, full: bool) -> dict:
    """Return the fields of RedactedRow."""
    public = {"full": full, "state": state, "expected_end_at": expected_end(job)}
    if not full:
        return {**public, **name_to_others(job)}
    names = {"team": job.team.name, "job_id": job.public_id, "name": job.name, "owner": job.user.username}
    return {**public, **names, "own": job.user_id == user.pk}


def expected_end(job: Job) -> datetime | None:
    """Return when a running job should end: by estimate, once passed by time limit."""
    if job.started_at is None or job.is_final:
        return None
    ends = (job.started_at + timedelta(seconds=s) for s in (job.time_s, job.max_time_s) if s)
    return next((end for end in ends if end > timezone.now()), None)
