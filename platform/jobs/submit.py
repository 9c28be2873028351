"""Check a job and store it in the queue. An accepted job is never lost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any

from django.db import transaction

from accounts.models import ApiToken, Team, User
from accounts.permissions import require
from cluster.capacity import PoolDefaults
from cluster.models import Pool
from common.disk import check_disk
from common.errors import (
    BudgetSpent,
    ConsentNeeded,
    FieldError,
    Hint,
    Impossible,
    InvalidInput,
    KeyReused,
    QuotaExceeded,
)
from common.resources import duration_text, memory_text
from common.steady_clock import steady_now
from events.record_and_publish import hint, record
from images.catalogue import pin_image, resolve_alias
from jobs.arrays.models import JobArray
from jobs.code.git_code import is_git
from jobs.code.pinning import pin_code
from jobs.dependencies.left_outputs import keep_left
from jobs.dependencies.naming import resolve_after
from jobs.idempotency import find_answer, keep_answer
from jobs.job_tokens.tokens import check_scopes
from jobs.jobfile.main_program import ends_job_of
from jobs.jobfile.spec import (
    JobSpec,
    RoleSpec,
    change_code,
    change_data,
    change_images,
    change_secrets,
    place_json,
    roles_of,
    to_json,
)
from jobs.lifecycle import begin_attempt
from jobs.models import WITHOUT_TIME_LIMIT, CodePack, Job, JobKind, JobQuerySet, Priority
from jobs.notices.recipients import check_notified
from jobs.outputs.outputs import check_outputs
from jobs.pricing.budget import Asked, shorter
from jobs.pricing.price import admit_priority, check_price, list_pools_to_wait_in
from jobs.used_data.environments import pin_environment
from jobs.used_data.naming import pin_data, record_uses
from jobs.used_data.volumes import check_volumes
from jobs.used_secrets.naming import resolve_secrets
from quotas.models import Quota
from quotas.services import admit_waiting_job, find_full_limit

LATEST_START = timedelta(days=366)


@dataclass(frozen=True)
class Origin:
    """What a job was made of. template: as Job.template keeps it. parent: the job that it is a copy of. array, index:
    of which array it is which element.
    """

    template: dict | None = None
    parent: Job | None = None
    array: JobArray | None = None
    index: int | None = None


@dataclass(frozen=True)
class Draft:
    """A spec with resolved names, in the pool that it prefers.

    gang: [{"role", "min", "max", "request": {"gpu": text, "cpu_milli", "memory_mib"}, maybe "ends_job"}]; per task.
    others: the same in further pools where it waits, in order of preference. kept: whether the job that it changes may
    be stopped in this pool, where that stays. waits_for: jobs that have yet to end before it starts.
    """

    spec: JobSpec
    user: User
    team: Team
    pool: Pool
    gang: list[dict]
    others: "tuple[Draft, ...]" = ()
    kept: bool | None = None
    waits_for: tuple[int, ...] = ()

    @property
    def in_pools(self) -> "tuple[Draft, ...]":
        """The draft in each pool where it waits."""
        return (self, *self.others)

    @property
    def preemptible(self) -> bool:
        """Whether it may be stopped for others: as its file says, else its pool. Interactive work never is."""
        if self.spec.kind == JobKind.INTERACTIVE:
            return False
        if self.spec.preemptible is not None:
            return self.spec.preemptible
        return self.pool.batch_is_preemptible if self.kept is None else self.kept

    @property
    def asked(self) -> Asked:
        """What decides the price of its priority."""
        limit_s = self.spec.max_time_s or self.pool.default_max_time_s
        priority = Priority[self.spec.priority.upper()]
        return Asked(self.team, self.pool, priority, self.gang, shorter(self.spec.time_s, limit_s))


Check = Callable[[Draft], None]
"""Raises Impossible where the draft could never run; API and pages pass scheduler.preview.preview.check_possible."""


def submit_job(
    *,
    user: User,
    spec: JobSpec,
    check: Check,
    containers: bool,
    key: str = "",
    body: bytes = b"",
    kind: str = JobKind.BATCH,
    origin: Origin = Origin(),
    chooser: "PoolChooser | None" = None,
) -> Job:
    """Store a job, unless it could never run or a count limit is reached.

    containers: whether the runtime uses images. key, body: see jobs.idempotency. chooser: resolves the names, where
    several of this person's jobs are stored at once.
    Raises InvalidInput, Impossible, NotPermitted, BudgetSpent, QuotaExceeded, Conflict, DiskFull.
    """
    if (done := find_answer(user=user, key=key, body=body)) is not None:
        return Job.objects.with_names().get(pk=done)
    check_disk()
    check_scopes(user, spec.token)
    draft = (chooser or PoolChooser(user, check, containers)).choose(spec)
    if kind != JobKind.INTERACTIVE:  # ask no registry while a notebook's row is locked
        draft = pin_digest(draft)
    try:
        with transaction.atomic():
            admit_priority(actor=user, asked=draft.asked)
            admit_waiting_job(user=user, waiting=list_waiting_jobs(user))
            job = _store(draft, kind, origin)
            keep_answer(user=user, key=key, body=body, made=job)
    except KeyReused:  # the same request arrived twice at once
        if (done := find_answer(user=user, key=key, body=body)) is None:
            raise
        return Job.objects.with_names().get(pk=done)
    return job


def find_submit_refusal(user: User, but: Job | None = None) -> QuotaExceeded | None:
    """Return what would refuse a submit now; None if the limit of waiting jobs has room. but: not counted."""
    waiting = list_waiting_jobs(user)
    return find_full_limit(user, "jobs_waiting", waiting.exclude(pk=but.pk) if but else waiting)


def list_waiting_jobs(user: User) -> JobQuerySet:
    return Job.objects.waiting().filter(user=user)


def choose_pool(
    *, user: User, spec: JobSpec, check: Check, containers: bool, actor: User | None = None, job: Job | None = None
) -> Draft:
    """Resolve a spec's names. Without a pool, it waits in all where it could run at its priority.

    actor: who asks for it, if not its user. job: what is changed to it.
    """
    return PoolChooser(user, check, containers, actor).choose(spec, job)


class PoolChooser:
    """Resolves the names of a person's specs. Rows that several of them need are read once."""

    def __init__(self, user: User, check: Check, containers: bool, actor: User | None = None):
        """actor: who asks for it, if not the user."""
        self._user, self._actor = user, actor or user
        self._check, self._containers = check, containers
        self._permitted: set[int] = set()
        self._quotas: dict[int, list[Quota]] = {}
        self._defaults: dict[int, PoolDefaults] = {}

    def choose(self, spec: JobSpec, job: Job | None = None) -> Draft:
        """Return the draft in the pool that it prefers. job: what is changed to it."""
        if spec.elements is not None:
            key = "array" if spec.array else "search"
            raise InvalidInput([FieldError(f"/{key}", "array_not_here", {"key": key})])
        if spec.serve is not None:
            raise InvalidInput([FieldError("/kind", "service_not_here")])
        team = pick_team(self._teams, spec.team)
        self._require(team)
        _check_start(spec)
        spec = change_code(spec, partial(_check_code, self._user))
        spec = change_images(spec, partial(self._resolve_image, team))
        if job is None:
            spec = change_secrets(spec, partial(resolve_secrets, self._user, team))
            spec = change_data(spec, partial(check_volumes, team))
            spec = change_data(spec, partial(pin_data, self._user, team))
            spec = pin_environment(self._user, team, spec, containers=self._containers)
            check_outputs(self._user, team, spec.outputs)
        if spec.notify and job is None:
            check_notified(team, spec.notify)
        spec, waits_for = self._resolve_after(team, spec, job)
        found: list[Draft] = []
        refused: list[Impossible] = []
        unpaid: list[ConsentNeeded | BudgetSpent] = []
        for pool in self._pools(team, spec):
            named = replace(spec, team=team.name, pool=pool.name if spec.pool else None)
            gang, kept = self.build_gang(spec, pool), _find_kept(job, pool)
            draft = Draft(named, self._user, team, pool, gang, kept=kept, waits_for=waits_for)
            try:
                _check_grace(draft)
                self._check(draft)
                check_price(actor=self._actor, asked=draft.asked, job=job)
            except Impossible as impossible:
                refused.append(impossible)
            except (ConsentNeeded, BudgetSpent) as dear:
                unpaid.append(dear)
            else:
                found.append(draft)
        if not found:
            raise [*unpaid, *refused][0]
        pools = list_pools_to_wait_in([draft.asked for draft in found])
        return replace(found[0], others=tuple(draft for draft in found[1:] if draft.pool in pools))

    def build_gang(self, spec: JobSpec, pool: Pool) -> list[dict]:
        return build_gang(spec, pool, self._defaults.setdefault(pool.pk, PoolDefaults(pool)))

    @cached_property
    def _teams(self) -> list[Team]:
        return list(Team.objects.filter(memberships__user=self._user))

    def _require(self, team: Team) -> None:
        if team.pk not in self._permitted:
            require(self._user, "job.submit", team)
            self._permitted.add(team.pk)

    def _resolve_image(self, team: Team, text: str, pointer: str) -> str:
        if not self._containers:
            raise InvalidInput([FieldError(pointer, "no_containers")])
        return resolve_alias(team, text, pointer)

    def _resolve_after(self, team: Team, spec: JobSpec, job: Job | None) -> tuple[JobSpec, tuple[int, ...]]:
        """Return the spec with ids of jobs, and those that have yet to end. job: one that was accepted, with both."""
        if job is not None:
            return spec, tuple(job.waits_for)
        if not spec.after:
            return spec, ()
        after, waits_for = resolve_after(self._user, team, spec.after)
        return replace(spec, after=after), tuple(waits_for)

    def _pools(self, team: Team, spec: JobSpec) -> list[Pool]:
        if team.pk not in self._quotas:
            self._quotas[team.pk] = list(Quota.objects.filter(team=team).select_related("pool"))
        return _order_pools(team, spec, [quota.pool for quota in self._quotas[team.pk]])


