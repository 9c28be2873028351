"""Write uses to the table that survives a crash: each quarter of an hour, and once their holding has ended."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common.steady_clock import steady_now
from monitoring.models import TaskUse, TaskUseNow
from monitoring.usage.moving import COLUMNS

KEEP_EVERY = timedelta(minutes=15)
BATCH = 2000


def keep_uses() -> int:
    """Keep what is due, and drop the newest state of holdings that ended; return how many were kept.

    A tick that comes later goes on from what was kept.
    """
    kept = 0
    while (some := _keep_batch()) == BATCH:
        kept += some
    return kept + some


@transaction.atomic
def _keep_batch() -> int:
    due = Q(holding__released_at__isnull=False) | Q(saved_at__lt=steady_now() - KEEP_EVERY)
    found = TaskUseNow.objects.filter(due).select_related("holding").order_by("pk")
    rows = list(found.select_for_update(of=("self",), skip_locked=True)[:BATCH])
    TaskUse.objects.bulk_create(
        [TaskUse(holding_id=row.pk, **{name: getattr(row, name) for name in COLUMNS}) for row in rows],
        update_conflicts=True,
        unique_fields=["holding"],
        update_fields=COLUMNS,
    )
    ended = [row.pk for row in rows if row.holding.released_at is not None]
    TaskUseNow.objects.filter(pk__in=ended).delete()
    TaskUseNow.objects.filter(pk__in=[row.pk for row in rows]).update(saved_at=Now())
    return len(rows)
