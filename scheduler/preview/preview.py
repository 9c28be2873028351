"""Answer the portal's questions about possible and waiting jobs and free resources; store nothing."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from accounts.models import User
from accounts.permissions import teams_where
from cluster.models import NodeState
from common.errors import BudgetSpent, ConsentNeeded, Impossible, PlatformError
from common.resources import gb_to_mib, mib_to_gb
from common.steady_clock import steady_time
from jobs.jobfile.spec import JobSpec, from_json
from jobs.models import Job, JobKind
from jobs.pricing.price import check_price
from jobs.submit import Draft, PoolChooser, find_submit_refusal
from quotas.models import Quota
from runtimes.contract.runtime import Finding
from scheduler.commit.explaining import name_pool
from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.start_suggestions import (
    Records,
    find_helpful_changes,
    keep_first_in_line,
    suggest_run_times,
)
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import GPU_MILLI, Plan, WaitingJob
from scheduler.core.queueing.maintenance import find_nodes_in_maintenance
from scheduler.health.installation_checks import run_installation_checks
from scheduler.health.platform_parts import PlatformPart, list_platform_parts
from scheduler.loading.snapshots import World, load_present_world
from scheduler.loading.waited_arrays import load_waited_arrays
from scheduler.preview.draft_checks import DRAFT_JOB, build_chooser, build_waiting_jobs, check_draft
from scheduler.preview.feasibility_cache import check_once
from scheduler.preview.forecast_recorder import FIRST, build_forecast, load_calibration
from scheduler.preview.present_queue import PresentQueue
from scheduler.preview.spec_changes import Change, list_change_families, time_change
from scheduler.preview.startable import StartableSearch
from scheduler.preview.stored_forecasts import StoredForecast, load_forecasts, load_run_times
from scheduler.preview.trial_cycles import TrialCycles

LEVERS_S = 2.0
"""Processor seconds for finding what would help a job; slow machines try fewer changes."""


@dataclass(frozen=True)
class PlannedMaintenance:
    """Maintenance of nodes in one pool."""

    nodes: tuple[str, ...]
    begins_at: datetime
    ends_at: datetime


@dataclass(frozen=True)
class PoolCapacity:
    """A pool's free resources for one person.

    milli: thousandths of cards, slices included. total: cards of machines that take part, not of those that were never
    let in or are gone. may_*: within one's own limits and the teams', None for no limit. starts_*: what the next cycle
    would start of it, if asked: whole cards, or else a slice.
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
    card_mib: int
    waiting: int
    cpu_free_milli: int = 0
    memory_free_mib: int = 0
    maintenance: tuple[PlannedMaintenance, ...] = ()
    starts_whole: int = 0
    starts_slice_mib: int = 0

    @property
    def starts_milli(self) -> int:
        """Thousandths of cards that would start, of a slice by its memory."""
        if self.starts_whole or not self.starts_slice_mib:
            return 1000 * self.starts_whole
        return max(1000 * self.starts_slice_mib // max(self.card_mib, 1), 1)


@dataclass(frozen=True)
class StartPreview:
    """What would happen to a spec submitted now.

    starts: in the next cycle. pool: where it starts or is to start first, "" if impossible. reasons: as
    Job.wait_reasons.
    """

    starts: bool = False
    pool: str = ""
    reasons: tuple[dict, ...] = ()

    @property
    def possible(self) -> bool:
        return bool(self.pool)


@dataclass(frozen=True)
class Suggestion:
    """A helpful change. now: in the next cycle."""

    change: Change
    start: StoredForecast
    now: bool


@dataclass(frozen=True)
class JobForecast:
    """Expected start, if known, and helpful changes, soonest first. whole: all were tried."""

    start: StoredForecast | None = None
    sooner: tuple[Suggestion, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class PlannedPlacement:
    """A task's node and card indices. milli: of each card."""

    node: str
    gpus: tuple[int, ...] = ()
    milli: int = 0
    role: str = ""


@dataclass(frozen=True)
class OtherChoice:
    """What a job would meet that may not be stopped, if it may, or the other way round.

    start: of one that would wait, if it was asked for and is known.
    """

    preemptible: bool
    starts: bool
    start: StoredForecast | None = None


@dataclass(frozen=True)
class PlanAnswer:
    """What a submit would bring: seats, reasons with place (n, m), or never.

    draft: in the pool where it starts or is to start first, of which the reasons and the place are. other: None of a
    job that is held or could never run.
    """

    draft: Draft | None = None
    seats: tuple[PlannedPlacement, ...] = ()
    reasons: tuple[dict, ...] = ()
    place: tuple[int, int] | None = None
    outlook: JobForecast = JobForecast()
    never: Impossible | None = None
    other: OtherChoice | None = None

    @property
    def outcome(self) -> str:
        return "never" if self.never else "starts" if self.seats else "waits"


def list_parts() -> list[PlatformPart]:
    """Return the platform's processes, loops and agents, what is broken first."""
    return list_platform_parts()


def list_pool_faults() -> list[Finding]:
    """Return the doctor's findings, without probes."""
    return run_installation_checks()


def check_possible(draft: Draft) -> None:
    """Raise Impossible, with nearest possible values, if the draft can never run."""
    check_once(draft, lambda draft: check_draft(draft, load_present_world(work=False, user_id=draft.user.pk)))


def preview_starts(user: User, specs: Sequence[JobSpec], queue: PresentQueue | None = None) -> list[StartPreview]:
    """Predict each spec alone with a cycle over the present queue. queue: that of the request, made for these specs."""
    queue = queue or PresentQueue(user, specs)
    found = []
    for spec in specs:
        try:
            draft = queue.chooser.choose(spec)
        except PlatformError:  # of no team, no quota, too large
            found.append(StartPreview())
        else:
            found.append(_preview_start(draft, queue.trials))
    return found


def plan_job(user: User, spec: JobSpec, *, levers: bool = True) -> PlanAnswer:
    """Predict a submit. levers: also start and helpful changes. Raise InvalidInput, NotPermitted, Conflict."""
    if refusal := find_submit_refusal(user):
        raise refusal
    queue = PresentQueue(user, [spec])
    world = queue.world
    try:
        draft = queue.chooser.choose(spec)
    except Impossible as never:
        return PlanAnswer(never=never)
    trials = TrialCycles(world)
    now = trials.now
    job = build_waiting_jobs(draft, world, now)
    plan = trials.run(job)
    if any(number < 0 for number in job[0].after):  # arrays, for which perhaps no other job waits
        world.snapshot.arrays = load_waited_arrays((*world.snapshot.waiting, *job))
    there = _move_first(draft, plan, world)
    seats = _seats(plan, job[0], world)
    other = None if spec.hold else _try_other_choice(there, bool(seats), trials, forecast=levers)
    if seats:
        return PlanAnswer(there, seats, other=other)
    answer = PlanAnswer(
        there, reasons=_reasons(plan, job[0], user, world), place=plan.positions[job[0].job], other=other
    )
    if not levers:
        return answer
    return replace(answer, outlook=_forecast(job, plan, world, now, _families(there, job, plan, world, now)))


def forecast_job(job: Job) -> JobForecast:
    """Predict a waiting job's start and helpful changes."""
    world, now = load_present_world(), steady_time()
    waiting = tuple(record for record in world.snapshot.waiting if record.job == job.pk)
    if not waiting:
        return JobForecast()
    plan = run_cycle(world.snapshot, world.policy, now)
    if job.pk not in plan.refusals:
        return JobForecast()
    where = (job.user, job.team, job.pool, job.gang)
    draft = Draft(from_json(job.spec), *where, kept=job.preemptible, waits_for=tuple(job.waits_for))
    as_notebook = job.kind == JobKind.INTERACTIVE  # has its own settings page
    families = () if as_notebook else _families(draft, waiting, plan, world, now, job)
    found = _forecast(waiting, plan, world, now, families)
    return replace(found, start=load_forecasts([job]).get(job.pk, found.start))


def list_capacity(user: User, *, starts: bool = False, queue: PresentQueue | None = None) -> list[PoolCapacity]:
    """Return what is free for a person in each pool now.

    starts: also what of it the next cycle would start. queue: that of the request, if it has other questions.
    """
    queue = queue or PresentQueue(user)
    world = queue.world if starts else load_present_world(queue=False, user_id=user.pk)
    limited = Quota.objects.filter(team__memberships__user=user)
    teams_of = {pool.pk: [quota.team_id for quota in limited if quota.pool_id == pool.pk] for pool in world.pools}
    waiting = {pool.pk: Job.objects.waiting().in_pool(pool.name).count() for pool in world.pools}
    rooms = [
        _capacity(world, place, user, teams_of[pool.pk], waiting[pool.pk]) for place, pool in enumerate(world.pools)
    ]
    if not starts or find_submit_refusal(user):
        return rooms
    return [_add_startable(room, place, queue) for place, room in enumerate(rooms)]


def _preview_start(draft: Draft, trials: TrialCycles) -> StartPreview:
    """Ask whether it starts, which is cheap, and only where it does not, why."""
    world = trials.world
    job = build_waiting_jobs(draft, world, trials.now)
    if start := trials.find_start(job):
        return StartPreview(True, draft.in_pools[max(start.choice, 0)].pool.name)
    plan = trials.run(job)
    return StartPreview(False, _move_first(draft, plan, world).pool.name, _reasons(plan, job[0], draft.user, world))


def _try_other_choice(draft: Draft, starts: bool, trials: TrialCycles, *, forecast: bool) -> OtherChoice:
    """Predict the job if it chose otherwise, with a cycle where that may differ: who may be stopped starts no later."""
    other = not draft.preemptible
    if starts == other:
        return OtherChoice(other, starts)
    one, *others = (replace(one, spec=replace(one.spec, preemptible=other), others=()) for one in draft.in_pools)
    job = build_waiting_jobs(replace(one, others=tuple(others)), trials.world, trials.now)
    if trials.find_start(job):
        return OtherChoice(other, True)
    if not (starts and forecast):  # one that waits, too, is told when it starts as it is
        return OtherChoice(other, False)
    return OtherChoice(other, False, _forecast(job, trials.run(job), trials.world, trials.now, ()).start)


def _move_first(draft: Draft, plan: Plan, world: World) -> Draft:
    """Return the draft in the pool where it starts, or of which the plan tells; its other pools follow."""
    place = next((start.choice for start in plan.starts if start.job == DRAFT_JOB), 0)
    if told := plan.places.get(DRAFT_JOB):
        names = [one.pool.name for one in draft.in_pools]
        place = names.index(world.pools[told[0][0]].name)
    there = draft.in_pools[max(place, 0)]
    return replace(there, others=tuple(replace(one, others=()) for one in draft.in_pools if one is not there))


def _reasons(plan: Plan, job: WaitingJob, user: User, world: World) -> tuple[dict, ...]:
    """Return reasons as Job.wait_reasons; its submitter holds a held draft."""
    who = {"who": user.username} if job.held else {}
    pools = [world.pools[pool].name for pool, *_ in plan.places.get(job.job, [])]
    refusals = plan.refusals.get(job.job, [])
    return tuple({"code": refusal.reason, "params": {**name_pool(refusal, pools), **who}} for refusal in refusals)


def _seats(plan: Plan, job: WaitingJob, world: World) -> tuple[PlannedPlacement, ...]:
    tasks = next((start.tasks for start in plan.starts if start.job == job.job), ())
    return tuple(
        PlannedPlacement(
            world.nodes[task.node].name,
            tuple(sorted(world.gpus[card.gpu].number for card in task.cards)),
            max((card.milli for card in task.cards), default=0),
            task.role if len(job.gang) > 1 else "",
        )
        for task in tasks
    )


Families = Iterable[Iterable[tuple[Change, Records]]]


def _forecast(job: Records, plan: Plan, world: World, now: float, families: Families) -> JobForecast:
    """Find levers; far back in line only those that start now."""
    if job[0].held:
        return JobForecast()
    began = time.thread_time()
    found = find_helpful_changes(
        keep_first_in_line(world.snapshot, plan, FIRST),
        world.policy,
        now,
        load_run_times(),
        job,
        families,
        budget_left=lambda: 1 - (time.thread_time() - began) / LEVERS_S,
    )
    far, calibration = plan.positions[job[0].job][0] > FIRST, load_calibration(now)
    helpful = [lever for lever in found.found if lever.start.p90 <= now or not far]
    sooner = tuple(
        Suggestion(lever.change, build_forecast(calibration.apply(lever.start, now), now), lever.next_cycle)
        for lever in sorted(helpful, key=lambda lever: lever.start.p50)
    )
    start = None if far or found.start is None else build_forecast(calibration.apply(found.start, now), now)
    return JobForecast(start, sooner, found.complete)


def _families(draft: Draft, job: Records, plan: Plan, world: World, now: float, row: Job | None = None) -> Families:
    """Yield groups of changes lazily. row: of a job that is stored."""
    spec, codes = draft.spec, {refusal.reason for refusal in plan.refusals[job[0].job]}
    waits_in = {record.pool for record in job}
    lent = [window for window in world.snapshot.windows if window.to in waits_in]
    kept = lent or codes & {"reserved_for_larger", "maintenance"}
    times = suggest_run_times(plan, job[0], now, lent) if kept else []
    quotas = Quota.objects.filter(team=draft.team).select_related("pool").order_by("pool__name")
    families = list_change_families(
        spec,
        pool=draft.pool.name,
        pools=[quota.pool.name for quota in quotas if quota.pool.name not in {world.pools[n].name for n in waits_in}],
        kinds=world.kinds,
        may_borrow=bool(lent or "borrow_denied" in codes) and not all(record.preemptible for record in job),
    )
    chooser = build_chooser(draft.user, world, containers=True)
    for family in ([time_change(spec, time_s) for time_s in times], *families):
        yield _as_jobs(family, draft, row, world, now, chooser)


def _as_jobs(
    family: Iterable[Change], draft: Draft, row: Job | None, world: World, now: float, chooser: PoolChooser
) -> Iterator[tuple[Change, Records]]:
    """Yield possible changes with the changed job."""
    for change in family:
        try:
            changed = _redraft(draft, change, row, world, chooser)
        except (Impossible, ConsentNeeded, BudgetSpent):
            continue
        number = row.pk if row else DRAFT_JOB
        yield change, tuple(replace(record, job=number) for record in build_waiting_jobs(changed, world, now))


def _redraft(draft: Draft, change: Change, row: Job | None, world: World, chooser: PoolChooser) -> Draft:
    spec = change.spec
    if spec.pool is None:
        return chooser.choose(spec, job=row)
    pool = next(pool for pool in world.pools if pool.name == spec.pool)
    gang = chooser.build_gang(spec, pool) if change.field in ("gpu", "nodes", "place", "pool") else draft.gang
    kept = draft.kept if pool == draft.pool else None
    changed = Draft(spec, draft.user, draft.team, pool, gang, kept=kept, waits_for=draft.waits_for)
    check_draft(changed, world)
    if change.field == "pool":  # elsewhere its priority may have another price
        check_price(actor=draft.user, asked=changed.asked)
    return changed


def _capacity(world: World, place: int, user: User, team_ids: list[int], waiting: int) -> PoolCapacity:
    snapshot, pool = world.snapshot, world.pools[place]
    closed = ~snapshot.node_open | find_nodes_in_maintenance(snapshot, steady_time())
    cards = np.flatnonzero((snapshot.gpu_pool == place) & snapshot.gpu_open & ~closed[snapshot.gpu_node])
    whole = cards[snapshot.gpu_slices[cards] == 0]
    sliced = cards[snapshot.gpu_slices[cards] < snapshot.gpu_max_slices[cards]] if pool.shared else whole
    free = 1000 * snapshot.gpu_free_mib[sliced] // np.maximum(snapshot.gpu_total_mib[sliced], 1)
    free = np.minimum(free, 10 * snapshot.gpu_free_percent[sliced])
    teams = [at for at, team in enumerate(world.teams) if team.pk in team_ids]
    of_teams = max((int(snapshot.remaining_team_quota(team, place)[0]) for team in teams), default=0)
    room = min(of_teams, _room_of_person(snapshot, world.user_ids.index(user.pk)))
    cut = sliced[snapshot.gpu_max_slices[sliced] > 1] if pool.shared else sliced  # not MIG instances
    within = np.minimum(snapshot.gpu_free_mib[cut], snapshot.gpu_total_mib[cut] * min(max(room, 0), 1000) // 1000)
    mine = [gpu for gpu in world.gpus if gpu.pool_id == pool.pk]
    total = sum(
        world.nodes[node].state != NodeState.NOT_READY for node in snapshot.gpu_node[snapshot.gpu_pool == place]
    )
    nodes = _nodes_of(snapshot, place)
    nodes = nodes[~closed[nodes]]
    return PoolCapacity(
        pool=pool.name,
        shared=pool.shared,
        models=sorted({gpu.model for gpu in mine}),
        simulated=any(gpu.simulated for gpu in mine),
        cards_free=len(whole),
        cards_total=total,
        free_milli=int(free.sum()),
        total_milli=1000 * total,
        largest_slice_mib=gb_to_mib(mib_to_gb(int(snapshot.gpu_free_mib[cut].max(initial=0)))),
        may_milli=None if room > 10**12 else max(room, 0),
        may_slice_mib=int(within.max(initial=0)),
        card_mib=int(snapshot.gpu_total_mib[cards].max(initial=0)),
        waiting=waiting,
        cpu_free_milli=int(snapshot.node_cpu_free[nodes].clip(min=0).sum()),
        memory_free_mib=int(snapshot.node_memory_free[nodes].clip(min=0).sum()),
        maintenance=_planned(snapshot, place),
    )


def _add_startable(room: PoolCapacity, place: int, queue: PresentQueue) -> PoolCapacity:
    """Add what would start, up to what is free in the pool or lent to it, within the limits."""
    pool, lent = queue.world.pools[place], _count_lent_cards(queue.world.snapshot, place)
    cards = room.cards_free + lent if room.may_milli is None else min(room.cards_free + lent, room.may_milli // 1000)
    if cards < 1 and not (room.shared and room.may_slice_mib):
        return room  # without a cycle
    teams = list(teams_where(queue.user, "job.submit").filter(quotas__pool=pool))
    search = StartableSearch(queue, teams, pool)
    whole = search.find_cards(cards)
    slice_mib = room.may_slice_mib if room.shared and not whole else 0
    return replace(room, starts_whole=whole, starts_slice_mib=search.find_slice(slice_mib))


def _count_lent_cards(snapshot: Snapshot, place: int) -> int:
    """Return how many whole cards of other pools this one may use now."""
    now = steady_time()
    lent = {gpu for window in snapshot.windows if window.to == place and window.begins_at <= now for gpu in window.gpus}
    return sum(bool(snapshot.gpu_open[gpu]) and not snapshot.gpu_slices[gpu] for gpu in lent)


def _room_of_person(snapshot: Snapshot, person: int) -> int:
    """Return the milli that the person's own limits leave: none at the limit of running jobs."""
    if snapshot.user_jobs[person] >= snapshot.user_jobs_limit[person]:
        return 0
    return int(snapshot.user_limit[person, GPU_MILLI] - snapshot.user_held[person, GPU_MILLI])


def _nodes_of(snapshot: Snapshot, place: int) -> np.ndarray:
    """Return the nodes whose home a pool is, else those with its cards."""
    at_home = np.flatnonzero(snapshot.node_pool == place)
    return at_home if len(at_home) else np.unique(snapshot.gpu_node[snapshot.gpu_pool == place])


def _planned(snapshot: Snapshot, place: int) -> tuple[PlannedMaintenance, ...]:
    with_cards, at_home = snapshot.gpu_node[snapshot.gpu_pool == place], np.flatnonzero(snapshot.node_pool == place)
    ours = {*with_cards.tolist(), *at_home.tolist()}
    found = []
    for closing in snapshot.closings:
        if names := tuple(snapshot.node_name(node) for node in closing.nodes if node in ours):
            found.append(
                PlannedMaintenance(names, *(datetime.fromtimestamp(at, UTC) for at in (closing.at, closing.ends_at)))
            )
    return tuple(found)