def _find_kept(job: Job | None, pool: Pool) -> bool | None:
    """Return what the pool said of a job that did not say when it was accepted, which a later change does not undo."""
    if job is None or job.spec.get("preemptible") is not None or pool.pk not in job.pool_ids:
        return None
    return job.is_preemptible_in(pool.pk)


def pin_digest(draft: Draft) -> Draft:
    """Pin the images and the code, so that every attempt runs the same bytes."""
    spec = pin_code(draft.user, draft.team, draft.spec)
    return replace(draft, spec=change_images(spec, lambda text, _: pin_image(draft.team, text)))


def _check_grace(draft: Draft) -> None:
    rule, most = draft.spec.checkpoint, draft.pool.max_grace_s
    if rule and rule.grace_s is not None and rule.grace_s > most:
        said = {"pool": draft.pool.name, "max": duration_text(most), "got": duration_text(rule.grace_s)}
        nearest = [Hint("/checkpoint/grace", duration_text(most))]
        raise Impossible([FieldError("/checkpoint/grace", "grace_beyond_pool", said)], nearest, pool=draft.pool.name)


def find_team(user: User, name: str | None) -> Team:
    """Return the named team, or the person's only one."""
    return pick_team(list(Team.objects.filter(memberships__user=user)), name)


def pick_team(teams: list[Team], name: str | None) -> Team:
    """Return the named one of a person's teams, or their only one."""
    known = ", ".join(team.name for team in teams)
    if name:
        named = next((team for team in teams if team.name == name.lower()), None)
        if named is None:
            raise InvalidInput([FieldError("/team", "unknown_team", {"team": name, "known": known})])
        return named
    if not teams:
        raise InvalidInput([FieldError("/team", "no_team")])
    if len(teams) > 1:
        raise InvalidInput([FieldError("/team", "choose_team", {"known": known})])
    return teams[0]


