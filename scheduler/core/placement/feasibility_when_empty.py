"""Feasibility: could a job ever run, on an empty and healthy cluster?"""

import numpy as np

from scheduler.core.model.demand import GangDemand, build_demand
from scheduler.core.model.lending import find_reach_at, find_reach_over_windows
from scheduler.core.model.requests import OWN_POOL, RequestClass, acceptable_kinds_mask, list_kinds, list_windows
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import SWITCH, Placement, Refusal, Role, WaitingJob
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.scores import ScoreTable
from scheduler.core.placement.shortfall import Shortfall, describe_domains, find_bottleneck
from scheduler.core.quota.limits import limit_refusals


def check_feasibility(snapshot: Snapshot, job: WaitingJob) -> list[Refusal]:
    """Return every reason why the job could never run, each with `field`, `asked` and the `largest` feasible value."""
    empty = snapshot.empty_copy()
    at_times = build_demand(empty, job.gang, job.pool, OWN_POOL, find_reach_over_windows(empty, job))
    return check_shape(empty, ScoreTable(empty), job) + _limit_refusals(empty, job, at_times)


def check_shape(empty: Snapshot, table: ScoreTable, job: WaitingJob) -> list[Refusal]:
    """Check the job against an empty snapshot and lent cards, quota aside."""
    refusals = _check_in_own_pool(empty, table, job)
    return [] if refusals and _fits_on_lent_cards(empty, job) else refusals


def _check_in_own_pool(empty: Snapshot, table: ScoreTable, waiting: WaitingJob) -> list[Refusal]:
    demand = build_demand(empty, waiting.gang, waiting.pool)
    refusals = [
        _impossible_refusal(*found, **({"role": role.name} if len(waiting.gang) > 1 else {}))
        for role, kinds in zip(waiting.gang, demand.kinds, strict=True)
        if role.min and (found := _unavailable_resource(empty, waiting.pool, role, kinds))
    ]
    if refusals:
        return refusals
    result = place_gang(empty, table, waiting, demand, demand.kinds, UNLIMITED_QUOTA)
    if isinstance(result, Shortfall) and result.level:
        return [_domain_refusal(empty, waiting, result)]
    if isinstance(result, Shortfall):
        return [_impossible_refusal("tasks", sum(role.min for role in waiting.gang), result.placed)]
    empty.release(result, waiting)
    return []


def _domain_refusal(empty: Snapshot, waiting: WaitingJob, shortfall: Shortfall) -> Refusal:
    """Say that no domain could hold the gang, or that the pool's machines have no known switch at all."""
    found = describe_domains(empty, waiting, shortfall)
    ours = (empty.node_pool == waiting.pool) | np.isin(empty.nodes, empty.gpu_node[empty.gpu_pool == waiting.pool])
    if shortfall.level == SWITCH and (empty.node_switch[ours] < 0).all():
        return _impossible_refusal("switch_unknown", found["need"], found["best"])
    return _impossible_refusal(shortfall.level, found["need"], found["best"])


def _fits_on_lent_cards(empty: Snapshot, waiting: WaitingJob) -> bool:
    tried: set[tuple[int, ...]] = set()
    for window in list_windows(find_reach_over_windows(empty, waiting)):
        world, at = empty.copy(), empty.windows[window].begins_at
        world.open_windows_at(at)
        reach = find_reach_at(world, waiting, at)
        lent = tuple(gpu for open_then in list_windows(reach) for gpu in world.windows[open_then].gpus)
        if lent not in tried:
            tried.add(lent)
            demand = build_demand(world, waiting.gang, waiting.pool, reach)
            if isinstance(
                place_gang(world, ScoreTable(world), waiting, demand, demand.kinds, UNLIMITED_QUOTA), Placement
            ):
                return True
    return False


def _unavailable_resource(empty: Snapshot, pool: int, role: Role, kinds: int) -> tuple | None:
    """Return (field, asked, largest) if no node could hold one task."""
    ask = role.ask
    if ask.gpus and not empty.pool_kinds[pool]:
        return "gpus", ask.gpus, 0
    if ask.gpus and not kinds:
        asked = [empty.kind_names[kind] for kind in list_kinds(acceptable_kinds_mask(ask))]
        return "gpu_model", asked, [empty.kind_names[kind] for kind in list_kinds(empty.pool_kinds[pool])]
    if ask.gpus and not ask.whole and (found := _unavailable_slice(empty, pool, role, kinds)):
        return found
    resource, amount, has = find_bottleneck(empty, RequestClass(ask, pool, kinds))
    return (resource, amount, int(has.max(initial=0))) if resource else None


def _unavailable_slice(empty: Snapshot, pool: int, role: Role, kinds: int) -> tuple | None:
    ask, mask = role.ask, np.array([bool(kinds >> kind & 1) for kind in range(len(empty.kind_names))])
    cards = (empty.gpu_pool == pool) & mask[empty.gpu_kind]
    shared = cards & (empty.gpu_max_slices > 1)
    if not shared.any():
        return "gpu_sharing", min(ask.need_milli[kind] for kind in list_kinds(kinds)), 1000
    need = np.array(ask.need_mib)[empty.gpu_kind[shared]]
    if (need > empty.gpu_total_mib[shared]).all():
        return "gpu_memory_mib", int(need.min()), int(empty.gpu_total_mib[shared].max())
    return None


def _limit_refusals(empty: Snapshot, waiting: WaitingJob, demand: GangDemand) -> list[Refusal]:
    refusals = []
    for refusal in limit_refusals(empty, waiting, demand):
        params = refusal.params
        nearest = {"field": params.get("resource", "jobs"), "asked": params.get("ask", 1), "largest": params["limit"]}
        refusals.append(Refusal(refusal.reason, params | nearest))
    return refusals


def _impossible_refusal(field: str, asked, largest, **role: str) -> Refusal:
    return Refusal("impossible", {"field": field, "asked": asked, "largest": largest, **role})
