"""The jobs that a job waits for (`after` in the job file), and the end to which each must come."""

from collections.abc import Iterable, Mapping

from accounts.models import Team, User
from common.errors import Conflict, FieldError, InvalidInput
from common.text import shorten_text
from jobs.models import Job, JobKind, read_job_id
from jobs.states import JOB_FINAL, JobState

ENDS: dict[str, frozenset[str]] = {
    "success": frozenset({JobState.SUCCEEDED}),
    "failure": frozenset({JobState.FAILED, JobState.CANCELLED}),
    "any": JOB_FINAL,
}
"""{condition: states of a job that meet it}."""


def resolve_after(user: User, team: Team, after: Mapping[str, str]) -> tuple[dict[str, str], list[int]]:
    """Return conditions by "job-412", and the jobs that have yet to end. A name means the person's newest job of that
    name in the team. Raises InvalidInput, also for a job that has ended otherwise.
    """
    jobs = _find_jobs(user, team, after)
    if unknown := [name for name in after if name not in jobs]:
        said = {"name": shorten_text(unknown[0]), "team": team.name}
        raise InvalidInput([FieldError("/after", "unknown_dependency", said)])
    found: dict[str, str] = {}
    for name, condition in after.items():
        if found.setdefault(jobs[name].public_id, condition) != condition:
            raise InvalidInput([FieldError("/after", "dependency_twice", {"job": jobs[name].public_id})])
        if is_never(jobs[name].state, condition):
            raise InvalidInput([FieldError("/after", "dependency_ended", _describe(jobs[name], condition))])
    return found, sorted({job.pk for job in jobs.values() if not job.is_final})


def list_open(after: Mapping[str, str]) -> list[int]:
    """Return the jobs among resolved ones that have yet to end."""
    keys = number_conditions(after)
    return sorted(Job.objects.filter(pk__in=keys).exclude(state__in=JOB_FINAL).values_list("pk", flat=True))


def check_retry(after: Mapping[str, str]) -> None:
    """Refuse to queue again what would be cancelled at once. Raises Conflict."""
    keys = number_conditions(after)
    for job in Job.objects.filter(pk__in=keys).order_by("pk"):
        if is_never(job.state, keys[job.pk]):
            raise Conflict("dependency_ended", **_describe(job, keys[job.pk]))


def is_never(state: str, condition: str) -> bool:
    """Return whether a job in this state has ended, but not as it had to."""
    return state in JOB_FINAL and state not in ENDS[condition]


def number_conditions(after: Mapping[str, str]) -> dict[int, str]:
    """Return resolved conditions by the jobs' numbers."""
    numbers = {read_job_id(name): condition for name, condition in after.items()}
    return {pk: condition for pk, condition in numbers.items() if pk is not None}


def _find_jobs(user: User, team: Team, names: Iterable[str]) -> dict[str, Job]:
    """Return {name or id: the job that is meant}, of those that there are."""
    numbers = {name: read_job_id(name) for name in names}
    seen = Job.objects.visible_to(user).exclude(kind=JobKind.INTERACTIVE)
    by_id = seen.in_bulk([pk for pk in numbers.values() if pk])
    own = seen.filter(user=user, team=team, name__in=[name for name, pk in numbers.items() if not pk])
    newest = own.order_by("name", "-pk").distinct("name")
    by_name = {job.name: job for job in newest}
    found = {name: by_id.get(pk) if pk else by_name.get(name) for name, pk in numbers.items()}
    return {name: job for name, job in found.items() if job is not None}


def _describe(job: Job, condition: str) -> dict[str, str]:
    return {"job": job.public_id, "state": job.state.lower(), "condition": condition}