def build_gang(spec: JobSpec, pool: Pool, defaults: PoolDefaults | None = None) -> list[dict]:
    """Build the roles as the scheduler reads them, with the pool's defaults. defaults: those, if known already."""
    defaults = defaults or PoolDefaults(pool)
    place = {"place": place_json(spec.place)} if spec.place else {}
    return [
        _build_role(role, ends_job_of(spec, role), defaults, f"/roles/{role.name}" if spec.roles else "") | place
        for role in roles_of(spec)
    ]


def _build_role(role: RoleSpec, ends_job: str, defaults: PoolDefaults, pointer: str) -> dict:
    cpu, memory = role.cpu_milli, role.memory_mib
    if cpu is None or memory is None:
        usual_cpu, usual_memory = defaults.request_for(role.gpu)
        cpu, memory = usual_cpu if cpu is None else cpu, usual_memory if memory is None else memory
    if role.shm_mib and role.shm_mib > memory:
        said = {"shm": memory_text(role.shm_mib), "memory": memory_text(memory)}
        raise InvalidInput([FieldError(f"{pointer}/shm", "shm_above_memory", said)])
    request = {"gpu": role.gpu.text, "cpu_milli": cpu, "memory_mib": memory} | ({"rdma": True} if role.rdma else {})
    built = {"role": role.name, "min": role.nodes, "max": role.nodes_max or role.nodes, "request": request}
    return built | ({"ends_job": ends_job} if ends_job else {})


