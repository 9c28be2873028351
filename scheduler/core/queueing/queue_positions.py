"""What a waiting job is told: why it waits, and where it stands in the queue of each of its pools."""

from itertools import compress, pairwise
from math import inf, isfinite
from operator import itemgetter

import numpy as np

from scheduler.core.model.types import Refusal
from scheduler.core.queueing.cycle_context import Cycle
from scheduler.core.queueing.reservations import Reservation


def tell_queue_positions(cycle: Cycle) -> None:
    """Number each pool's waiting jobs: the line for capacity first, then blocked ones.

    Of a job that waits in several pools tell what holds in the one where it is to start first: where room is being
    made for it, else where it has the earliest reservation, else where clearly fewer are ahead, else the one that it
    prefers.
    """
    waiting, plan = cycle.waiting, cycle.plan
    if not len(waiting.rows):
        return
    number, choice, pool = itemgetter("number", "choice", "pool")(cycle.job_rows.integers_at(waiting.rows))
    position, length = _number_within(pool), np.bincount(pool)[pool]
    about = np.frexp(position)[1]  # how many are ahead
    blocked = np.arange(len(number)) >= waiting.in_line
    no_room_made, reserved_at = _find_served(cycle, number, choice)
    order = np.lexsort((position, choice, about, reserved_at, blocked, no_room_made, number))
    first = np.flatnonzero(np.diff(number[order], prepend=-1))
    told = order[first]
    jobs, begins = number[told].tolist(), first.tolist()
    places = list(zip(*(column[order].tolist() for column in (pool, position, length)), strict=True))
    plan.positions.update((job, places[at][1:]) for job, at in zip(jobs, begins, strict=True))
    of_each = zip(jobs, pairwise((*begins, len(places))), strict=True)
    plan.places.update((job, places[a:b]) for job, (a, b) in compress(of_each, (choice[told] >= 0).tolist()))

    for job, why, n in zip(jobs, waiting.why[told].tolist(), waiting.ahead[told].tolist(), strict=True):
        reasons = waiting.reasons[why]
        plan.refusals[job] = [Refusal("ahead_in_queue", {"n": n}), *reasons] if n else reasons
    for at in told[~no_room_made[told]].tolist():
        job = int(number[at])
        plan.refusals[job] = [cycle.making_room[job, int(choice[at])], *plan.refusals[job]]
    draining = {(kept.job, kept.placement.choice): kept for kept in cycle.reservation_plan.reservations if kept.drains}
    for at in told[no_room_made[told] & np.isin(number[told], [job for job, _ in draining])].tolist():
        job = int(number[at])
        if kept := draining.get((job, int(choice[at]))):
            plan.refusals[job] = [_build_emptying_refusal(kept), *plan.refusals[job]]


def _find_served(cycle: Cycle, number: np.ndarray, choice: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return of each record (whether no room is being made for it, when its reservation is)."""
    no_room_made, reserved_at = np.ones(len(number), dtype=bool), np.full(len(number), inf)
    reserved = {(kept.job, kept.placement.choice): kept.at for kept in cycle.reservation_plan.reservations}
    served = [job for job, _ in (*cycle.making_room, *reserved)]
    for at in np.isin(number, served).nonzero()[0].tolist():
        record = int(number[at]), int(choice[at])
        no_room_made[at] = record not in cycle.making_room
        reserved_at[at] = reserved.get(record, inf)
    return no_room_made, reserved_at


def _build_emptying_refusal(kept: Reservation) -> Refusal:
    """Tell whose place is drained when it starts: `by` then at the latest where that is firm, else at about `at`."""
    if kept.firm:
        return Refusal("emptying", {"by": kept.by})
    return Refusal("emptying", {"at": kept.at} if isfinite(kept.at) else {})


def _number_within(groups: np.ndarray) -> np.ndarray:
    """Number the members of each group from 1, in order."""
    order = groups.argsort(kind="stable")
    ranked, number = groups[order], np.empty_like(groups)
    number[order] = np.arange(1, len(groups) + 1) - ranked.searchsorted(ranked)
    return number
