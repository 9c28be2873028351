"""Writes of pool policies and lending windows."""

from cluster.models import Pool, Window
from events.bus import hint, ring_pool

SHARING = (
    "shared",
    "max_slices_per_gpu",
    "cpu_overcommit_percent",
    "accepts_watched_only",
    "allows_mps",
    "default_max_time_s",
)
WAITING = ("ageing_s", "reservations", "preempt", "short_first", "stop_longer", "most_stops", "max_grace_s")
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


def save_pool(pool: Pool) -> None:
    pool.save()
    ring_pool(pool.pk)
    hint("cycle")


def save_window(window: Window) -> None:
    window.save()
    hint("cycle")


def delete_window(window: Window) -> None:
    window.delete()
    hint("cycle")
