"""What the portal may ask the scheduler: could this ever run, would it start now, what is free now. Reads only."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from accounts.models import User
from common.errors import FieldError, Hint, Impossible, PlatformError
from common.resources import cpu_text, memory_text
from jobs.jobfile.spec import JobSpec
from jobs.models import Job
from jobs.submit import Draft, choose_pool
from quotas.models import Quota
from scheduler.core.cycle import run_cycle
from scheduler.core.possible import could_ever_run
from scheduler.core.types import Refusal, Waiting
from scheduler.models import Lease
from scheduler.runtime import the_runtime
from scheduler.snapshots import World, build_waiting, load_world

UNIX_EPOCH = datetime.fromtimestamp(0, UTC)
POINTERS = {
    "gpu_milli": "/gpu",
    "gpus": "/gpu",
    "gpu_model": "/gpu",
    "gpu_memory_mib": "/gpu",
    "gpu_sharing": "/gpu",
    "cpu_milli": "/cpu",
    "memory_mib": "/memory",
    "tasks": "/nodes",
    "jobs": "",
}


@dataclass(frozen=True)
class PoolRoom:
    """What one pool has free for one person now.

    cards_free, cards_total: whole cards. free_milli, total_milli: thousandths of cards, slices counted.
    largest_slice_mib: on one card. may_milli: what the limits of the person's teams still allow, None = no limit.
    may_slice_mib: the largest slice within that.
    """

    pool: str
    shared: bool
    models: list[str]
    simulated: bool
    cards_free: int
    cards_total: int
    free_milli: int
    total_milli: int
    largest_slice_mib: int
    may_milli: int | None
    may_slice_mib: int
    waiting: int


@dataclass(frozen=True)
class Promise:
    """What would become of a spec that is submitted now.

    starts: in the next pass. pool: where it would go, "" where it can never run. reasons: else why it would wait, as
    Job.wait_reasons; empty where it can never run.
    """

    starts: bool = False
    pool: str = ""
    reasons: tuple[dict, ...] = ()

    @property
    def possible(self) -> bool:
        return bool(self.pool)


def runtime_has_containers() -> bool:
    return the_runtime().capabilities.containers


def check_possible(draft: Draft) -> None:
    """Raises Impossible where the draft could never run here, naming each field and the nearest possible value."""
    _check(draft, load_world(jobs=[], user_id=draft.user.pk))


def promise_starts(user: User, specs: Sequence[JobSpec]) -> list[Promise]:
    """A promise for each spec, each for itself: the scheduler's own pass over the queue as it is, with one job more."""
    world = load_world(user_id=user.pk)
    containers = runtime_has_containers()
    found = []
    for spec in specs:
        try:
            draft = choose_pool(user=user, spec=spec, check=lambda draft: _check(draft, world), containers=containers)
        except PlatformError:  # of no team, no quota, too large
            found.append(Promise())
        else:
            found.append(_promise(draft, world))
    return found


def free_now(user: User) -> list[PoolRoom]:
    """The pools and what this person may start in them now. Everybody sees the same machines; limits are one's own."""
    world = load_world(jobs=[], user_id=user.pk)
    limited = Quota.objects.filter(team__memberships__user=user)
    teams_of = {pool.pk: [quota.team_id for quota in limited if quota.pool_id == pool.pk] for pool in world.pools}
    waiting = {pool.pk: Job.objects.waiting().filter(pool=pool).count() for pool in world.pools}
    return [_room(world, place, teams_of[pool.pk], waiting[pool.pk]) for place, pool in enumerate(world.pools)]


def last_cycle() -> Lease | None:
    """The scheduler's own pulse: when its last pass ended and how long it took."""
    return Lease.objects.filter(name="cycle").first()


def _check(draft: Draft, world: World) -> None:
    if refusals := could_ever_run(world.snapshot, _waiting(draft, world, UNIX_EPOCH)):
        raise Impossible(
            [_field_error(refusal, draft) for refusal in refusals],
            [hint for refusal in refusals if (hint := _hint(refusal))],
            pool=draft.pool.name,
        )


