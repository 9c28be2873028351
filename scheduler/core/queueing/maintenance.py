"""Maintenance of nodes: who is to stop, and why who waits; `ReservationPlan` reserves the nodes."""

from collections.abc import Iterable
from math import inf

import numpy as np

from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Refusal, RunningJob, WaitingJob
from scheduler.core.queueing.reservations import Reservation


def list_maintenance_evictions(snapshot: Snapshot, running: Iterable[RunningJob], now: float) -> list[RunningJob]:
    """Return the jobs to stop now, for maintenance or because their node is drained."""
    begun = (closing for closing in snapshot.closings if closing.stops and closing.at <= now < closing.ends_at)
    nodes = {*snapshot.draining, *(node for closing in begun for node in closing.nodes)}
    if not nodes:
        return []
    return [job for job in running if job.preemptible and any(task.node in nodes for task in job.tasks)]


def find_nodes_in_maintenance(snapshot: Snapshot, now: float) -> np.ndarray:
    """Return the nodes in maintenance: bool [N]."""
    closed = np.zeros(len(snapshot.nodes), dtype=bool)
    for closing in snapshot.closings:
        if closing.at <= now < closing.ends_at:
            closed[list(closing.nodes)] = True
    return closed


def is_upcoming_maintenance(refusal: Refusal) -> bool:
    return refusal.reason == "maintenance" and "at" in refusal.params


def build_maintenance_refusal(snapshot: Snapshot, job: WaitingJob, closings: list[Reservation], now: float) -> Refusal:
    """Return the refusal for the first of these; with `at` if still to come.

    taken_s: how long it is taken to last, if that is not as it says; predicted: if past jobs tell so.
    """
    first = closings[0]
    names = [snapshot.node_name(task.node) for task in first.placement.tasks]
    params: dict[str, object] = {"until": first.ends_at, "nodes": names[:1], "n": len(names)}
    if first.at <= now:
        return Refusal("maintenance", params)
    params["at"] = first.at
    if job.latest_s < inf:
        params |= {"taken_s": job.latest_s, "predicted": True}
    elif job.time_s == inf and snapshot.expected_s:
        params["taken_s"] = snapshot.expected_s[job.pool]
    return Refusal("maintenance", params)
