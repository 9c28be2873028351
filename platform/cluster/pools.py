"""What an admin says of pools: the policy of each, and when one lends its cards. Whoever waits is looked at anew."""

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
"""What an admin may change of a pool, besides its description: how it shares its cards, how its jobs wait, and how it
places them."""


def save_pool(pool: Pool) -> None:
    """Store a pool whose fields have been validated."""
    pool.save()
    ring_pool(pool.pk)
    hint("cycle")


def save_window(window: Window) -> None:
    """Store a window whose fields have been validated."""
    window.save()
    hint("cycle")


def delete_window(window: Window) -> None:
    """From now on the cards are lent no more. Preemptible jobs on them leave when the owners need them."""
    window.delete()
    hint("cycle")
