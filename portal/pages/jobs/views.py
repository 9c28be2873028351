"""Pages and actions for jobs; 404 for those that the user may not see."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import cached_property, partial
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from accounts.models import User
from common.errors import Conflict, ConsentNeeded, Impossible, InvalidInput, NotFound
from jobs.changing import change_job, read_change_value
from jobs.control import settle_job
from jobs.models import Job, JobKind, JobQuerySet, Task
from jobs.running_slices import resize_job
from jobs.states import JOB_ACTIVE, JobState
from portal.pages.cluster.scheduler_pulse import scheduler_late
from portal.pages.jobs.detail import JobDetail, TaskLog, log_store
from portal.pages.jobs.form import BLANK, write_first_file
from portal.pages.jobs.start_suggestions import StartSuggestions
from portal.pages.jobs.view_model import JOB_ID, JobRights, JobView, find_job, view_jobs
from portal.pages.request_guards import safe_path, signed_in
from portal.partial import render_page
from portal.wording.errors import describe_refusal
from scheduler.preview.possible_asks import find_usual_ask
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers, runtime_resizes

PAGE = 50
PIECE = 256 * 1024

STATES: dict[str, tuple] = {
    "": (gettext_lazy("All"), ()),
    "waiting": (gettext_lazy("Waiting"), (JobState.QUEUED,)),
    "active": (gettext_lazy("Running"), tuple(sorted(JOB_ACTIVE))),
    "done": (gettext_lazy("Done"), (JobState.SUCCEEDED,)),
    "failed": (gettext_lazy("Failed"), (JobState.FAILED,)),
    "cancelled": (gettext_lazy("Cancelled"), (JobState.CANCELLED,)),
}


@require_safe
@signed_in
def list_jobs(request: HttpRequest) -> HttpResponse:
    fragments = {"jobs": "jobs/_list.html", "jobs-answer": "jobs/_answer.html"}
    return render_page(request, "jobs/list.html", {"page": JobList(request.user, request.GET)}, fragment=fragments)


@require_safe
@signed_in
def show_job(request: HttpRequest, job_id: str) -> HttpResponse:
    """Show a job's page, list row or home card."""
    view = JobView(find_job(request.user, job_id), JobRights(request.user))
    detail = JobDetail(view, request.GET.get("tab", ""), request.GET.get("task", ""))
    fragments = {
        "job": "jobs/_job.html",
        "levers": "jobs/_levers.html",
        f"row-{view.id}": "jobs/_row.html",
        f"card-{view.id}": "jobs/_card.html",
    }
    return render_page(
        request,
        "jobs/detail.html",
        {"detail": detail, "view": view, "levers": StartSuggestions(view)},
        fragment=fragments,
    )


@require_POST
@signed_in
def act_on_job(request: HttpRequest, job_id: str, service: Callable[..., Job]) -> HttpResponse:
    """Run `service`, which the route names: stop, retry, hold or release."""
    return _do(request, job_id, service)


@require_POST
@signed_in
def resize(request: HttpRequest, job_id: str) -> HttpResponse:
    """Resize a job's slices, with refusals as messages."""
    return _try(request, job_id, partial(resize_job, gpu=request.POST.get("gpu", ""), able=runtime_resizes()))


@require_POST
@signed_in
def change(request: HttpRequest, job_id: str) -> HttpResponse:
    """Change a field of a waiting job, with refusals as messages."""
    field, value = request.POST.get("field", ""), request.POST.get("value", "")
    changes = {field: read_change_value(field, value)}
    can = {"check": check_possible, "containers": runtime_has_containers()}
    return _try(request, job_id, partial(change_job, changes=changes, **can))


@require_POST
@signed_in
def settle(request: HttpRequest, job_id: str) -> HttpResponse:
    """Settle a job's lost tasks, with refusals as messages."""
    return _try(request, job_id, partial(settle_job, why=request.POST.get("why", "")))


