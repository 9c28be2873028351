"""What an admin says of pools: the policy of each, and when one lends its cards. Whoever waits is looked at anew."""

from cluster.models import Pool, Window
from events.bus import hint, ring_pool


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
