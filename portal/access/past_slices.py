"""Who held a card and when, with the fields of other teams' work left empty."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from accounts.models import User
from cluster.models import Gpu
from jobs.models import Task
from portal.access.redacted_rows import RedactedRow, describe_whose, team_ids_in_sight
from quotas.models import Holding

MOST_ROWS = 200


@dataclass(frozen=True, kw_only=True)
class PastSlice(RedactedRow):
    """A share of a card that was held for a time; until: None for what still is."""

    milli: int
    memory_mib: int
    since: datetime
    until: datetime | None


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
