"""Pages and actions for datasets and models; 404 for those that the user may not read."""

from collections.abc import Iterable
from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User
from accounts.permissions import require
from common.errors import PlatformError
from datasets.models import Dataset, DatasetKind, DatasetVersion
from datasets.services import (
    add_version,
    change_dataset,
    find_dataset,
    find_version,
    list_datasets,
    may_change,
    open_files,
    place_in_store,
    restore_version,
)
from files.volumes import filter_visible_volumes
from jobs.used_data.naming import delete_unused_version
from portal.downloads import send_file
from portal.forms import save
from portal.pages.datasets.environments import list_package_changes
from portal.pages.datasets.forms import ShareForm, StageForm, VersionForm, show_values
from portal.pages.datasets.view_model import (
    VersionView,
    find_jobs,
    find_maker,
    list_crumbs,
    list_differences,
    list_files,
    view_datasets,
    view_versions,
)
from portal.pages.request_guards import signed_in
from portal.wording.errors import describe_refusal

GET_POST = ["GET", "HEAD", "POST"]
MOST_DATASETS = 500


@require_http_methods(GET_POST)
@signed_in
def show_datasets(request: HttpRequest) -> HttpResponse:
    """List what one may read, or take a folder as a version."""
    user = cast(User, request.user)
    form = VersionForm(request.POST if request.method == "POST" else None, user=user, initial=request.GET.dict())
    if form.is_bound:
        made = save(form, lambda: add_version(actor=user, **form.cleaned_data))
        if made is not None:
            messages.success(request, _("%(name)s is being taken.") % {"name": made.public_id})
            return redirect("dataset", dataset_id=made.dataset.public_id)
    rows = list_datasets(user).exclude(kind=DatasetKind.ENVIRONMENT)[:MOST_DATASETS]
    context = {"datasets": view_datasets(rows), "volumes": filter_visible_volumes(user), "form": form}
    return render(request, "datasets/list.html", context, status=400 if form.is_bound else 200)


@require_http_methods(GET_POST)
@signed_in
def show_dataset(request: HttpRequest, dataset_id: str) -> HttpResponse:
    """Show a dataset with its versions, or change who reads it."""
    user = cast(User, request.user)
    dataset = find_dataset(user, dataset_id)
    if request.method != "POST":
        return _show(request, dataset)
    require(user, "dataset.change", dataset.team, dataset.user_id)
    form = ShareForm(request.POST)
    if save(form, lambda: change_dataset(actor=user, dataset=dataset, **form.cleaned_data)) is None:
        return _show(request, dataset, form, status=400)
    messages.success(request, _("Saved."))
    return redirect("dataset", dataset_id=dataset.public_id)


@require_safe
@signed_in
def show_version(request: HttpRequest, dataset_id: str, version: int) -> HttpResponse:
    """Show a version with its files, or with what differs. ?path: a folder; ?against: an earlier version."""
    user = cast(User, request.user)
    row = _find(request, dataset_id, version)
    path, against = request.GET.get("path", ""), request.GET.get("against", "")
    others = [view for view in view_versions(row.dataset) if view.is_ready and view.row.pk != row.pk]
    other = next((view.row for view in others if str(view.row.number) == against), None)
    view, is_environment = VersionView(row, 0), row.dataset.kind == DatasetKind.ENVIRONMENT
    context = {
        "view": view,
        "others": others,
        "other": other,
        "differences": list_differences(other, row) if other and view.is_ready and not is_environment else None,
        "path": path,
        "crumbs": list_crumbs(path),
        "files": list_files(user, row, path) if view.is_ready and not other else None,
        "jobs": find_jobs(user, row),
        "maker": find_maker(user, row),
        "packages": list_package_changes(other, row) if is_environment else None,
        "may_change": may_change(user, row.dataset),
    }
    return render(request, "datasets/version.html", context)


@require_safe
@signed_in
def download_file(request: HttpRequest, dataset_id: str, version: int) -> HttpResponseBase:
    """Send a file of a version as a download."""
    row = _find(request, dataset_id, version)
    path = place_in_store(row, request.GET.get("path", ""))
    return send_file(request, open_files(cast(User, request.user), row), path)


@require_POST
@signed_in
def change_stage(request: HttpRequest, dataset_id: str) -> HttpResponse:
    """Let a stage be of a version, or of none any more."""
    user = cast(User, request.user)
    dataset = find_dataset(user, dataset_id)
    require(user, "dataset.change", dataset.team, dataset.user_id)
    form = _stage_form(view_versions(dataset), request.POST)
    if save(form, lambda: change_dataset(actor=user, dataset=dataset, stages=form.stages)) is None:
        return _show(request, dataset, stage_form=form, status=400)
    messages.success(request, _("Saved."))
    return redirect("dataset", dataset_id=dataset.public_id)


@require_POST
@signed_in
def delete(request: HttpRequest, dataset_id: str, version: int) -> HttpResponse:
    """Delete a version; a refusal is a message."""
    row = _find(request, dataset_id, version)
    try:
        delete_unused_version(actor=cast(User, request.user), version=row)
    except PlatformError as refusal:
        messages.warning(request, describe_refusal(refusal))
    return redirect("dataset", dataset_id=dataset_id)


@require_POST
@signed_in
def restore(request: HttpRequest, dataset_id: str, version: int) -> HttpResponse:
    """Take a deletion back; a refusal is a message."""
    row = _find(request, dataset_id, version)
    try:
        restore_version(actor=cast(User, request.user), version=row)
    except PlatformError as refusal:
        messages.warning(request, describe_refusal(refusal))
    return redirect("dataset", dataset_id=dataset_id)


def _find(request: HttpRequest, dataset_id: str, number: int) -> DatasetVersion:
    return find_version(find_dataset(cast(User, request.user), dataset_id), number)


def _stage_form(versions: Iterable[VersionView], data: QueryDict | None = None) -> StageForm:
    return StageForm(data, versions=[view.row.number for view in versions if view.is_ready], auto_id="id_stage_%s")


def _show(
    request: HttpRequest,
    dataset: Dataset,
    form: ShareForm | None = None,
    stage_form: StageForm | None = None,
    status: int = 200,
) -> HttpResponse:
    versions = view_versions(dataset)
    context = {
        "dataset": dataset,
        "versions": versions,
        "newest": next((view for view in versions if view.is_ready), None),
        "form": form or ShareForm(initial=show_values(dataset)),
        "stage_form": stage_form or _stage_form(versions),
        "may_change": may_change(cast(User, request.user), dataset),
    }
    return render(request, "datasets/detail.html", context, status=status)
