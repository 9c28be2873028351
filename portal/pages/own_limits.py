"""The person's own limits where they are reached: what holds them, each with a way to stop it."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import User
from common.errors import QuotaExceeded
from jobs.models import Job, JobQuerySet
from jobs.states import JOB_ACTIVE
from jobs.submit import find_submit_refusal, list_waiting_jobs
from notebooks.models import Notebook
from notebooks.services import find_start_refusal, list_other_starts
from portal.pages.jobs.view_model import JobView, view_jobs
from portal.wording.errors import describe_error

MOST = 10
"""Holders that get a button; the sentence counts them all."""
OF_THE_OWNER = {"user_limit", "rate_policy"}
"""Codes of the reasons by which a person's own limits let a job wait."""


@dataclass(frozen=True)
class Holder:
    """A job or notebook that counts. action: where to stop it. effect: what that does, in words."""

    id: str
    name: str
    action: str
    is_stopping: bool
    effect: str


@dataclass(frozen=True)
class FullLimit:
    """A limit that is reached. words: "" where the page has said it."""

    words: str
    holders: list[Holder]


def find_full_start_limit(user: User, notebook: Notebook | None = None) -> FullLimit | None:
    """Return what refuses a start of this notebook, or of a new one."""
    return describe_start_limit(find_start_refusal(user, notebook), user, notebook)


def describe_start_limit(
    refusal: QuotaExceeded | None, user: User, notebook: Notebook | None = None
) -> FullLimit | None:
    """Return what holds the limit that refuses a start of this notebook, or of a new one."""
    if refusal is None or refusal.params["what"] == "jobs_waiting":
        return _describe(refusal, user)
    started = list_other_starts(user, notebook).with_names()[:MOST]
    return FullLimit(describe_error(refusal), [_hold_by_notebook(one) for one in started])


def find_full_submit_limit(user: User) -> FullLimit | None:
    """Return what refuses a submit."""
    return _describe(find_submit_refusal(user), user)


def find_full_running_limit(view: JobView) -> FullLimit | None:
    """Return what holds the limit of the owner for which a job of the reader's own waits; its reason says which."""
    owner, said = view.job.user, view.job.wait_reasons[:1]
    if not view.is_waiting or owner != view.rights.user or not said or said[0]["code"] not in OF_THE_OWNER:
        return None
    return FullLimit("", _hold_by_jobs(Job.objects.filter(user=owner, state__in=JOB_ACTIVE), owner))


def _describe(refusal: QuotaExceeded | None, user: User) -> FullLimit | None:
    return FullLimit(describe_error(refusal), _hold_by_jobs(list_waiting_jobs(user), user)) if refusal else None


def _hold_by_jobs(jobs: JobQuerySet, user: User) -> list[Holder]:
    views: Iterable[JobView] = view_jobs(jobs.with_names().order_by("-pk")[:MOST], user)
    return [
        Holder(view.id, view.name, reverse("job_stop", args=[view.id]), not view.may_stop, view.stop_effect)
        for view in views
    ]


def _hold_by_notebook(notebook: Notebook) -> Holder:
    stopping = notebook.job is not None and notebook.job.stop_requested_at is not None
    effect = _("Running programs end, and variables in memory are lost. Files are kept, and the GPU is released.")
    return Holder(
        notebook.public_id, notebook.name, reverse("notebook_stop", args=[notebook.public_id]), stopping, effect
    )
