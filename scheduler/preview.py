"""What the portal may ask the scheduler: could this ever run, would it start now, what would help, what is free now.

Reads only: nothing that is asked here is stored, and the queue does not see it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from accounts.models import User
from common.errors import Impossible, PlatformError
from jobs.jobfile.spec import JobSpec, from_json
from jobs.models import Job, JobKind
from jobs.submit import Draft, build_gang, choose_pool
from quotas.models import Quota
from runtimes.base import Finding
from scheduler.caches import keys_of
from scheduler.changes import Change, families_of, time_change
from scheduler.core.cycle import run_cycle
from scheduler.core.levers import find_levers, first_in_line, replace_waiting, times_before
from scheduler.core.maintenance import closed_machines
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan, Waiting
from scheduler.drafts import check_draft, waiting_of
from scheduler.examining import examine
from scheduler.forecast import FIRST, Told, load_calibration, load_run_times, tell
from scheduler.models import Lease
from scheduler.runtime import resizes, the_runtime
from scheduler.snapshots import World, load_world
from scheduler.verdicts import judge_once

LEVERS_S = 2.0
"""Of a processor's time for what would help one job; on a slow one fewer changes are tried."""


@dataclass(frozen=True)
class Planned:
    """Machines of a pool that take nothing from one moment to another."""

    nodes: tuple[str, ...]
    begins_at: datetime
    ends_at: datetime


@dataclass(frozen=True)
class PoolRoom:
    """What one pool has free for one person now.

    cards_free, cards_total: whole cards. free_milli, total_milli: thousandths of cards, slices counted.
    largest_slice_mib: on one card. may_milli: what the limits of the person's teams still allow, None = no limit.
    may_slice_mib: the largest slice within that. maintenance: that lasts or is to come.
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
    maintenance: tuple[Planned, ...] = ()


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


@dataclass(frozen=True)
class Sooner:
    """A change that helps. now: the job would start in the next pass."""

    change: Change
    start: Told
    now: bool


@dataclass(frozen=True)
class Outlook:
    """What becomes of a job that waits. start: None where nobody can say; sooner: what would help, the soonest first.

    whole: everything was tried.
    """

    start: Told | None = None
    sooner: tuple[Sooner, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Seat:
    """Where one task would go. gpus: indices of its cards on the node; milli: thousandths that it holds of each. role:
    its name, "" where all tasks are alike.
    """

    node: str
    gpus: tuple[int, ...] = ()
    milli: int = 0
    role: str = ""


@dataclass(frozen=True)
class PlanAnswer:
    """What would become of a job that is submitted now: it starts (seats), waits (reasons), or can never run (never).

    draft: as it would be submitted. place: (n, m), the n-th of m in its line. reasons: as Job.wait_reasons.
    """

    draft: Draft | None = None
    seats: tuple[Seat, ...] = ()
    reasons: tuple[dict, ...] = ()
    place: tuple[int, int] | None = None
    outlook: Outlook = Outlook()
    never: Impossible | None = None

    @property
    def outcome(self) -> str:
        """starts, waits or never."""
        return "never" if self.never else "starts" if self.seats else "waits"


def runtime_has_containers() -> bool:
    return the_runtime().capabilities.containers


def runtime_resizes() -> bool:
    """Whether slices of running tasks can be made another size."""
    return resizes()


def find_faults() -> list[Finding]:
    """What the doctor finds, without running anything for it."""
    return examine()


def check_possible(draft: Draft) -> None:
    """Raises Impossible where the draft could never run here, naming each field and the nearest possible value."""
    judge_once(draft, lambda draft: check_draft(draft, load_world(work=False, user_id=draft.user.pk)))


def promise_starts(user: User, specs: Sequence[JobSpec]) -> list[Promise]:
    """A promise for each spec, each for itself: the scheduler's own pass over the queue as it is, with one job more."""
    world = load_world(user_id=user.pk, reads=_reads(user, specs))
    containers = runtime_has_containers()
    found = []
    for spec in specs:
        try:
            draft = _choose(user, spec, world, containers)
        except PlatformError:  # of no team, no quota, too large
            found.append(Promise())
        else:
            found.append(_promise(draft, world))
    return found


