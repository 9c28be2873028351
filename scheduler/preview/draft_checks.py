"""Check whether a draft could ever run on this cluster."""

from dataclasses import replace
from datetime import UTC, datetime

from accounts.models import User
from common.errors import FieldError, Hint, Impossible
from common.resources import GpuAsk, cpu_text, is_instance, matches_model, memory_text
from common.steady_clock import steady_time
from jobs.jobfile.spec import RoleSpec, roles_of, to_json
from jobs.models import WITHOUT_TIME_LIMIT, Job, JobKind, Priority
from jobs.submit import Draft, PoolChooser
from scheduler.core.forecast.start_suggestions import Records
from scheduler.core.model.types import Refusal, WaitingJob
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from scheduler.loading.cache_locations import list_content_keys
from scheduler.loading.snapshots import Kind, World, build_waiting
from scheduler.preview.runtime_capabilities import runtime_has_containers

POINTERS = {
    "gpu_milli": "/gpu",
    "gpus": "/gpu",
    "gpu_model": "/gpu",
    "gpu_memory_mib": "/gpu",
    "gpu_sharing": "/gpu",
    "cpu_milli": "/cpu",
    "memory_mib": "/memory",
    "rdma": "/rdma",
    "switch": "/place",
    "switch_unknown": "/place",
    "node": "/place",
    "tasks": "/nodes",
    "jobs": "",
}
DRAFT_JOB = 0
"""The number of a job without a row."""
COUNT = "/count"
"""A role's key for its number of tasks."""


def build_chooser(user: User, world: World, *, containers: bool | None = None) -> PoolChooser:
    """Return what resolves the user's specs in this world. containers: whether images run, else asked."""
    used = runtime_has_containers() if containers is None else containers
    return PoolChooser(user, lambda draft: check_draft(draft, world), used)


def check_draft(draft: Draft, world: World) -> None:
    """Raise Impossible with nearest possible values."""
    if refusals := check_feasibility(world.snapshot, build_waiting_job(draft, world)):
        raise Impossible(
            [_field_error(refusal, draft, world) for refusal in refusals],
            [hint for refusal in refusals if (hint := _hint(refusal, draft))],
            pool=draft.pool.name,
        )


def build_waiting_jobs(draft: Draft, world: World, now: float) -> Records:
    """Convert the draft to a waiting job DRAFT_JOB, a record for each pool where it waits."""
    if not draft.others:
        return (build_waiting_job(draft, world, now),)
    return tuple(replace(build_waiting_job(one, world, now), choice=n) for n, one in enumerate(draft.in_pools))


def build_waiting_job(draft: Draft, world: World, now: float | None = None) -> WaitingJob:
    """Convert the draft to a waiting job DRAFT_JOB, in its first pool."""
    spec, submitted_at = draft.spec, datetime.fromtimestamp(steady_time() if now is None else now, UTC)
    kind = JobKind(spec.kind)
    job = Job(
        name=spec.name or "",
        spec=to_json(spec),
        team=draft.team,
        user=draft.user,
        pool=draft.pool,
        gang=draft.gang,
        kind=kind,
        priority=Priority[spec.priority.upper()],
        preemptible=draft.preemptible,
        time_s=spec.time_s,
        max_time_s=None if kind in WITHOUT_TIME_LIMIT else spec.max_time_s or draft.pool.default_max_time_s,
        held_at=submitted_at if spec.hold else None,
        not_before=spec.start_at,
        waits_for=list(draft.waits_for),
        eligible_at=max(submitted_at, spec.start_at or submitted_at),
    )
    return build_waiting(
        job,
        team=[team.pk for team in world.teams].index(draft.team.pk),
        user=world.user_ids.index(draft.user.pk),
        pool=[pool.pk for pool in world.pools].index(draft.pool.pk),
        kinds=world.kinds,
        fetches=world.fetches,
        lengths=world.lengths,
        reads=list_content_keys(spec, draft.user.uid, draft.team.gid),
    )


def _field_error(refusal: Refusal, draft: Draft, world: World) -> FieldError:
    params = {"pool": draft.pool.name, **refusal.params}
    code = refusal.reason if refusal.reason != "impossible" else f"impossible_{params['field']}"
    if params["field"] == "gpu_model":  # the core knows only existing models
        ask = _role(refusal, draft).gpu
        params["asked"] = list(ask.models) or [ask.text]
        if instances := _instances_meant(ask, params["largest"], world.kinds):
            code, params["largest"] = "impossible_gpu_instance", instances
    return FieldError(_pointer(refusal, draft), code, params)


def _instances_meant(ask: GpuAsk, models: list[str], kinds: list[Kind]) -> list[str]:
    """Return MIG instances that were named, or all if nothing else exists."""
    here = [kind for kind in kinds if kind.model in models]
    parts = [kind for kind in here if is_instance(kind.product)]
    named = [kind for kind in parts if any(matches_model(model, kind.model, kind.product) for model in ask.models)]
    return sorted({kind.model for kind in named or (parts if parts == here and not ask.models else [])})


def _role(refusal: Refusal, draft: Draft) -> RoleSpec:
    """Return the (first) role that cannot run."""
    roles = roles_of(draft.spec)
    return next((role for role in roles if role.name == refusal.params.get("role")), roles[0])


def _pointer(refusal: Refusal, draft: Draft) -> str:
    """Return the refused field's JSON pointer."""
    pointer = POINTERS.get(refusal.params["field"], "")
    if not draft.spec.roles or not pointer:
        return pointer
    alone = "role" in refusal.params or len(draft.spec.roles) == 1
    return f"/roles/{_role(refusal, draft).name}{COUNT if pointer == '/nodes' else pointer}" if alone else "/roles"


def _hint(refusal: Refusal, draft: Draft) -> Hint | None:
    field, largest = refusal.params["field"], refusal.params["largest"]
    if not largest or (pointer := _pointer(refusal, draft)) == "/roles":
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
    return Hint(pointer, value) if value is not None else None
