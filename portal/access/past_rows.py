"""Who held cards and who waited in the past, with the fields of other teams' work left empty."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from accounts.models import User
from cluster.maintenance import load_maintenance
from cluster.models import Gpu
from jobs.models import Job, Task
from jobs.states import JobState
from monitoring.replay.held import load_held_cards, load_task_states
from monitoring.replay.machines import load_machines
from monitoring.replay.waiting import FoundWait, Wait, load_waits
from portal.access.redacted_rows import (
    CardView,
    NodeView,
    RedactedRow,
    SliceView,
    build_card,
    build_slice,
    describe_whose,
    load_tasks_of,
    team_ids_in_sight,
)
from quotas.models import Holding

MOST_ROWS = 200


@dataclass(frozen=True, kw_only=True)
class PastSlice(RedactedRow):
    """A share of a card that was held for a time; until: None for what still is."""

    milli: int
    memory_mib: int
    since: datetime
    until: datetime | None


@dataclass(frozen=True, kw_only=True)
class PastWait(RedactedRow):
    """A job that waited. pools: all where it did. asks: (gpu, tasks) of each role. held: by a person.

    since*. priority*: as it is now, or was at its end.
    """

    pools: tuple[str, ...]
    asks: tuple[tuple[str, int], ...]
    held: bool
    since: datetime | None = None
    priority: int | None = None


def list_past_slices(user: User, gpu: Gpu, since: datetime) -> list[PastSlice]:
    """List who has held a card since then, the newest first; at most MOST_ROWS."""
    held = Holding.objects.filter(Q(released_at__isnull=True) | Q(released_at__gt=since), gpu=gpu)
    rows = list(held.order_by("-held_from", "-pk")[:MOST_ROWS])
    tasks = {
        task.uuid: task
        for task in Task.objects.filter(uuid__in={row.task for row in rows}).select_related("job__team", "job__user")
    }
    sight = team_ids_in_sight(user)
    return [
        PastSlice(
            **describe_whose(user, tasks[row.task].job, tasks[row.task].state, sight is None or row.team_id in sight),
            milli=row.gpu_milli,
            memory_mib=row.gpu_memory_mib,
            since=row.held_from,
            until=row.released_at,
        )
        for row in rows
        if row.task in tasks
    ]


def list_past_nodes(user: User, at: datetime, name: str = "") -> list[NodeView]:
    """List the machines of a moment, or one of that name, with their cards and who held these."""
    nodes, cards = load_machines(at, name)
    slices = _load_slices(user, at, [node.pk for node in nodes])
    views: dict[int, list[CardView]] = defaultdict(list)
    for card in cards:
        views[card.node_id].append(build_card(card, slices.get(card.pk, ()), None))
    closed = [one for one in load_maintenance(at) if one.maintenance.begins_at <= at]
    return [
        NodeView(
            node=node,
            cards=tuple(views[node.pk]),
            tasks=(),
            maintenance=tuple(one.maintenance for one in closed if node.pk in one.node_ids),
            at=at,
        )
        for node in nodes
    ]


def list_past_waits(user: User, found: Sequence[FoundWait]) -> list[PastWait]:
    """Return rows of everybody's jobs that `find_waits` found."""
    sight = team_ids_in_sight(user)
    return [_build_wait(user, wait, sight is None or wait.job.team_id in sight) for wait in load_waits(found)]


def _load_slices(user: User, at: datetime, node_ids: list[int]) -> Mapping[int, list[SliceView]]:
    """Return what was held of each card, {id: slices}."""
    held = load_held_cards(at, node_ids)
    sight, tasks = team_ids_in_sight(user), load_tasks_of(held)
    states = load_task_states(tasks.values(), at)
    slices: dict[int, list[SliceView]] = defaultdict(list)
    for row in held:
        if (task := tasks.get(row.task)) is not None and row.gpu_id is not None:
            full = sight is None or row.team_id in sight
            slices[row.gpu_id].append(build_slice(user, row, task, states[task.pk], full, expected_end_at=None))
    return slices


def _build_wait(user: User, wait: Wait, full: bool) -> PastWait:
    job: Job = wait.job
    seen = {"since": wait.since, "priority": job.priority} if full else {}
    whose = {**describe_whose(user, job, JobState.QUEUED, full), "expected_end_at": None}
    return PastWait(**whose, pools=wait.pools, asks=wait.asks, held=wait.held, **seen)
