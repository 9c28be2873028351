"""Cards a job may use: its pool's own, and lent ones.

Lent cards take jobs that end within the window or are preemptible. A reach (see `requests`) says which a job may use.
"""

from collections.abc import Iterable, Iterator

from scheduler.core.model.requests import OWN_POOL
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import LendingWindow, WaitingJob


def find_reach_at(snapshot: Snapshot, job: WaitingJob, at: float) -> int:
    """Return the job's reach if it starts then."""
    return _build_reach(
        index
        for index, window in _windows_lent_to(snapshot, job)
        if window.begins_at <= at < min(window.ends_at, window.last_start) and _fits_window(job, window, at)
    )


def find_reach_over_windows(snapshot: Snapshot, job: WaitingJob) -> int:
    """Return the reach over all windows in which the job could start."""
    return _build_reach(
        index for index, window in _windows_lent_to(snapshot, job) if _fits_window(job, window, window.begins_at)
    )


def list_borrowing_pools(snapshot: Snapshot) -> list[int]:
    """Return [G] the pool each card is lent to now, -1: none."""
    pools = [window.to for window in snapshot.windows]
    return [pools[window] if window >= 0 else -1 for window in snapshot.gpu_window.tolist()]


def list_window_edges(snapshot: Snapshot) -> set[float]:
    spans = [(window.begins_at, window.ends_at) for window in snapshot.windows]
    spans += [(closing.at, closing.ends_at) for closing in snapshot.closings]
    return {at for span in spans for at in span}


def _windows_lent_to(snapshot: Snapshot, job: WaitingJob) -> Iterator[tuple[int, LendingWindow]]:
    return ((index, window) for index, window in enumerate(snapshot.windows) if window.to == job.pool)


def _fits_window(job: WaitingJob, window: LendingWindow, at: float) -> bool:
    return job.preemptible or at + job.cautious_s <= window.ends_at


def _build_reach(windows: Iterable[int]) -> int:
    reach = OWN_POOL
    for window in windows:
        reach |= 2 << window
    return reach