def _promise(draft: Draft, world: World) -> Promise:
    now = time.time()
    mine = _waiting(draft, world, datetime.fromtimestamp(now, UTC))
    snapshot = replace(world.snapshot, waiting=(*world.snapshot.waiting, mine))
    plan = run_cycle(snapshot, world.policy, now)
    refusals = plan.refusals.get(mine.job, [])
    reasons = tuple({"code": refusal.reason, "params": dict(refusal.params)} for refusal in refusals)
    return Promise(any(start.job == mine.job for start in plan.starts), draft.pool.name, reasons)


def _waiting(draft: Draft, world: World, submitted_at: datetime) -> Waiting:
    """The draft as a job behind all others: 0 is nobody's id."""
    job = Job(team=draft.team, user=draft.user, pool=draft.pool, gang=draft.gang, submitted_at=submitted_at)
    return build_waiting(
        job,
        team=[team.pk for team in world.teams].index(draft.team.pk),
        user=world.user_ids.index(draft.user.pk),
        pool=[pool.pk for pool in world.pools].index(draft.pool.pk),
        kinds=world.kinds,
    )


def _room(world: World, place: int, team_ids: list[int], waiting: int) -> PoolRoom:
    snapshot, pool = world.snapshot, world.pools[place]
    cards = np.flatnonzero((snapshot.gpu_pool == place) & snapshot.gpu_open & snapshot.node_open[snapshot.gpu_node])
    whole = cards[snapshot.gpu_slices[cards] == 0]
    sliced = cards[snapshot.gpu_slices[cards] < snapshot.gpu_max_slices[cards]] if pool.shared else whole
    free = 1000 * snapshot.gpu_free_mib[sliced] // np.maximum(snapshot.gpu_total_mib[sliced], 1)
    free = np.minimum(free, 10 * snapshot.gpu_free_percent[sliced])
    teams = [at for at, team in enumerate(world.teams) if team.pk in team_ids]
    room = max((int(snapshot.team_room(team, place)[0]) for team in teams), default=0)
    within = np.minimum(snapshot.gpu_free_mib[sliced], snapshot.gpu_total_mib[sliced] * min(max(room, 0), 1000) // 1000)
    mine = [gpu for gpu in world.gpus if gpu.pool_id == pool.pk]
    return PoolRoom(
        pool=pool.name,
        shared=pool.shared,
        models=sorted({gpu.model for gpu in mine}),
        simulated=any(gpu.simulated for gpu in mine),
        cards_free=len(whole),
        cards_total=len(mine),
        free_milli=int(free.sum()),
        total_milli=1000 * len(mine),
        largest_slice_mib=int(snapshot.gpu_free_mib[sliced].max(initial=0)),
        may_milli=None if room > 10**12 else max(room, 0),
        may_slice_mib=int(within.max(initial=0)),
        waiting=waiting,
    )


def _field_error(refusal: Refusal, draft: Draft) -> FieldError:
    params = dict(refusal.params)
    if params["field"] == "gpu_model":  # the core knows only the models that are here
        params["asked"] = list(draft.spec.gpu.models) or [draft.spec.gpu.text]
    code = refusal.reason if refusal.reason != "impossible" else f"impossible_{params['field']}"
    return FieldError(POINTERS.get(params["field"], ""), code, {"pool": draft.pool.name, **params})


def _hint(refusal: Refusal) -> Hint | None:
    """The nearest value that could run, in the words of the job file."""
    field, largest = refusal.params["field"], refusal.params["largest"]
    if not largest:
        return None
    values = {
        "gpus": lambda: str(largest),
        "gpu_model": lambda: ",".join(largest),
        "gpu_memory_mib": lambda: "1",
        "gpu_sharing": lambda: "1",
        "gpu_milli": lambda: str(largest // 1000) if largest >= 1000 else None,
        "cpu_milli": lambda: cpu_text(largest),
        "memory_mib": lambda: memory_text(largest),
        "tasks": lambda: largest,
    }
    value = values[field]() if field in values else None
    return Hint(POINTERS[field], value) if value is not None else None
