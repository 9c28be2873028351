"""Pages and actions for schedules; 404 for those that the user may not see."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive, make_aware
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.permissions import require
from accounts.time_zones import list_zones, zone_of
from common.errors import PlatformError
from jobs.copying.copies import copy_file
from jobs.jobfile.dump import dump_file
from portal.forms import bind
from portal.pages.jobs.view_model import JobRights, find_job
from portal.pages.request_guards import safe_path, signed_in
from portal.pages.schedules.form import ScheduleForm, show_values
from portal.pages.schedules.view_model import ScheduleView, Times, view_schedules
from portal.partial import render_page
from portal.schedules.run_words import describe_why
from portal.wording.errors import describe_refusal
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers
from schedules.firing import fire_next
from schedules.models import Outcome, Schedule, ScheduledRun
from schedules.services import (
    ask_for_run,
    change_schedule,
    create_schedule,
    delete_schedule,
    find_schedule,
)

GET_POST = ["GET", "HEAD", "POST"]
MOST = 500
EXAMPLE = "run: python train.py\ngpu: 1/4\n"
NOT_OF_A_SCHEDULE = ("start_at", "after")
"""Keys of a job that a schedule made of it leaves out: they are of that one run."""


@require_safe
@signed_in
def list_schedules(request: HttpRequest) -> HttpResponse:
    """List the schedules of one's teams, one's own first."""
    rows = Schedule.objects.visible_to(request.user).with_names().with_last_run()[:MOST]
    views = sorted(view_schedules(rows, request.user), key=lambda view: not view.is_own)
    return render_page(request, "schedules/list.html", {"views": views}, fragment="schedules/_list.html")


@require_http_methods(GET_POST)
@signed_in
def new_schedule(request: HttpRequest) -> HttpResponse:
    """Make a schedule, of a job that there is or a first file."""
    if request.method != "POST":
        return _show_new(request, ScheduleForm(request.user, initial=_first_values(request)))
    form = ScheduleForm(request.user, request.POST)
    made = _save(form, lambda values: create_schedule(user=request.user, **_abilities(), **values))
    if made is None:
        return _show_new(request, form, 400)
    messages.success(request, _("The schedule “%(name)s” is made.") % {"name": made.name})
    return redirect("schedule", schedule_id=made.public_id)


@require_safe
@signed_in
def show_times(request: HttpRequest) -> HttpResponse:
    """Show the next times of a line that is being typed."""
    asked = {name: request.GET.get(name, "")[:100] for name in ("cron", "zone", "until")}
    until = _read_local(asked["until"])
    return render(request, "schedules/_times.html", {"times": Times(asked["cron"], asked["zone"], until)})


@require_http_methods(GET_POST)
@signed_in
def show_schedule(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Show a schedule with its runs, or change it."""
    row = find_schedule(request.user, schedule_id)
    if request.method != "POST":
        return _show(request, row, ScheduleForm(request.user, initial=show_values(row)))
    require(request.user, "schedule.change", row.team, row.user_id)
    form = ScheduleForm(request.user, request.POST)
    changed = _save(form, lambda values: change_schedule(actor=request.user, schedule=row, **_abilities(), **values))
    if changed is None:
        return _show(request, row, form, 400)
    messages.success(request, _("Saved."))
    return redirect("schedule", schedule_id=row.public_id)


@require_POST
@signed_in
def act_on_schedule(request: HttpRequest, schedule_id: str, service: Callable[..., Schedule]) -> HttpResponse:
    """Run `service`, which the route names: suspend or resume."""
    service(actor=request.user, schedule=find_schedule(request.user, schedule_id))
    return _back(request, schedule_id)


@require_POST
@signed_in
def run_now(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Submit the schedule's job now, and go to it; a refusal is a message."""
    asked = ask_for_run(actor=request.user, schedule=find_schedule(request.user, schedule_id))
    run = fire_next(pk=asked.pk, check=check_possible, containers=runtime_has_containers())
    if run is not None and run.job is not None:
        return redirect("job", job_id=run.job.public_id)
    messages.warning(request, _say_no_job(run))
    return redirect("schedule", schedule_id=schedule_id)


@require_POST
@signed_in
def delete(request: HttpRequest, schedule_id: str) -> HttpResponse:
    row = find_schedule(request.user, schedule_id)
    delete_schedule(actor=request.user, schedule=row)
    messages.success(request, _("The schedule “%(name)s” is deleted.") % {"name": row.name})
    return redirect("schedules")


def _say_no_job(run: ScheduledRun | None) -> str:
    if run is None or run.outcome == Outcome.DUE:
        return _("The job is submitted as soon as the platform can accept it.")
    return describe_why(run)


def _save(form: ScheduleForm, act: Callable[[dict[str, Any]], Schedule]) -> Schedule | None:
    """Run a service with the form's values; None if one of them refuses, which then stands on the form."""
    if not form.is_valid():
        return None
    try:
        return act(form.values())
    except PlatformError as error:
        if error.status >= 500:
            raise
        if hasattr(error, "hints"):  # what could never run names fields of the job file
            form.add_error("job_file", describe_refusal(error))
        else:
            bind(form, error)
        return None


def _abilities() -> dict[str, Any]:
    """Return what jobs.submit must know of the cluster."""
    return {"check": check_possible, "containers": runtime_has_containers()}


def _first_values(request: HttpRequest) -> dict[str, Any]:
    """Return what the form of a new schedule shows. ?from: a job that it is made of. ?notebook: which it starts."""
    user, source = request.user, request.GET.get("from", "")
    usual = {"zone": zone_of(user).key, "keep": 20}
    if notebook := request.GET.get("notebook"):
        return {**usual, "notebook": notebook}
    if not source:
        return {**usual, "job_file": EXAMPLE}
    data = copy_file(user, find_job(user, source))
    kept = {key: value for key, value in data.items() if key not in NOT_OF_A_SCHEDULE}
    return {**usual, "name": data.get("name", ""), "job_file": dump_file(kept)}


def _read_local(said: datetime | str) -> datetime | None:
    """Return a moment of a form's field, which is in the reader's zone; None if it is none."""
    try:
        moment = said if isinstance(said, datetime) else parse_datetime(said)
    except ValueError:
        return None
    return make_aware(moment) if moment and is_naive(moment) else moment


def _show_new(request: HttpRequest, form: ScheduleForm, status: int = 200) -> HttpResponse:
    context = {"form": form, "times": _times_of(form), "zones": list_zones(), "from": request.GET.get("from", "")}
    return render(request, "schedules/new.html", context, status=status)


def _show(request: HttpRequest, row: Schedule, form: ScheduleForm, status: int = 200) -> HttpResponse:
    view = ScheduleView(row, JobRights(request.user))
    context = {"view": view, "form": form, "times": _times_of(form), "zones": list_zones() if view.may_change else ()}
    return render_page(request, "schedules/detail.html", context, fragment="schedules/_runs.html", status=status)


def _times_of(form: ScheduleForm) -> Times:
    said = {name: form[name].value() or "" for name in ("cron", "zone", "until")}
    return Times(said["cron"], said["zone"], _read_local(said["until"]))


def _back(request: HttpRequest, schedule_id: str) -> HttpResponse:
    there = request.POST.get("next", "")
    return redirect(safe_path(there)) if there else redirect("schedule", schedule_id=schedule_id)
