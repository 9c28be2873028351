"""Which cards a job may use: those of its own pool, and for a while those that other pools lend to it.

A lent card takes whoever ends before its window does, or may be stopped then; jobs of the pool that lends it use it as
ever. A reach says which cards a job may use, as a bit mask: OWN for those of its pool, and one bit for each window of
the snapshot, which means something only while that window is open (`Snapshot.turn_to`).
"""

from collections.abc import Iterable, Iterator

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Waiting, Window

OWN = 1


def reach_at(snapshot: Snapshot, job: Waiting, at: float) -> int:
    """The job's reach if it starts at this time."""
    return _reach(
        index
        for index, window in _windows_to(snapshot, job)
        if window.begins_at <= at < min(window.ends_at, window.last_start) and _in_time(job, window, at)
    )


def reach_at_times(snapshot: Snapshot, job: Waiting) -> int:
    """All windows that would take the job if it started when they begin."""
    return _reach(index for index, window in _windows_to(snapshot, job) if _in_time(job, window, window.begins_at))


def windows_in(reach: int) -> list[int]:
    """The windows of a reach, ascending."""
    return [bit - 1 for bit in range(1, reach.bit_length()) if reach >> bit & 1]


def lent_kinds(snapshot: Snapshot, reach: int) -> int:
    """Bit mask of the kinds of cards that the windows of a reach lend."""
    kinds = 0
    for window in windows_in(reach):
        kinds |= snapshot.window_kinds[window]
    return kinds


def lent_to(snapshot: Snapshot) -> list[int]:
    """[G] the pool to which a card is lent now, -1: none."""
    pools = [window.to for window in snapshot.windows]
    return [pools[window] if window >= 0 else -1 for window in snapshot.gpu_window.tolist()]


def times_of_change(snapshot: Snapshot) -> set[float]:
    """When other cards than before can be used though nobody ended: windows and closings begin and end."""
    spans = [(window.begins_at, window.ends_at) for window in snapshot.windows]
    spans += [(closing.at, closing.ends_at) for closing in snapshot.closings]
    return {at for span in spans for at in span}


def _windows_to(snapshot: Snapshot, job: Waiting) -> Iterator[tuple[int, Window]]:
    return ((index, window) for index, window in enumerate(snapshot.windows) if window.to == job.pool)


def _in_time(job: Waiting, window: Window, at: float) -> bool:
    return job.preemptible or at + job.time_s <= window.ends_at


def _reach(windows: Iterable[int]) -> int:
    reach = OWN
    for window in windows:
        reach |= 2 << window
    return reach
