"""Machines in maintenance: who is stopped when it begins, which are closed now, and what to say to those that wait.

That nothing is placed which would not end before is the future's doing: a maintenance keeps its machines, whole, as a
reservation does (`future.Future`).
"""

from collections.abc import Iterable

import numpy as np

from scheduler.core.context import Cycle
from scheduler.core.future import Reservation
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Closing, Eviction, Refusal, Running


def clear_machines(cycle: Cycle) -> None:
    """Stop what may be stopped on machines whose maintenance has begun, where it says so."""
    for job in to_clear(cycle.snapshot.closings, cycle.snapshot.running, cycle.now):
        if job.job not in cycle.leaving:
            cycle.plan.evictions.append(Eviction(job.job, "maintenance"))
            cycle.after.snapshot.leave(job)
            cycle.leaving.add(job.job)


def to_clear(closings: Iterable[Closing], running: Iterable[Running], now: float) -> list[Running]:
    """Who may be stopped on machines whose maintenance says so and lasts now."""
    begun = (closing for closing in closings if closing.stops and closing.at <= now < closing.ends_at)
    nodes = {node for closing in begun for node in closing.nodes}
    if not nodes:
        return []
    return [job for job in running if job.preemptible and any(task.node in nodes for task in job.tasks)]


def closed_machines(snapshot: Snapshot, now: float) -> np.ndarray:
    """Which machines are in maintenance now: bool [N]."""
    closed = np.zeros(len(snapshot.nodes), dtype=bool)
    for closing in snapshot.closings:
        if closing.at <= now < closing.ends_at:
            closed[list(closing.nodes)] = True
    return closed


def is_maintenance_to_come(refusal: Refusal) -> bool:
    """A job that ends by its `at` is not in its way."""
    return refusal.reason == "maintenance" and "at" in refusal.params


def maintenance_refusal(snapshot: Snapshot, closings: list[Reservation], now: float) -> Refusal:
    """Why a job does not start that would fit but for these: the first of them. at: only where it is to come."""
    first = closings[0]
    names = [snapshot.node_name(task.node) for task in first.placement.tasks]
    params = {"until": first.ends_at, "nodes": names[:1], "n": len(names)}
    return Refusal("maintenance", params | {"at": first.at} if first.at > now else params)
