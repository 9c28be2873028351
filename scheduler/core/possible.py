"""Could a job ever run here, if nobody held anything and every machine were well? If not, what is the nearest?"""

import numpy as np

from scheduler.core.demand import Demand, build_demand
from scheduler.core.explain import bottleneck
from scheduler.core.lending import OWN, reach_at, reach_at_times, windows_in
from scheduler.core.place import ANY_QUOTA, Shortfall, place
from scheduler.core.quota import limit_refusals
from scheduler.core.request import Request, acceptable_kinds, kinds_in
from scheduler.core.snapshot import Snapshot
from scheduler.core.table import Table
from scheduler.core.types import Placement, Refusal, Role, Waiting


def could_ever_run(snapshot: Snapshot, waiting: Waiting) -> list[Refusal]:
    """Every reason for which this job could never run, whatever ends; none means that it may be accepted.

    `impossible`, `team_limit`, `user_limit` and `rate_policy`, each with `field`, `asked` and `largest`: the nearest
    value that could run; and `role`, where one of several asks it. What is held now, and which nodes are closed, do not
    matter.
    """
    empty = snapshot.emptied()
    at_times = build_demand(empty, waiting.gang, waiting.pool, OWN, reach_at_times(empty, waiting))
    return impossible(empty, Table(empty), waiting) + _beyond_limits(empty, waiting, at_times)


def impossible(empty: Snapshot, table: Table, waiting: Waiting) -> list[Refusal]:
    """The job's shape against an emptied snapshot and its table, quota aside. At most one refusal per role.

    What other pools lend at times counts, if the job ends in such a time or may be stopped then.
    """
    refusals = _impossible_in_its_pool(empty, table, waiting)
    return [] if refusals and _fits_when_lent(empty, waiting) else refusals


def _impossible_in_its_pool(empty: Snapshot, table: Table, waiting: Waiting) -> list[Refusal]:
    demand = build_demand(empty, waiting.gang, waiting.pool)
    refusals = [
        _impossible(*found, **({"role": role.name} if len(waiting.gang) > 1 else {}))
        for role, kinds in zip(waiting.gang, demand.kinds, strict=True)
        if role.min and (found := _out_of_reach(empty, waiting.pool, role, kinds))
    ]
    if refusals:
        return refusals
    result = place(empty, table, waiting, demand, demand.kinds, ANY_QUOTA)
    if isinstance(result, Shortfall):
        return [_impossible("tasks", sum(role.min for role in waiting.gang), result.have)]
    empty.give_back(result, waiting)
    return []


def _fits_when_lent(empty: Snapshot, waiting: Waiting) -> bool:
    tried: set[tuple[int, ...]] = set()
    for window in windows_in(reach_at_times(empty, waiting)):
        world, at = empty.copy(), empty.windows[window].begins_at
        world.turn_to(at)
        reach = reach_at(world, waiting, at)
        lent = tuple(gpu for open_then in windows_in(reach) for gpu in world.windows[open_then].gpus)
        if lent not in tried:
            tried.add(lent)
            demand = build_demand(world, waiting.gang, waiting.pool, reach)
            if isinstance(place(world, Table(world), waiting, demand, demand.kinds, ANY_QUOTA), Placement):
                return True
    return False


def _out_of_reach(empty: Snapshot, pool: int, role: Role, kinds: int) -> tuple | None:
    """(field, asked, largest) of what no node could give one task of the role, or None."""
    ask = role.ask
    if ask.gpus and not empty.pool_kinds[pool]:
        return "gpus", ask.gpus, 0
    if ask.gpus and not kinds:
        asked = [empty.kind_names[kind] for kind in kinds_in(acceptable_kinds(ask))]
        return "gpu_model", asked, [empty.kind_names[kind] for kind in kinds_in(empty.pool_kinds[pool])]
    if ask.gpus and not ask.whole and (found := _slice_out_of_reach(empty, pool, role, kinds)):
        return found
    resource, amount, has = bottleneck(empty, Request(ask, pool, kinds))
    return (resource, amount, int(has.max(initial=0))) if resource else None


def _slice_out_of_reach(empty: Snapshot, pool: int, role: Role, kinds: int) -> tuple | None:
    ask, mask = role.ask, np.array([bool(kinds >> kind & 1) for kind in range(len(empty.kind_names))])
    cards = (empty.gpu_pool == pool) & mask[empty.gpu_kind]
    shared = cards & (empty.gpu_max_slices > 1)
    if not shared.any():
        return "gpu_sharing", min(ask.need_milli[kind] for kind in kinds_in(kinds)), 1000
    need = np.array(ask.need_mib)[empty.gpu_kind[shared]]
    if (need > empty.gpu_total_mib[shared]).all():
        return "gpu_memory_mib", int(need.min()), int(empty.gpu_total_mib[shared].max())
    return None


def _beyond_limits(empty: Snapshot, waiting: Waiting, demand: Demand) -> list[Refusal]:
    refusals = []
    for refusal in limit_refusals(empty, waiting, demand):
        params = refusal.params
        nearest = {"field": params.get("resource", "jobs"), "asked": params.get("ask", 1), "largest": params["limit"]}
        refusals.append(Refusal(refusal.reason, params | nearest))
    return refusals


def _impossible(field: str, asked, largest, **role: str) -> Refusal:
    """role: which, of unlike ones."""
    return Refusal("impossible", {"field": field, "asked": asked, "largest": largest, **role})
