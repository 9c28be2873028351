"""Jobs and notebooks that their owners open to colleagues: terminal, SSH and JupyterLab, as the owner, until they end.

Whether a share opens something is asked at each visit: nothing has to clean up after somebody who leaves the team.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import User
from accounts.permissions import PERMISSIONS, may, require
from common.errors import Conflict, FieldError, InvalidInput, NotFound
from events.notices import notify
from events.record_and_publish import publish_recheck, record
from jobs.lifecycle import lock_job
from jobs.models import Job
from jobs.states import JOB_FINAL
from notebooks.models import Notebook
from sharing.models import Share

MOST_OF_A_JOB = 20
VISIT_TOLD_EVERY = timedelta(minutes=10)


def may_enter(user: User, job: Job) -> bool:
    """Whether a person may enter what the job runs: its owner, and whom the owner let in."""
    return may(user, "job.enter", job.team, job.user_id) or find_share(user, job) is not None


def find_share(user: User, job: Job) -> Share | None:
    """Return the share that lets a colleague in; None where either of the two has left the team or is suspended."""
    if job.state in JOB_FINAL or not may(user, "job.visit", job.team):
        return None
    share = job.shares.select_related("user").filter(user=user).first()
    return share if share and may(job.user, "job.enter", job.team, job.user_id) else None


def list_shares(user: User) -> list[Share]:
    """Return what colleagues opened to this person and they may enter now, newest first."""
    shares = Share.objects.filter(user=user).exclude(job__state__in=JOB_FINAL)
    return [one for one in shares.select_related("job__team", "job__user") if find_share(user, one.job)]


def find_shared_notebook(job: Job) -> Notebook | None:
    """Return the notebook of which this job is the newest start."""
    return Notebook.objects.live().filter(job=job).first()


def list_colleagues(job: Job) -> QuerySet[User]:
    """Return whom its owner may let in: active members and leads of its team."""
    roles = PERMISSIONS["job.visit"]
    team = User.objects.filter(memberships__team=job.team_id, memberships__role__in=roles, suspended_at__isnull=True)
    return team.exclude(pk=job.user_id).order_by("username")


@transaction.atomic
def share_job(*, actor: User, job: Job, person: str) -> Share:
    """Let a colleague enter a job of one's own until it ends; tell them. person: a user name.

    Raises InvalidInput, Conflict (not_running), NotPermitted.
    """
    require(actor, "job.enter", job.team, job.user_id)
    row = lock_job(job.pk)
    if row.state in JOB_FINAL:
        raise Conflict("not_running", name=row.public_id, state=row.state.lower())
    colleague = list_colleagues(row).filter(username__iexact=person.strip()).first()
    if colleague is None:
        raise InvalidInput([FieldError("/person", "not_a_colleague", {"name": person, "team": row.team.name})])
    if (known := row.shares.filter(user=colleague).first()) is not None:
        return known
    if row.shares.count() >= MOST_OF_A_JOB:
        raise InvalidInput([FieldError("/person", "too_many_shares", {"max": MOST_OF_A_JOB})])
    share = Share.objects.create(job=row, user=colleague)
    record(row, "shared", actor=actor.as_actor, params={"person": colleague.username})
    notify(user_id=colleague.pk, kind="shared", about=row, params={"name": row.name, "person": actor.username})
    share.refresh_from_db()
    return share


@transaction.atomic
def end_share(*, actor: User, job: Job, person: str) -> None:
    """End a colleague's share and close what they have open. Raises NotFound, NotPermitted."""
    require(actor, "job.stop", job.team, job.user_id)
    row = lock_job(job.pk)
    share = row.shares.select_related("user").filter(user__username__iexact=person).first()
    if share is None:
        raise NotFound(kind="share", id=person)
    share.delete()
    record(row, "share_ended", actor=actor.as_actor, params={"person": share.user.username})
    publish_recheck(share.user_id)


def note_visit(share: Share) -> None:
    """Tell the job's history of a visit by browser, once in VISIT_TOLD_EVERY. Terminals and SSH tell theirs."""
    if share.visited_at is None or timezone.now() - share.visited_at > VISIT_TOLD_EVERY:
        _tell_visit(share)


@transaction.atomic
def _tell_visit(share: Share) -> None:
    row = lock_job(share.job_id)
    untold = Q(visited_at__isnull=True) | Q(visited_at__lt=Now() - VISIT_TOLD_EVERY)
    if Share.objects.filter(untold, pk=share.pk).update(visited_at=Now()):
        record(row, "visited", actor=share.user.as_actor)