def plan_job(user: User, spec: JobSpec, *, levers: bool = True) -> PlanAnswer:
    """What a submit of this spec would bring, without one. levers: also when it would start and what would help.

    Raises InvalidInput and NotPermitted as a submit does.
    """
    world = load_world(user_id=user.pk, reads=_reads(user, [spec]))
    try:
        draft = _choose(user, spec, world, runtime_has_containers())
    except Impossible as never:
        return PlanAnswer(never=never)
    now = time.time()
    job = waiting_of(draft, world, now)
    plan = _pass(job, world, now)
    if seats := _seats(plan, job, world):
        return PlanAnswer(draft, seats)
    answer = PlanAnswer(draft, reasons=_reasons(plan, job, user), place=plan.positions[job.job])
    if not levers:
        return answer
    as_said = replace(draft, spec=replace(draft.spec, pool=spec.pool))  # who names no pool is put where a change fits
    return replace(answer, outlook=_look(job, plan, world, now, _families(as_said, job, plan, world, now)))


def look_ahead(job: Job) -> Outlook:
    """When a waiting job will start, and which changes would let a new job in its place start sooner."""
    world, now = load_world(), time.time()
    waiting = next((waiting for waiting in world.snapshot.waiting if waiting.job == job.pk), None)
    if waiting is None:
        return Outlook()
    plan = run_cycle(world.snapshot, world.policy, now)
    if job.pk not in plan.refusals:
        return Outlook()
    draft = Draft(from_json(job.spec), job.user, job.team, job.pool, job.gang)
    as_notebook = job.kind == JobKind.INTERACTIVE  # it is changed in its own settings
    return _look(waiting, plan, world, now, () if as_notebook else _families(draft, waiting, plan, world, now))


def free_now(user: User) -> list[PoolRoom]:
    """The pools and what this person may start in them now. Everybody sees the same machines; limits are one's own."""
    world = load_world(queue=False, user_id=user.pk)
    limited = Quota.objects.filter(team__memberships__user=user)
    teams_of = {pool.pk: [quota.team_id for quota in limited if quota.pool_id == pool.pk] for pool in world.pools}
    waiting = {pool.pk: Job.objects.waiting().filter(pool=pool).count() for pool in world.pools}
    return [_room(world, place, teams_of[pool.pk], waiting[pool.pk]) for place, pool in enumerate(world.pools)]


def last_cycle() -> Lease | None:
    """The scheduler's own pulse: when its last pass ended and how long it took."""
    return Lease.objects.filter(name="cycle").first()


def _reads(user: User, specs: Sequence[JobSpec]) -> set[str]:
    """What these would fetch, whichever team of the person's they would be of."""
    fetching = [spec for spec in specs if spec.data or spec.image]
    gids = user.teams.values_list("gid", flat=True) if fetching else ()
    return {key for gid in gids for one in fetching for key in keys_of(one, user.uid, gid)}


def _choose(user: User, spec: JobSpec, world: World, containers: bool) -> Draft:
    return choose_pool(user=user, spec=spec, check=lambda draft: check_draft(draft, world), containers=containers)


def _promise(draft: Draft, world: World) -> Promise:
    now = time.time()
    job = waiting_of(draft, world, now)
    plan = _pass(job, world, now)
    starts = any(start.job == job.job for start in plan.starts)
    return Promise(starts, draft.pool.name, _reasons(plan, job, draft.user))


def _pass(job: Waiting, world: World, now: float) -> Plan:
    """The scheduler's own pass over the queue as it is, with one job more."""
    return run_cycle(replace_waiting(world.snapshot, (*world.snapshot.waiting, job)), world.policy, now)


def _reasons(plan: Plan, job: Waiting, user: User) -> tuple[dict, ...]:
    """As Job.wait_reasons. A job that is submitted to be held is held by who submits it."""
    who = {"who": user.username} if job.held else {}
    refusals = plan.refusals.get(job.job, [])
    return tuple({"code": refusal.reason, "params": {**refusal.params, **who}} for refusal in refusals)


def _seats(plan: Plan, job: Waiting, world: World) -> tuple[Seat, ...]:
    tasks = next((start.tasks for start in plan.starts if start.job == job.job), ())
    return tuple(
        Seat(
            world.nodes[task.node].name,
            tuple(sorted(world.gpus[card.gpu].number for card in task.cards)),
            max((card.milli for card in task.cards), default=0),
            task.role if len(job.gang) > 1 else "",
        )
        for task in tasks
    )


Families = Iterable[Iterable[tuple[Change, Waiting]]]


