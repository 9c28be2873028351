"""Replay of Muri's simulator (SIGCOMM'22): gang jobs on 64 cards, all placed anew at every event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from bench.replays.gang_traces import MuriJob

NODES, NODE_CARDS = 8, 8

MuriOrder = Callable[[float, int], float]
"""Sort key from seconds left and cards; ties keep their order."""

ORDERS: dict[str, MuriOrder] = {"srtf": lambda left_s, gpus: left_s, "srsf": lambda left_s, gpus: left_s * gpus}


@dataclass
class ReplayedJob:
    """A job, its remaining work, and whether it runs."""

    job: MuriJob
    left_s: float
    runs: bool = False


def replay_muri(jobs: Sequence[MuriJob], order: MuriOrder) -> dict[int, float]:
    """Return {row: end}. jobs: by submit time."""
    ends: dict[int, float] = {}
    stays: list[ReplayedJob] = []
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
            stays.append(ReplayedJob(jobs[arrived], jobs[arrived].work_s))
            arrived += 1
        stays.sort(key=lambda stay: order(stay.left_s, stay.job.gpus))
        place_all(stays)
    return ends


def place_all(stays: Sequence[ReplayedJob]) -> None:
    """Place from an empty cluster: up to 8 cards on the first node with room, more on idle nodes."""
    free, left = [NODE_CARDS] * NODES, NODES * NODE_CARDS
    for stay in stays:
        stay.runs = left >= stay.job.gpus and _allocate(free, stay.job.gpus)
        left -= stay.job.gpus if stay.runs else 0


def _allocate(free: list[int], gpus: int) -> bool:
    least = min(gpus, NODE_CARDS)
    nodes = [node for node, cards in enumerate(free) if cards >= least]
    needed = -(-gpus // NODE_CARDS)
    if len(nodes) < needed:
        return False
    for node in nodes[:needed]:
        free[node] -= min(gpus, NODE_CARDS)
        gpus -= NODE_CARDS
    return True
