"""What a waiting job is told: why it waits, and where it stands in the queue of each of its pools."""

from itertools import pairwise
from math import inf

import numpy as np

from scheduler.core.model.types import QueuePlace, WaitingJob
from scheduler.core.queueing.cycle_context import Cycle

Standing = tuple[WaitingJob, QueuePlace, bool]
"""A record, where it stands in its pool's queue, and whether it waits for something other than capacity."""


def tell_queue_positions(cycle: Cycle, line: list[WaitingJob]) -> None:
    """Number each pool's waiting jobs: the line for capacity first, then blocked ones.

    Of a job that waits in several pools tell what holds in the one where it is to start first: where room is being
    made for it, else where it has the earliest reservation, else where clearly fewer are ahead, else the one that it
    prefers.
    """
    jobs = [*line, *cycle.blocked]
    if not jobs:
        return
    columns = cycle.job_rows.columns_of(jobs)
    number, choice, pool = columns.number, columns.choice, columns.pool
    position, length = _number_within(pool), np.bincount(pool)[pool]
    ahead = np.frexp(position)[1]  # about how many
    blocked = np.arange(len(jobs)) >= len(line)
    order = np.lexsort((position, choice, ahead, blocked, number))
    records = [jobs[at] for at in order.tolist()]
    places = list(zip(*(column[order].tolist() for column in (pool, position, length)), strict=True))
    standings = list(zip(records, places, blocked[order].tolist(), strict=True))
    first = np.flatnonzero(np.diff(number[order], prepend=-1))
    _tell_each(cycle, [standings[a:b] for a, b in pairwise((*first.tolist(), len(jobs)))])


def _tell_each(cycle: Cycle, jobs: list[list[Standing]]) -> None:
    plan = cycle.plan
    reserved = {(kept.job, kept.placement.choice): kept.at for kept in cycle.reservation_plan.reservations}
    served = {job for job, _ in reserved} | cycle.making_room_for

    def order(standing: Standing) -> tuple[bool, bool, float]:
        record, _, blocked = standing
        return not cycle.makes_room_for(record), blocked, reserved.get((record.job, record.choice), inf)

    for standings in jobs:
        number = standings[0][0].job
        if number in served:
            standings.sort(key=order)
        record, place, _ = standings[0]
        plan.refusals[number], plan.positions[number] = cycle.refusals_of(record), place[1:]
        if record.choice >= 0:
            plan.places[number] = [place for _, place, _ in standings]


def _number_within(groups: np.ndarray) -> np.ndarray:
    """Number the members of each group from 1, in order."""
    order = groups.argsort(kind="stable")
    ranked, number = groups[order], np.empty_like(groups)
    number[order] = np.arange(1, len(groups) + 1) - ranked.searchsorted(ranked)
    return number
