"""B2: gang jobs on 64 cards as in the simulator of Muri (SIGCOMM'22, `simulator/run_sim.py`).

A reference replay, which proves only itself: at every event all jobs are placed again from an empty cluster in the
order of what is left of them, whoever ran before, and each that runs loses its overhead again. No scheduler that keeps
its word to a running job can be said that way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from scheduler.simulation.traces import MuriJob

NODES, NODE_CARDS = 8, 8

Order = Callable[[float, int], float]
"""Of the seconds left of a job and its cards; the smallest goes first, of equals who was before the other so far."""

ORDERS: dict[str, Order] = {"srtf": lambda left_s, gpus: left_s, "srsf": lambda left_s, gpus: left_s * gpus}


@dataclass
class Stay:
    """One job in the cluster: what of its work is left, and whether it runs."""

    job: MuriJob
    left_s: float
    runs: bool = False


def replay(jobs: Sequence[MuriJob], order: Order) -> dict[int, float]:
    """{row: when it ends}. jobs: by submit time."""
    ends: dict[int, float] = {}
    stays: list[Stay] = []
    arrived, now = 0, 0.0
    while arrived < len(jobs) or stays:
        first_end = min((now + stay.left_s for stay in stays if stay.runs), default=inf)
        at = min(first_end, jobs[arrived].submit_s if arrived < len(jobs) else inf)
        for stay in [stay for stay in stays if stay.runs and now + stay.left_s <= at]:
            ends[stay.job.row] = at
            stays.remove(stay)
        for stay in stays:
            if stay.runs:
                stay.left_s -= max(at - now - stay.job.overhead_s, 0.0)
        now = at
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            stays.append(Stay(jobs[arrived], jobs[arrived].work_s))
            arrived += 1
        stays.sort(key=lambda stay: order(stay.left_s, stay.job.gpus))
        place_all(stays)
    return ends


def place_all(stays: Sequence[Stay]) -> None:
    """From an empty cluster: up to 8 cards go to the first node that has them, more take idle nodes."""
    free, left = [NODE_CARDS] * NODES, NODES * NODE_CARDS
    for stay in stays:
        stay.runs = left >= stay.job.gpus and _take(free, stay.job.gpus)
        left -= stay.job.gpus if stay.runs else 0


def _take(free: list[int], gpus: int) -> bool:
    least = min(gpus, NODE_CARDS)
    nodes = [node for node, cards in enumerate(free) if cards >= least]
    needed = -(-gpus // NODE_CARDS)
    if len(nodes) < needed:
        return False
    for node in nodes[:needed]:
        free[node] -= min(gpus, NODE_CARDS)
        gpus -= NODE_CARDS
    return True