@require_safe
@signed_in
def download_log(request: HttpRequest, job_id: str, task_uuid: UUID) -> StreamingHttpResponse:
    """Download a log as an attachment, never rendered."""
    job = find_job(request.user, job_id)
    task = Task.objects.visible_to(request.user).filter(job=job, uuid=task_uuid).first()
    if task is None:
        raise NotFound()
    response = StreamingHttpResponse(read_log(str(task.uuid)), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{TaskLog(task, job).filename}"'
    return response


async def read_log(task: str) -> AsyncIterator[bytes]:
    """Yield the log up to its present end."""
    store, offset = log_store(), 0
    end = await asyncio.to_thread(store.size, task)
    while offset < end:
        piece, offset = await asyncio.to_thread(store.read, task, offset, min(PIECE, end - offset))
        if not piece:
            return
        yield piece


def _do(request: HttpRequest, job_id: str, act: Callable[..., Job]) -> HttpResponse:
    act(actor=request.user, job=find_job(request.user, job_id))
    return _back(request, job_id)


def _try(request: HttpRequest, job_id: str, act: Callable[..., Job]) -> HttpResponse:
    """Act on the job, and tell a refusal as a message on its page."""
    try:
        return _do(request, job_id, act)
    except (InvalidInput, Impossible, Conflict, ConsentNeeded) as error:
        messages.error(request, describe_refusal(error))
    return _back(request, job_id)


def _back(request: HttpRequest, job_id: str) -> HttpResponse:
    there = request.POST.get("next", "")
    return redirect(safe_path(there)) if there else redirect("job", job_id=job_id)


class JobList:
    """A filtered job list, newest first: ?whose=team&state=failed&q=text&before=412.

    ?kind=interactive lists notebooks' jobs, else found by id only.
    """

    def __init__(self, user: User, get: QueryDict):
        self.user = user
        self.whose = "team" if get.get("whose") == "team" else "mine"
        self.state = get.get("state", "") if get.get("state") in STATES else ""
        self.kind = JobKind.INTERACTIVE.value if get.get("kind") == JobKind.INTERACTIVE else ""
        self.q = get.get("q", "").strip()[:100].replace("\0", "")
        before = get.get("before", "")
        self.before = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None

    # ---- rows ----

    @cached_property
    def _found(self) -> list[JobView]:
        jobs = (self._jobs_of_chosen_owners() if JOB_ID.fullmatch(self.q.lower()) else self._of_kind()).filter(
            self._matches()
        )
        jobs = jobs.filter(pk__lt=self.before) if self.before else jobs
        return view_jobs(jobs.with_names().defer("spec", "labels").order_by("-pk")[: PAGE + 1], self.user)

    @property
    def views(self) -> list[JobView]:
        return self._found[:PAGE]

    @property
    def is_sampled(self) -> bool:
        """Whether curves are shown, which change without events."""
        return any(view.activity for view in self.views)

    @property
    def older(self) -> str:
        """URL of the next page, or ""."""
        return self.address(before=self.views[-1].job.pk) if len(self._found) > PAGE else ""

    @property
    def newest(self) -> str:
        """URL of the first page, or "" on it."""
        return self.address() if self.before else ""

    def address(self, **changed: object) -> str:
        """Return the list's URL with changed filters."""
        asked = {"whose": self.whose, "kind": self.kind, "state": self.state, "q": self.q, **changed}
        usual = {"whose": "mine"}
        return "?" + urlencode({name: value for name, value in asked.items() if value and value != usual.get(name)})

    # ---- filters ----

    @property
    def state_filters(self) -> list[dict]:
        return [
            {"words": words, "href": self.address(state=code), "current": code == self.state}
            for code, (words, _states) in STATES.items()
        ]

    @property
    def owner_filters(self) -> list[dict]:
        """The filter's links by whose jobs: mine, my teams', everyone's."""
        others = _("Everyone's") if self.user.sees_all else _("My teams'")
        return [
            {"words": words, "href": self.address(whose=code), "current": code == self.whose}
            for code, words in (("mine", _("Mine")), ("team", others))
        ]

    @property
    def kinds(self) -> list[dict]:
        return [
            {"words": words, "href": self.address(kind=code), "current": code == self.kind}
            for code, words in (("", _("Jobs")), (JobKind.INTERACTIVE.value, _("Notebook starts")))
        ]

    @cached_property
    def example(self) -> str:
        return write_first_file(BLANK, find_usual_ask(self.user))

    @property
    def is_filtered(self) -> bool:
        return bool(self.kind or self.state or self.q or self.before)

    @cached_property
    def is_scheduler_late(self) -> bool:
        return scheduler_late()

    @property
    def answer(self) -> str:
        """Sum up the list in a sentence."""
        jobs = self._of_kind()
        numbers = {
            "running": jobs.filter(state__in=JOB_ACTIVE).count(),
            "waiting": jobs.waiting().count(),
        }
        if not any(numbers.values()):
            return (
                _("Nothing is running or waiting.")
                if self.whose == "team"
                else _("None of your jobs is running or waiting.")
            )
        if not numbers["waiting"]:
            return _("%(running)s running, none waiting.") % numbers
        first = (
            jobs.waiting().exclude(wait_position=None).order_by("wait_position", "pk").select_related("pool").first()
        )
        if first is None:
            return _("%(running)s running, %(waiting)s waiting.") % numbers
        place = {"position": first.wait_position, "pool": first.told_pool_name}
        return _("%(running)s running, %(waiting)s waiting; the first is #%(position)s in %(pool)s.") % {
            **numbers,
            **place,
        }

    def _jobs_of_chosen_owners(self) -> JobQuerySet:
        jobs = Job.objects.visible_to(self.user)
        return jobs if self.whose == "team" else jobs.filter(user=self.user)

    def _of_kind(self) -> JobQuerySet:
        return self._jobs_of_chosen_owners().of_kind(self.kind)

    def _matches(self) -> Q:
        found = Q(state__in=STATES[self.state][1]) if self.state else Q()
        if self.q:
            named = JOB_ID.fullmatch(self.q.lower())
            text = Q(name__icontains=self.q) | Q(user__username__iexact=self.q) | Q(team__name__iexact=self.q)
            found &= Q(pk=named[1]) if named else text
        return found
