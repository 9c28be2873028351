"""The jobs and arrays that a file names in `after`: found when it is submitted, looked at again when it is retried."""

from collections.abc import Iterable, Mapping

from accounts.models import Team, User
from common.errors import Conflict, FieldError, InvalidInput
from common.text import shorten_text
from jobs.arrays.models import JobArray
from jobs.dependencies.conditions import is_never, number_conditions, read_dependency
from jobs.dependencies.left_outputs import check_names, find_unkept
from jobs.models import Job, JobKind
from jobs.states import JOB_FINAL, JobState

Named = Job | JobArray


def resolve_after(user: User, team: Team, after: Mapping[str, str]) -> tuple[dict[str, str], list[int]]:
    """Return conditions by "job-412" or "arr-9", and the numbers of those that have yet to end. A name means the
    person's newest job or array of that name in the team. Raises InvalidInput, also for one that has ended otherwise.
    """
    named = _find_named(user, team, after)
    if unknown := [name for name in after if name not in named]:
        said = {"name": shorten_text(unknown[0]), "team": team.name}
        raise InvalidInput([FieldError("/after", "unknown_dependency", said)])
    found: dict[str, str] = {}
    for name, condition in after.items():
        if found.setdefault(named[name].public_id, condition) != condition:
            raise InvalidInput([FieldError("/after", "dependency_twice", {"job": named[name].public_id})])
        if is_never(named[name].state, condition):
            raise InvalidInput([FieldError("/after", "dependency_ended", _describe(named[name], condition))])
    check_names([one for one in named.values() if isinstance(one, Job)], found)
    return found, _list_open(named.values())


def list_open(after: Mapping[str, str]) -> list[int]:
    """Return the numbers among resolved ones that keep it from starting."""
    return _list_open(load_named(number_conditions(after)).values())


def check_retry(after: Mapping[str, str]) -> None:
    """Refuse to queue again what would be cancelled at once. Raises Conflict."""
    conditions = number_conditions(after)
    for number, one in load_named(conditions).items():
        if is_never(one.state, conditions[number]):
            raise Conflict("dependency_ended", **_describe(one, conditions[number]))


def load_named(numbers: Iterable[int]) -> dict[int, Named]:
    """Return the jobs and arrays of these numbers by them, in order."""
    numbers = sorted(numbers)
    arrays = [-number for number in numbers if number < 0]
    found: dict[int, Named] = {-row.pk: row for row in JobArray.objects.filter(pk__in=arrays)}
    found |= {job.pk: job for job in Job.objects.filter(pk__in=[number for number in numbers if number > 0])}
    return {number: found[number] for number in numbers if number in found}


def _list_open(named: Iterable[Named]) -> list[int]:
    """Return those that have yet to end, or whose outputs have yet to be kept."""
    numbers = {one.pk if isinstance(one, Job) else -one.pk: one for one in named}
    unkept = find_unkept([number for number, one in numbers.items() if one.state == JobState.SUCCEEDED])
    return sorted({number for number, one in numbers.items() if one.state not in JOB_FINAL} | unkept)


def _find_named(user: User, team: Team, names: Iterable[str]) -> dict[str, Named]:
    """Return {name or id: the job or array that is meant}, of those that there are."""
    numbers = {name: read_dependency(name) for name in names}
    jobs = Job.objects.visible_to(user).exclude(kind=JobKind.INTERACTIVE)
    arrays = JobArray.objects.visible_to(user)
    asked = [number for number in numbers.values() if number]
    by_number: dict[int, Named] = {**jobs.in_bulk([number for number in asked if number > 0])}
    by_number |= {-pk: row for pk, row in arrays.in_bulk([-number for number in asked if number < 0]).items()}
    by_name: dict[str, Named] = {}
    for rows in (jobs, arrays):
        own = rows.filter(user=user, team=team, name__in=[name for name, number in numbers.items() if not number])
        for one in own.order_by("name", "-pk").distinct("name"):
            known = by_name.get(one.name)
            by_name[one.name] = one if known is None or one.submitted_at > known.submitted_at else known
    found = {name: by_number.get(number) if number else by_name.get(name) for name, number in numbers.items()}
    return {name: one for name, one in found.items() if one is not None}


def _describe(one: Named, condition: str) -> dict[str, str]:
    return {"job": one.public_id, "state": one.state.lower(), "condition": condition}
