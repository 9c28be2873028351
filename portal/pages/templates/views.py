"""Templates: their list, one with the form of its parameters, and the page on which one is written."""

from collections.abc import Callable
from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User
from common.errors import InvalidInput, PlatformError
from job_templates.models import JobTemplate
from job_templates.services import (
    Version,
    add_version,
    archive_template,
    create_template,
    find_template,
    find_version,
    list_versions,
    may_change,
    require_change,
    restore_template,
)
from portal.pages.jobs.view_model import find_job
from portal.pages.request_guards import signed_in
from portal.pages.templates.forms import RunForm, TemplateForm, find_owner, list_owners
from portal.pages.templates.running import run_or_serve
from portal.pages.templates.view_model import (
    TemplateList,
    check_text,
    locate_errors,
    preview_run,
    write_copy_of,
    write_template_of,
)
from portal.wording.errors import describe_error
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers

GET_POST = ["GET", "HEAD", "POST"]


@require_safe
@signed_in
def show_templates(request: HttpRequest) -> HttpResponse:
    return render(request, "templates/list.html", {"page": TemplateList(request)})


@require_http_methods(GET_POST)
@signed_in
def show_template(request: HttpRequest, template_id: str) -> HttpResponse:
    """Show a version with its form, or submit the job of its values, or create the service."""
    user = cast(User, request.user)
    version = _find_version(request, template_id)
    if request.method != "POST":
        return _show(request, version, _build_form(version, user))
    form = _build_form(version, user, request.POST)
    if form.is_valid():
        can = {"check": check_possible, "containers": runtime_has_containers()}
        try:
            return redirect(run_or_serve(user, version, form.values(), form.changes(), **can))
        except PlatformError as error:
            form.refuse(error)
            return _show(request, version, form, status=error.status)
    return _show(request, version, form, status=400)


@require_POST
@signed_in
def preview_template(request: HttpRequest, template_id: str) -> HttpResponse:
    """Answer the job file of the posted values, and when it would start. Stores nothing."""
    version = _find_version(request, template_id)
    form = _build_form(version, request.user, request.POST)
    form.is_valid()  # a missing value is told by the parameter's own reader
    ahead = request.POST.get("ahead") == "1"
    found = preview_run(request.user, version, form.values(), form.changes(), ahead=ahead)
    return render(request, "templates/_preview.html", {"found": found, "version": version})


@require_http_methods(GET_POST)
@signed_in
def new_template(request: HttpRequest) -> HttpResponse:
    """Write a template from nothing, of a job (?from=job-7), or of another template (?copy=first-steps)."""
    user = cast(User, request.user)
    owners = list_owners(user)
    if request.method != "POST":
        first = {"file": _read_first_text(user, request), "team": owners[0][0] if owners else ""}
        return _edit(request, TemplateForm(initial=first, teams=owners), first["file"])
    form, text = TemplateForm(request.POST, teams=owners), _read_text(request)
    if not form.is_valid():
        return _edit(request, form, text, status=400)
    try:
        row = create_template(actor=user, text=text, team=find_owner(user, form.cleaned_data["team"]))
    except PlatformError as error:
        return _edit(request, form, text, status=error.status, error=error)
    messages.success(request, _("The template “%(name)s” is saved.") % {"name": row.name})
    return redirect("template", row.public_id)


@require_http_methods(GET_POST)
@signed_in
def edit_template(request: HttpRequest, template_id: str) -> HttpResponse:
    """Save a new version of a template."""
    user = cast(User, request.user)
    template = find_template(user, template_id)
    row = require_change(user, template)
    if request.method != "POST":
        text = find_version(template).file.text
        return _edit(request, TemplateForm(initial={"file": text}, teams=None), text, template=row)
    form, text = TemplateForm(request.POST, teams=None), _read_text(request)
    form.is_valid()
    try:
        version = add_version(actor=user, template=row, text=text)
    except PlatformError as error:
        return _edit(request, form, text, template=row, status=error.status, error=error)
    messages.success(request, _("Version %(number)s is saved.") % {"number": version.number})
    return redirect("template", template_id)


@require_POST
@signed_in
def check_template(request: HttpRequest) -> HttpResponse:
    """Answer what is wrong with the posted text, or the form that it makes. Stores nothing."""
    return render(request, "templates/_check.html", _check(cast(User, request.user), _read_text(request)))


@require_POST
@signed_in
def change_template(request: HttpRequest, template_id: str, service: Callable[..., None]) -> HttpResponse:
    """Archive or restore a template."""
    user = cast(User, request.user)
    row = require_change(user, find_template(user, template_id))
    try:
        service(actor=user, template=row)
    except PlatformError as error:
        messages.error(request, describe_error(error))
    return redirect("template", template_id)


ARCHIVE, RESTORE = {"service": archive_template}, {"service": restore_template}


def _find_version(request: HttpRequest, template_id: str) -> Version:
    """Return the version that the address or the form names, else the newest."""
    said = request.POST.get("version") or request.GET.get("version") or ""
    number = int(said) if said.isascii() and said.isdecimal() and len(said) < 10 else None
    return find_version(find_template(request.user, template_id), number)


def _build_form(version: Version, user: User, data: QueryDict | None = None) -> RunForm:
    return RunForm(version.file, user, data, version.template.team)


def _show(request: HttpRequest, version: Version, form: RunForm, status: int = 200) -> HttpResponse:
    template = version.template
    context = {
        "template": template,
        "version": version,
        "form": form,
        "versions": list_versions(template),
        "may_change": may_change(request.user, template),
    }
    return render(request, "templates/detail.html", context, status=status)


def _edit(
    request: HttpRequest,
    form: TemplateForm,
    text: str,
    *,
    template: JobTemplate | None = None,
    status: int = 200,
    error: PlatformError | None = None,
) -> HttpResponse:
    """error: why it was not saved; what is wrong in the text is told by its line."""
    context = {"form": form, "text": text, "template": template, "refused": error and describe_error(error)}
    checked = _check(request.user, text)
    if isinstance(error, InvalidInput):
        checked["lines"] = locate_errors(error, text)
    return render(request, "templates/edit.html", {**context, **checked}, status=status)


def _check(user: User, text: str) -> dict:
    file, lines = check_text(text)
    return {"lines": lines, "made": RunForm(file, user) if file else None}


def _read_text(request: HttpRequest) -> str:
    return request.POST.get("file", "").replace("\r\n", "\n")


def _read_first_text(user: User, request: HttpRequest) -> str:
    if copied := request.GET.get("copy", ""):
        return write_copy_of(find_version(find_template(user, copied)))
    source = request.GET.get("from", "")
    return write_template_of(user, find_job(user, source) if source else None)
