"""Pages and actions for services; 404 for those that the user may not see."""

from collections.abc import Callable
from typing import cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User
from accounts.permissions import require
from common.errors import InvalidInput, PlatformError
from common.rates import check_rate
from jobs.jobfile.serving import span_text
from portal.forms import bind
from portal.pages.jobs.view_model import JobRights
from portal.pages.request_guards import signed_in
from portal.pages.services.forms import KeyForm, LimitsForm, ScaleForm, ServiceForm
from portal.pages.services.view_model import ServicePage
from portal.partial import render_page
from portal.wording.errors import describe_refusal
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers
from services.in_flight import read_loads
from services.keys import create_service_key, end_service_key, limit_service_key
from services.models import Service
from services.services import create_service, delete_service, find_service, revise_service, roll_back, scale_service

GET_POST = ["GET", "HEAD", "POST"]
MOST = 200
EXAMPLE = """\
kind: service
name: chat
run: python -m http.server $TESSERA_PORT_8000 --bind 127.0.0.1
gpu: 1/4
serve:
  port: 8000
  replicas: 0..2
"""


@require_safe
@signed_in
def list_services(request: HttpRequest) -> HttpResponse:
    """List the services of one's teams, one's own first."""
    rights, loads = JobRights(cast(User, request.user)), read_loads()
    rows = Service.objects.visible_to(request.user).with_names()[:MOST]
    views = sorted((ServicePage(row, rights, loads) for row in rows), key=lambda view: not view.is_own)
    return render_page(request, "services/list.html", {"views": views}, fragment="services/_list.html")


@require_http_methods(GET_POST)
@signed_in
def new_service(request: HttpRequest) -> HttpResponse:
    """Create a service by its file."""
    if request.method != "POST":
        return render(request, "services/new.html", {"form": ServiceForm(initial={"job_file": EXAMPLE})})
    form = ServiceForm(request.POST)
    made = _save(form, lambda text: create_service(user=request.user, job_file=text, **_abilities()))
    if made is None:
        return render(request, "services/new.html", {"form": form}, status=400)
    messages.success(request, _("The service “%(name)s” is created, and tried now.") % {"name": made.name})
    return redirect("service", service_id=made.public_id)


@require_http_methods(GET_POST)
@signed_in
def show_service(request: HttpRequest, service_id: str) -> HttpResponse:
    """Show a service with its replicas, revisions and keys, or roll out a new file of it."""
    row = find_service(request.user, service_id)
    if request.method != "POST":
        return _show(request, row, ServiceForm(initial={"job_file": row.newest.job_file}))
    require(request.user, "service.change", row.team, row.user_id)
    form = ServiceForm(request.POST)
    changed = _save(form, lambda text: revise_service(actor=request.user, service=row, job_file=text, **_abilities()))
    if changed is None:
        return _show(request, row, form, 400)
    messages.success(request, _("The new file is rolled out."))
    return redirect("service", service_id=row.public_id)


@require_POST
@signed_in
def act_on_service(request: HttpRequest, service_id: str, service: Callable[..., Service]) -> HttpResponse:
    """Run `service`, which the route names: wake, put to sleep, stop or end its canary early."""
    service(actor=request.user, service=find_service(request.user, service_id))
    return redirect("service", service_id=service_id)


@require_POST
@signed_in
def go_back(request: HttpRequest, service_id: str, number: int) -> HttpResponse:
    """Roll out an earlier revision once more."""
    roll_back(actor=request.user, service=find_service(request.user, service_id), number=number)
    messages.success(request, _("Revision %(number)s is rolled out once more.") % {"number": number})
    return redirect("service", service_id=service_id)


@require_POST
@signed_in
def scale(request: HttpRequest, service_id: str) -> HttpResponse:
    """Set how many replicas there may be; nothing: as its file says."""
    row, said = find_service(request.user, service_id), request.POST.get("replicas", "").strip()[:20]
    try:
        changed = scale_service(actor=request.user, service=row, replicas=said or None)
    except InvalidInput as error:
        messages.error(request, describe_refusal(error))
    else:
        text = span_text(*changed.serving.replicas)
        messages.success(request, _("There may be %(replicas)s replicas now.") % {"replicas": text})
    return redirect("service", service_id=service_id)


@require_POST
@signed_in
def delete(request: HttpRequest, service_id: str) -> HttpResponse:
    row = find_service(request.user, service_id)
    delete_service(actor=request.user, service=row)
    messages.success(request, _("The service “%(name)s” is deleted.") % {"name": row.name})
    return redirect("services")


@never_cache
@require_http_methods(GET_POST)
@signed_in
def service_keys(request: HttpRequest, service_id: str) -> HttpResponse:
    """List a service's keys or make one, which is shown once."""
    user = cast(User, request.user)
    row = find_service(user, service_id)
    form, made, secret = KeyForm(request.POST or None), None, ""
    if form.is_valid():
        check_rate("tokens", user.username, limit=20, per_s=3600)
        try:
            made, secret = create_service_key(actor=user, service=row, **form.cleaned_data)
            form = KeyForm()
        except InvalidInput as error:
            bind(form, error)
    context = {"view": ServicePage(row, JobRights(user)), "form": form, "made": made, "secret": secret}
    return render(request, "services/keys.html", context, status=400 if form.is_bound else 200)


@require_POST
@signed_in
def limit_key(request: HttpRequest, service_id: str, service_key_id: int) -> HttpResponse:
    """Change how many requests a key may have."""
    row, form = find_service(request.user, service_id), LimitsForm(request.POST)
    if form.is_valid():
        limit_service_key(actor=request.user, service=row, key_id=service_key_id, **form.cleaned_data)
        messages.success(request, _("The limits are changed. They count within seconds."))
    else:
        messages.error(request, _("A limit is a whole number from 1, or empty for as many requests as come."))
    return redirect("service_keys", service_id=service_id)


@require_POST
@signed_in
def end_key(request: HttpRequest, service_id: str, service_key_id: int) -> HttpResponse:
    end_service_key(actor=request.user, service=find_service(request.user, service_id), key_id=service_key_id)
    messages.success(request, _("The key is ended. Programs that use it are refused within seconds."))
    return redirect("service_keys", service_id=service_id)


def _save(form: forms.Form, act: Callable[[str], Service]) -> Service | None:
    """Run a service with the form's file; None if it is refused, which then stands on the form."""
    if not form.is_valid():
        return None
    try:
        return act(form.cleaned_data["job_file"])
    except PlatformError as error:
        if error.status >= 500:
            raise
        form.add_error("job_file", describe_refusal(error))
        return None


def _abilities() -> dict:
    """Return what jobs.submit must know of the cluster."""
    return {"check": check_possible, "containers": runtime_has_containers()}


def _show(request: HttpRequest, row: Service, form: ServiceForm, status: int = 200) -> HttpResponse:
    view = ServicePage(row, JobRights(cast(User, request.user)))
    context = {"view": view, "form": form, "scale_form": ScaleForm(initial={"replicas": view.scale})}
    return render_page(request, "services/detail.html", context, fragment="services/_overview.html", status=status)
