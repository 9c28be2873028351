"""Export what happened, from the database: one line after another, with a bounded number of jobs in memory."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from json import dumps, loads
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from accounts.models import Team, User
from cluster.maintenance import list_machines_of_pools
from cluster.models import Gpu, Maintenance, Node, Pool, Window
from events.models import Event
from jobs.models import Job, Task
from jobs.states import JOB_FINAL, JobState
from monitoring.history.file_format import VERSION, Header, TeamLine, UsualLine
from monitoring.history.jobs import JobRows, describe_job
from monitoring.history.names import Names
from monitoring.history.settings import (
    describe_limits,
    describe_machines,
    describe_maintenances,
    describe_pools,
    describe_quotas,
    describe_windows,
)
from quotas.models import Holding, Quota, UserLimit

MOST_DAYS = 365
PAGE = 200
"""Jobs that are in memory at once."""
USUAL, LENGTHS = 6000, 200
"""How many of the newest jobs before the beginning placement and expected lengths had learnt from."""


def export_history(now: datetime, days: int, *, anonymous: bool = False) -> Iterator[Any]:
    """Yield the lines of the file, of the last days until now, all of one moment of the database."""
    begins = now - timedelta(days=days)
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost:
            _read_one_moment()
        names = Names(
            dict(Team.objects.values_list("pk", "name")),
            dict(User.objects.values_list("pk", "username")),
            dict(Node.objects.values_list("pk", "name")),
            anonymous,
        )
        yield Header(VERSION, begins.timestamp(), now.timestamp(), anonymous)
        yield from _export_cluster(begins, now, names)
        yield from _export_jobs(begins, now, names)


def _read_one_moment() -> None:
    """Let all statements of the transaction see the same moment. The first statement of it."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _export_cluster(begins: datetime, now: datetime, names: Names) -> Iterator[Any]:
    pools = list(Pool.objects.order_by("pk"))
    named = [pool.name for pool in pools]
    found = [
        describe_pools(pools, _events("pool", begins), {pool.pk: _load_lengths(pool.pk, begins) for pool in pools}),
        ([TeamLine(names.team(t.pk), names.team(t.parent_id)) for t in Team.objects.order_by("pk")], []),
        _describe_machines(begins, names),
        describe_windows(Window.objects.select_related("lender", "borrower"), _events("window", begins), named),
        (_describe_maintenances(begins, now, names), []),
        describe_quotas(Quota.objects.select_related("pool"), _events("quota", begins), names, named),
        describe_limits(UserLimit.objects.all(), _events("user_limit", begins), names),
        (_load_usual(begins), []),
    ]
    changes = []
    for lines, later in found:
        yield from lines
        changes += later
    yield from sorted((change for change in changes if change.at <= now.timestamp()), key=lambda change: change.at)


def _events(kind: str, begins: datetime) -> list[Event]:
    return list(Event.objects.filter(kind=kind, at__gte=begins).order_by("pk"))


def _describe_machines(begins: datetime, names: Names) -> Any:
    there = Q(removed_at__isnull=True) | Q(removed_at__gt=begins)
    nodes = list(Node.objects.filter(there).select_related("pool").defer("facts", "topology", "numa").order_by("pk"))
    cards: dict[int, dict[int, Gpu]] = defaultdict(dict)
    for card in Gpu.objects.filter(there, node__in=nodes).select_related("pool").order_by("-removed_at", "pk"):
        cards[card.node_id][card.index] = card  # of several that had this place, the one that is there
    ordered = {pk: [of_index[index] for index in sorted(of_index)] for pk, of_index in cards.items()}
    return describe_machines(nodes, ordered, _events("node", begins), names)


def _describe_maintenances(begins: datetime, now: datetime, names: Names) -> list:
    rows = list(Maintenance.objects.filter(ends_at__gt=begins).prefetch_related("nodes").order_by("begins_at"))
    of_pool = list_machines_of_pools(row.pool_id for row in rows)
    machines = [{node.pk for node in row.nodes.all()} | of_pool.get(row.pool_id or 0, set()) for row in rows]
    planned = list(Event.objects.filter(kind="node", verb="node.maintenance_planned").order_by("pk"))
    lines = describe_maintenances(zip(rows, machines, strict=True), planned, begins.timestamp(), names)
    return [line for line in lines if line.known_at <= now.timestamp()]


def _load_lengths(pool_id: int, begins: datetime) -> list[float]:
    alike = Job.objects.filter(pool=pool_id, time_s__isnull=True, max_time_s__isnull=True, started_at__isnull=False)
    ended = alike.filter(state__in=(JobState.SUCCEEDED, JobState.FAILED), ended_at__lt=begins)
    times = ended.order_by("-pk").values_list("started_at", "ended_at")[:LENGTHS]
    return [(end - start).total_seconds() for start, end in times if start and end]


def _load_usual(begins: datetime) -> list[UsualLine]:
    gangs = Job.objects.filter(submitted_at__lt=begins).order_by("-pk").values_list("gang", flat=True)[:USUAL]
    counts = Counter(dumps(gang, sort_keys=True) for gang in gangs)
    return [UsualLine(loads(gang), jobs) for gang, jobs in counts.items()]


def _export_jobs(begins: datetime, now: datetime, names: Names) -> Iterator[Any]:
    """Yield the jobs that were not over at the beginning, by their numbers, page by page."""
    card_index = dict(Gpu.objects.values_list("pk", "index"))
    wanted = Job.objects.filter(submitted_at__lte=now).filter(~Q(state__in=JOB_FINAL) | Q(ended_at__gte=begins))
    last = 0
    while page := list(wanted.filter(pk__gt=last).with_names().defer("labels", "wait_reasons").order_by("pk")[:PAGE]):
        last = page[-1].pk
        for rows in _load_rows(page):
            yield describe_job(rows, names, card_index)


def _load_rows(page: list[Job]) -> list[JobRows]:
    tasks: dict[int, list[Task]] = defaultdict(list)
    for task in Task.objects.filter(job__in=page).order_by("attempt", "role", "rank"):
        tasks[task.job_id].append(task)
    held: dict[str, list[Holding]] = defaultdict(list)
    uuids = [task.uuid for some in tasks.values() for task in some]
    for row in Holding.objects.filter(task__in=uuids).select_related("pool").order_by("pk"):
        held[str(row.task)].append(row)
    events: dict[int, list[Event]] = defaultdict(list)
    for event in Event.objects.filter(kind=Job.KIND, object_id__in=[job.pk for job in page]).order_by("seq"):
        events[event.object_id].append(event)
    return [
        JobRows(job, tasks[job.pk], {str(t.uuid): held[str(t.uuid)] for t in tasks[job.pk]}, events[job.pk])
        for job in page
    ]