def _look(job: Waiting, plan: Plan, world: World, now: float, families: Families) -> Outlook:
    """Who stands behind the first of the line is not foretold: of what would help only what starts now is sure."""
    if job.held:
        return Outlook()
    began = time.thread_time()
    found = find_levers(
        first_in_line(world.snapshot, plan, FIRST),
        world.policy,
        now,
        load_run_times(),
        job,
        families,
        left=lambda: 1 - (time.thread_time() - began) / LEVERS_S,
    )
    far, calibration = plan.positions[job.job][0] > FIRST, load_calibration(now)
    helpful = [lever for lever in found.found if lever.start.p90 <= now or not far]
    sooner = tuple(
        Sooner(lever.change, tell(calibration.of(lever.start, now), now), lever.start.p90 <= now)
        for lever in sorted(helpful, key=lambda lever: lever.start.p50)
    )
    start = None if far or found.start is None else tell(calibration.of(found.start, now), now)
    return Outlook(start, sooner, found.whole)


def _families(draft: Draft, job: Waiting, plan: Plan, world: World, now: float) -> Families:
    """What the scheduler plays, made when its turn comes."""
    spec, codes = draft.spec, {refusal.reason for refusal in plan.refusals[job.job]}
    lent = [window for window in world.snapshot.windows if window.to == job.pool]
    kept = lent or codes & {"reserved_for_larger", "maintenance"}
    times = times_before(plan, job, now, lent) if kept else []
    quotas = Quota.objects.filter(team=draft.team).select_related("pool").order_by("pool__name")
    families = families_of(
        spec,
        pool=draft.pool.name,
        pools=[quota.pool.name for quota in quotas],
        kinds=world.kinds,
        may_borrow=bool(lent or "borrow_denied" in codes) and not spec.preemptible,
    )
    for family in ([time_change(spec, time_s) for time_s in times], *families):
        yield _as_jobs(family, draft, job, world, now)


def _as_jobs(
    family: Iterable[Change], draft: Draft, job: Waiting, world: World, now: float
) -> Iterator[tuple[Change, Waiting]]:
    """Each change as a new job in the place of this one, but for those that could never run."""
    for change in family:
        try:
            changed = _redraft(draft, change, world)
        except Impossible:
            continue
        yield change, replace(waiting_of(changed, world, now), job=job.job)


def _redraft(draft: Draft, change: Change, world: World) -> Draft:
    """Raises Impossible."""
    spec = change.spec
    if spec.pool is None:
        return _choose(draft.user, spec, world, containers=True)
    pool = next(pool for pool in world.pools if pool.name == spec.pool)
    gang = build_gang(spec, pool) if change.field in ("gpu", "nodes", "pool") else draft.gang
    changed = Draft(spec, draft.user, draft.team, pool, gang)
    check_draft(changed, world)
    return changed


def _room(world: World, place: int, team_ids: list[int], waiting: int) -> PoolRoom:
    snapshot, pool = world.snapshot, world.pools[place]
    closed = ~snapshot.node_open | closed_machines(snapshot, time.time())
    cards = np.flatnonzero((snapshot.gpu_pool == place) & snapshot.gpu_open & ~closed[snapshot.gpu_node])
    whole = cards[snapshot.gpu_slices[cards] == 0]
    sliced = cards[snapshot.gpu_slices[cards] < snapshot.gpu_max_slices[cards]] if pool.shared else whole
    free = 1000 * snapshot.gpu_free_mib[sliced] // np.maximum(snapshot.gpu_total_mib[sliced], 1)
    free = np.minimum(free, 10 * snapshot.gpu_free_percent[sliced])
    teams = [at for at, team in enumerate(world.teams) if team.pk in team_ids]
    room = max((int(snapshot.team_room(team, place)[0]) for team in teams), default=0)
    cut = sliced[snapshot.gpu_max_slices[sliced] > 1] if pool.shared else sliced  # instances of cards are not
    within = np.minimum(snapshot.gpu_free_mib[cut], snapshot.gpu_total_mib[cut] * min(max(room, 0), 1000) // 1000)
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
        largest_slice_mib=int(snapshot.gpu_free_mib[cut].max(initial=0)),
        may_milli=None if room > 10**12 else max(room, 0),
        may_slice_mib=int(within.max(initial=0)),
        waiting=waiting,
        maintenance=_planned(snapshot, place),
    )


def _planned(snapshot: Snapshot, place: int) -> tuple[Planned, ...]:
    """In one pool."""
    with_cards, at_home = snapshot.gpu_node[snapshot.gpu_pool == place], np.flatnonzero(snapshot.node_pool == place)
    ours = {*with_cards.tolist(), *at_home.tolist()}
    found = []
    for closing in snapshot.closings:
        if names := tuple(snapshot.node_name(node) for node in closing.nodes if node in ours):
            found.append(Planned(names, *(datetime.fromtimestamp(at, UTC) for at in (closing.at, closing.ends_at))))
    return tuple(found)
