"""Change pools and lending windows, with an event for each change."""

from django.db import IntegrityError, transaction

from cluster.models import Pool, Window
from common.errors import NameTaken, NotFound
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
    "batch_is_preemptible",
    "preempt",
    "high_priority",
    "high_gpu_hours",
    "short_first",
    "longest_s",
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


def find_pool(name: str) -> Pool:
    """Raises NotFound."""
    pool = Pool.objects.filter(name=name).first()
    if pool is None:
        raise NotFound(kind="pool", id=name)
    return pool


def find_window(pk: int) -> Window:
    """Raises NotFound."""
    window = Window.objects.filter(pk=pk).select_related("lender", "borrower").first()
    if window is None:
        raise NotFound(kind="window", id=str(pk))
    return window


@transaction.atomic
def save_pool(*, actor: Actor, pool: Pool) -> Pool:
    """Store a new or changed pool. Callers have checked the permission pool.change. Raises NameTaken."""
    before = next(iter(lock_rows(Pool.objects.filter(pk=pool.pk))), None)
    try:
        with transaction.atomic():
            pool.save()
    except IntegrityError:
        raise NameTaken(name=pool.name) from None
    record_change(pool, before, ("description", *POLICY), "pool.changed" if before else "pool.made", actor=actor)
    publish_pool(pool.pk)
    hint("cycle")
    return pool


@transaction.atomic
def save_window(*, actor: Actor, window: Window) -> Window:
    """Store a new or changed lending window. Callers have checked the permission pool.change."""
    before = next(iter(lock_rows(Window.objects.filter(pk=window.pk))), None)
    window.save()
    record_change(window, before, WINDOW, "window.changed" if before else "window.made", actor=actor)
    hint("cycle")
    return window


@transaction.atomic
def delete_window(*, actor: Actor, window: Window) -> None:
    """Delete a lending window. Callers have checked the permission pool.change."""
    record(window, "window.deleted", actor=actor, params={"from": {n: getattr(window, n) for n in WINDOW}, "to": {}})
    window.delete()
    hint("cycle")
