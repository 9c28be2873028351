"""The jobs that a file names in `after`: found when it is submitted, looked at again when it is retried."""

from collections.abc import Iterable, Mapping

from accounts.models import Team, User
from common.errors import Conflict, FieldError, InvalidInput
from common.text import shorten_text
from jobs.dependencies.conditions import is_never, number_conditions
from jobs.dependencies.left_outputs import check_names, find_unkept
from jobs.models import Job, JobKind, read_job_id
from jobs.states import JobState


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
    check_names(jobs.values(), found)
    return found, _list_open(jobs.values())


def list_open(after: Mapping[str, str]) -> list[int]:
    """Return the jobs among resolved ones that keep it from starting."""
    return _list_open(Job.objects.filter(pk__in=number_conditions(after)))


def check_retry(after: Mapping[str, str]) -> None:
    """Refuse to queue again what would be cancelled at once. Raises Conflict."""
    keys = number_conditions(after)
    for job in Job.objects.filter(pk__in=keys).order_by("pk"):
        if is_never(job.state, keys[job.pk]):
            raise Conflict("dependency_ended", **_describe(job, keys[job.pk]))


def _list_open(jobs: Iterable[Job]) -> list[int]:
    """Return those that have yet to end, or whose outputs have yet to be kept."""
    jobs = list(jobs)
    unkept = find_unkept([job.pk for job in jobs if job.state == JobState.SUCCEEDED])
    return sorted({job.pk for job in jobs if not job.is_final} | unkept)


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
