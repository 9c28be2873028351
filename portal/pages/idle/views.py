"""The page of what is held and idle, and what people do about it."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from common.errors import Conflict, InvalidInput
from jobs.models import Job
from monitoring.idle import requests
from portal.access.idle_rows import find_exemption
from portal.pages.idle.view_model import IdlePage
from portal.pages.jobs.view_model import find_job
from portal.pages.notebooks.view_model import find_notebook
from portal.pages.request_guards import safe_path, signed_in
from portal.partial import render_page
from portal.wording.errors import describe_refusal


@require_safe
@signed_in
def show_idle(request: HttpRequest) -> HttpResponse:
    page = IdlePage(request.user)
    return render_page(request, "idle/page.html", {"page": page}, fragment="idle/_live.html")


@require_POST
@signed_in
def snooze(request: HttpRequest, job_id: str) -> HttpResponse:
    return _try(request, job_id, lambda job: requests.snooze(actor=request.user, job=job), _("It is kept for an hour."))


@require_POST
@signed_in
def nudge(request: HttpRequest, job_id: str) -> HttpResponse:
    return _try(request, job_id, lambda job: requests.nudge(actor=request.user, job=job), _("Its owner was asked."))


@require_POST
@signed_in
def release(request: HttpRequest, job_id: str) -> HttpResponse:
    return _try(request, job_id, lambda job: requests.release_now(actor=request.user, job=job), _("It is released."))


@require_POST
@signed_in
def exempt(request: HttpRequest, job_id: str) -> HttpResponse:
    """Keep the rules off a job for some hours, with a reason."""
    hours, reason = request.POST.get("hours", ""), request.POST.get("reason", "")
    amount = int(hours) if hours.isascii() and hours.isdigit() and len(hours) < 6 else 0
    return _try(
        request,
        job_id,
        lambda job: requests.exempt(actor=request.user, job=job, hours=amount, reason=reason),
        _("No rule holds for it until then."),
    )


@require_POST
@signed_in
def end_exemption(request: HttpRequest, exemption_id: int) -> HttpResponse:
    """Let the rules hold again for what a person can see."""
    requests.end_exemption(actor=request.user, exemption=find_exemption(request.user, exemption_id))
    return redirect(safe_path(request.POST.get("next", "")))


@require_POST
@signed_in
def resume(request: HttpRequest, notebook_id: str) -> HttpResponse:
    """Bring a notebook back onto its GPU."""
    notebook = find_notebook(request.user, notebook_id)
    try:
        requests.resume_on_gpu(actor=request.user, notebook=notebook)
    except Conflict as error:
        messages.error(request, describe_refusal(error))
    return redirect("notebook", notebook.public_id)


def _try(request: HttpRequest, job_id: str, act: Callable[[Job], object], done: str) -> HttpResponse:
    """Act on a visible job, and say on the page what came of it."""
    job = find_job(request.user, job_id)
    try:
        act(job)
    except (Conflict, InvalidInput) as error:
        messages.error(request, describe_refusal(error))
    else:
        messages.success(request, done)
    return redirect(safe_path(request.POST.get("next", "")))
