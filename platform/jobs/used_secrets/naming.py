"""The secrets that a job names (`secrets` in the job file): resolved when it is submitted, kept from being deleted."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q

from accounts.models import Team, User
from common.errors import Conflict, FieldError, InvalidInput
from common.locks import lock_rows
from common.text import join_some
from jobs.jobfile.shapes import pointer_of
from jobs.models import Job
from jobs.states import JOB_FINAL
from secret_store.models import Secret
from secret_store.services import remove_secret


def resolve_secrets(user: User, team: Team, asked: Mapping[str, str], pointer: str = "/secrets") -> dict[str, str]:
    """Return what is wanted of each secret with whose it is: one's own goes before the team's. Raises InvalidInput.

    pointer: where they are asked for.
    """
    rows = Secret.objects.filter(name__in=asked).values_list("name", "user_id", "team_id")
    known = {(name, "own") for name, user_id, _ in rows if user_id == user.pk}
    known |= {(name, "team") for name, _, team_id in rows if team_id == team.pk}
    found, errors = {}, []
    for name, word in asked.items():
        whose, _, kind = word.rpartition(":")
        owner = next((each for each in ((whose,) if whose else ("own", "team")) if (name, each) in known), "")
        if owner:
            found[name] = f"{owner}:{kind}"
        else:
            said = {"name": name, "team": team.name}
            errors.append(FieldError(pointer + pointer_of([name]), _name_problem(whose), said))
    if errors:
        raise InvalidInput(errors)
    return found


def list_wishes(spec: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return what a job's stored spec wants of secrets: {role: {name: wish}}; "" for what all its tasks get."""
    roles = {name: role.get("secrets") for name, role in spec.get("roles", {}).items()}
    return {role: wishes for role, wishes in {"": spec.get("secrets"), **roles}.items() if wishes}


def split_wish(wish: str) -> tuple[str, str]:
    """Return ("own" or "team", "variable" or "file") of what a job's spec keeps of a secret."""
    whose, _, kind = wish.partition(":")
    return whose, kind


@transaction.atomic
def delete_secret(*, actor: User, secret: Secret, force: bool = False) -> None:
    """Delete a secret. force: though jobs name it that have yet to end. Raises NotPermitted, Conflict."""
    lock_rows(Secret.objects.filter(pk=secret.pk))
    if not force and (jobs := list_open_users(secret)):
        raise Conflict("secret_in_use", name=secret.name, jobs=join_some([job.public_id for job in jobs]))
    remove_secret(actor=actor, secret=secret)


def list_open_users(secret: Secret) -> list[Job]:
    """Return the jobs that name the secret and have yet to end, oldest first."""
    whose = "team" if secret.team_id else "own"
    owned = Job.objects.filter(**({"team": secret.team} if secret.team else {"user": secret.user}))
    named = Q(spec__secrets__has_key=secret.name) | Q(spec__has_key="roles")
    open_jobs = owned.exclude(state__in=JOB_FINAL).filter(named).order_by("pk")
    return [job for job in open_jobs if _names(job, secret.name, whose)]


def _names(job: Job, name: str, whose: str) -> bool:
    wishes = [wishes[name] for wishes in list_wishes(job.spec).values() if name in wishes]
    return any(split_wish(wish)[0] == whose for wish in wishes)


def _name_problem(whose: str) -> str:
    return {"": "unknown_secret", "own": "unknown_own_secret", "team": "unknown_team_secret"}[whose]