def _store(draft: Draft, kind: str, origin: Origin) -> Job:
    """Insert the job. Nobody sees its row before the commit, so no lock is needed."""
    spec = draft.spec
    job = Job.objects.create(
        name=spec.name or "",
        kind=kind,
        team=draft.team,
        user=draft.user,
        labels=spec.labels,
        retries_left=spec.retry_times,
        template=origin.template,
        parent=origin.parent,
        made_by=_find_maker(draft, origin) if spec.token else None,
        array=origin.array,
        array_index=origin.index,
        **build_scheduling_columns(draft, kind),
    )
    record_uses(job, spec)
    who = draft.user.as_actor
    record(job, "submitted", actor=who, params=name_pools(draft), new=True)
    if spec.hold:
        job.held_at, job.held_by = job.submitted_at, draft.user.username
        Job.objects.filter(pk=job.pk).update(held_at=job.held_at, held_by=job.held_by)
        record(job, "held", actor=who)
    if spec.after and not draft.waits_for:
        keep_left(job)
    if spec.start_at or spec.wait_max_s or draft.waits_for:
        columns = build_start_columns(spec, job.submitted_at, draft.waits_for)
        Job.objects.filter(pk=job.pk).update(waits_for=draft.waits_for, **columns)
    begin_attempt(job)
    hint("cycle")
    return job


def _find_maker(draft: Draft, origin: Origin) -> ApiToken | None:
    """Return the token with which a job's own one ends: an element is made long after its array was submitted."""
    return origin.array.made_by if origin.array else draft.user.acting_token


def name_pools(draft: Draft) -> dict[str, Any]:
    """Return where a job waits, as its history tells it."""
    pools = [one.pool.name for one in draft.in_pools]
    return {"pool": draft.pool.name, **({"pools": pools} if draft.others else {})}


def build_scheduling_columns(draft: Draft, kind: str) -> dict[str, Any]:
    """Return the columns by which a job is scheduled."""
    spec = draft.spec
    return {
        "pool": draft.pool,
        "choices": [_build_choice(one, kind) for one in draft.in_pools] if draft.others else [],
        "priority": draft.asked.priority,
        "spec": to_json(spec),
        "gang": draft.gang,
        "preemptible": draft.preemptible,
        "time_s": spec.time_s,
        "max_time_s": _limit_time(draft, kind),
    }


def build_start_columns(spec: JobSpec, asked_at: datetime, waits_for: Sequence[int] = ()) -> dict[str, datetime | None]:
    """Return the columns of when a job may start, and until when it waits. waits_for: jobs that must end before that
    is counted.
    """
    later = spec.start_at if spec.start_at and spec.start_at > asked_at else None
    eligible_at = later or asked_at
    counts = spec.wait_max_s is not None and not waits_for
    give_up_at = eligible_at + timedelta(seconds=spec.wait_max_s or 0) if counts else None
    return {"eligible_at": eligible_at, "not_before": later, "give_up_at": give_up_at}


def _check_start(spec: JobSpec) -> None:
    if spec.start_at and spec.start_at > (latest := steady_now() + LATEST_START):
        said = {"got": spec.start_at.isoformat(), "latest": latest.date().isoformat()}
        raise InvalidInput([FieldError("/start_at", "start_too_far", said)])


def _build_choice(draft: Draft, kind: str) -> dict[str, Any]:
    """Return an entry of Job.choices."""
    in_pool = {"pool": draft.pool.pk, "name": draft.pool.name}
    limits = {"max_time_s": _limit_time(draft, kind), "preemptible": draft.preemptible}
    return {**in_pool, "gang": draft.gang, **limits}


def _limit_time(draft: Draft, kind: str) -> int | None:
    """Return the job's time limit. Notebooks have their own clock (notebooks.tasks), which can be extended; a service's
    replica ends once it is not needed.
    """
    return None if kind in WITHOUT_TIME_LIMIT else draft.spec.max_time_s or draft.pool.default_max_time_s


def _order_pools(team: Team, spec: JobSpec, pools: list[Pool]) -> list[Pool]:
    """Return the named one of the team's pools, else all; shared ones first for slices."""
    known = ", ".join(pool.name for pool in pools)
    if spec.pool:
        named = [pool for pool in pools if pool.name == spec.pool.lower()]
        if not named:
            code = "no_quota" if Pool.objects.filter(name=spec.pool.lower()).exists() else "unknown_pool"
            raise InvalidInput([FieldError("/pool", code, {"pool": spec.pool, "known": known, "team": team.name})])
        return named
    if not pools:
        raise InvalidInput([FieldError("/pool", "no_quota_at_all", {"team": team.name})])
    wants_shared = all(role.gpu.is_slice or role.gpu.count == 0 for role in roles_of(spec))
    return sorted(pools, key=lambda pool: (pool.shared != wants_shared, pool.name))


def _check_code(user: User, code: str, pointer: str) -> str:
    if code == ".":
        raise InvalidInput([FieldError(pointer, "code_not_uploaded")])
    if not is_git(code) and not CodePack.objects.filter(user=user, digest=code).exists():
        raise InvalidInput([FieldError(pointer, "unknown_code", {"digest": code})])
    return code
