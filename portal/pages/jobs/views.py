"""Pages and actions for jobs; 404 for those that the user may not see."""

from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from common.errors import Conflict, ConsentNeeded, Impossible, InvalidInput, PlatformError
from jobs.changing import change_job, label_job, label_jobs, read_change_value, read_label_changes, read_label_lines
from jobs.control import retry_jobs, settle_job, stop_jobs
from jobs.copying.copies import rerun_job
from jobs.models import Job
from jobs.running_slices import resize_job
from portal.pages.jobs.detail import JobDetail
from portal.pages.jobs.job_list import JobList
from portal.pages.jobs.start_suggestions import StartSuggestions
from portal.pages.jobs.view_model import JobRights, JobView, find_job, find_jobs
from portal.pages.request_guards import safe_path, signed_in
from portal.partial import render_page
from portal.wording.errors import describe_refusal
from portal.wording.outcomes import describe_done, describe_refusals, describe_settled
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers, runtime_resizes

MOST_CHOSEN = 200


@require_safe
@signed_in
def list_jobs(request: HttpRequest) -> HttpResponse:
    fragments = {"jobs": "jobs/_list.html", "jobs-answer": "jobs/_answer.html"}
    return render_page(request, "jobs/list.html", {"page": JobList(request.user, request.GET)}, fragment=fragments)


@require_POST
@signed_in
def act_on_jobs(request: HttpRequest) -> HttpResponse:
    """Stop, retry or label the chosen jobs, each by itself, and tell what came of it; or show them compared."""
    verb, there = request.POST.get("do", ""), request.POST.get("next", "")
    jobs = find_jobs(request.user, request.POST.getlist("job")[:MOST_CHOSEN])
    if verb == "compare" and jobs:
        chosen = urlencode([("job", job.public_id) for job in jobs])
        return redirect(f"{reverse('jobs_compare')}?{chosen}")
    if verb not in ("stop", "retry", "label") or not jobs:
        messages.warning(request, _("Choose one job or several, and what to do."))
    else:
        _tell(request, verb, jobs, _act_on_all(request, verb, jobs))
    return redirect(safe_path(there) if there else "jobs")


def _act_on_all(request: HttpRequest, verb: str, jobs: list[Job]) -> Mapping[int, Job | PlatformError]:
    if verb == "label":
        changes = read_label_changes(request.POST.get("set", ""), request.POST.get("remove", ""))
        return label_jobs(actor=request.user, jobs=jobs, changes=changes)
    return (stop_jobs if verb == "stop" else retry_jobs)(actor=request.user, jobs=jobs)


def _tell(request: HttpRequest, verb: str, jobs: list[Job], done: Mapping[int, Job | PlatformError]) -> None:
    refusals = [answer for answer in done.values() if isinstance(answer, PlatformError)]
    settled = [job for job in jobs if job.is_final or job.stop_requested_at] if verb == "stop" else []
    settled = [job for job in settled if isinstance(done[job.pk], Job)]
    if count := len(jobs) - len(refusals) - len(settled):
        messages.success(request, describe_done(verb, count))
    if settled:
        messages.info(request, describe_settled(len(settled)))
    if refusals:
        messages.warning(request, describe_refusals(refusals))


@require_POST
@signed_in
def rerun(request: HttpRequest, job_id: str) -> HttpResponse:
    """Submit its file once more, exactly as it was accepted, and show the new job."""
    parent = find_job(request.user, job_id)
    can = {"check": check_possible, "containers": runtime_has_containers()}
    try:
        job = rerun_job(user=request.user, parent=parent, exact=True, **can)
    except PlatformError as error:
        messages.error(request, describe_refusal(error))
        return redirect("job", job_id=job_id)
    return redirect("job", job_id=job.public_id)


@require_safe
@signed_in
def show_job(request: HttpRequest, job_id: str) -> HttpResponse:
    """Show a job's page or list row."""
    view = JobView(find_job(request.user, job_id), JobRights(request.user))
    detail = JobDetail(view, request.GET.get("tab", ""), request.GET.get("task", ""))
    fragments = {
        "job": "jobs/_job.html",
        "levers": "jobs/_levers.html",
        f"row-{view.id}": "jobs/_row.html",
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
def label(request: HttpRequest, job_id: str) -> HttpResponse:
    """Give a job these labels, one in a line, and no others; with refusals as messages."""
    wanted = read_label_lines(request.POST.get("labels", ""))
    gone = dict.fromkeys(find_job(request.user, job_id).labels)
    return _try(request, job_id, partial(label_job, changes={**gone, **wanted}))


@require_POST
@signed_in
def settle(request: HttpRequest, job_id: str) -> HttpResponse:
    """Settle a job's lost tasks, with refusals as messages."""
    return _try(request, job_id, partial(settle_job, why=request.POST.get("why", "")))


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
