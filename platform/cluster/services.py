"""Change pools and lending windows, with an event for each change."""

from django.db import transaction

from cluster.models import Pool, Window
from common.locks import lock_rows
from events.record_and_publish import Actor, hint, publish_pool, record, record_change

SHARING = (
    "shared",
    "max_slices_per_gpu",
    "cpu_overcommit_percent",
    "accepts_watched_only",
    "allows_mps",
    "default_max_time_s",
)
WAITING = (
    "ageing_s",
    "reservations",
    "preempt",
    "high_priority",
    "high_gpu_hours",
    "short_first",
    "stop_longer",
    "most_stops",
    "max_grace_s",
)
PLACING = (
    "arrangement",
    "weight_useful",
    "weight_data",
    "weight_whole",
    "weight_full_cards",
    "weight_links",
    "weight_full_nodes",
)
POLICY = (*SHARING, *WAITING, *PLACING)
"""The fields of a pool that an admin may change, besides its description."""


WINDOW = ("lender_name", "borrower_name", "weekdays", "opens", "closes", "zone", "holidays")


@transaction.atomic
def save_pool(*, actor: Actor, pool: Pool) -> None:
    """Store a new or changed pool. Callers have checked the permission pool.change."""
    before = next(iter(lock_rows(Pool.objects.filter(pk=pool.pk))), None)
    pool.save()
    record_change(pool, before, ("description", *POLICY), "pool.changed" if before else "pool.made", actor=actor)
    publish_pool(pool.pk)
    hint("cycle")


@transaction.atomic
def save_window(*, actor: Actor, window: Window) -> None:
    """Store a new or changed lending window. Callers have checked the permission pool.change."""
    before = next(iter(lock_rows(Window.objects.filter(pk=window.pk))), None)
    window.save()
    record_change(window, before, WINDOW, "window.changed" if before else "window.made", actor=actor)
    hint("cycle")


@transaction.atomic
def delete_window(*, actor: Actor, window: Window) -> None:
    """Delete a lending window. Callers have checked the permission pool.change."""
    record(window, "window.deleted", actor=actor, params={"from": {n: getattr(window, n) for n in WINDOW}, "to": {}})
    window.delete()
    hint("cycle")
