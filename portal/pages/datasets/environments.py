"""The page of environments: what one may use, found by a package, and a recipe that builds the next version."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import Team, User
from accounts.permissions import teams_where
from common.errors import PlatformError
from datasets.models import DatasetVersion
from datasets.naming import MOST_NAME
from environments.recipes import MOST_TEST, Recipe
from environments.services import (
    PackageChange,
    build_environment,
    compare_packages,
    find_own_notebook,
    list_builds,
    list_environments,
    match_packages,
    save_kept,
)
from jobs.models import Job
from jobs.states import JobState
from portal.forms import save
from portal.pages.datasets.view_model import DatasetView, view_datasets
from portal.pages.request_guards import signed_in
from portal.wording.errors import describe_refusal
from runtimes.log_store import LogStore
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers

MOST_ENVIRONMENTS, MOST_BUILDS = 500, 8
LAST_LINES, LAST_BYTES = 6, 4000
"""Of the log of a build that failed."""
PLAIN = {"autocomplete": "off", "spellcheck": "false", "class": "mono"}


class BuildForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=MOST_NAME,
        help_text=gettext_lazy("Such as sd-train. A name that the team has already gets its next version."),
        widget=forms.TextInput(attrs=PLAIN),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(), label=gettext_lazy("Team"), to_field_name="name", empty_label=None
    )
    base = forms.CharField(
        label=gettext_lazy("Base image"),
        max_length=512,
        required=False,
        help_text=gettext_lazy("By its name among the images, or in full. Empty: the machines' own Python."),
        widget=forms.TextInput(attrs=PLAIN),
    )
    pip = forms.CharField(
        label=gettext_lazy("Packages"),
        max_length=20_000,
        help_text=gettext_lazy("One a line, as in a requirements file of pip."),
        widget=forms.Textarea(attrs={**PLAIN, "rows": 5, "placeholder": "numpy==2.1.0\ntransformers"}),
    )
    test = forms.CharField(
        label=gettext_lazy("Test"),
        max_length=MOST_TEST,
        required=False,
        help_text=gettext_lazy("A command that must succeed, or there is no version."),
        widget=forms.TextInput(attrs={**PLAIN, "placeholder": "python -c 'import numpy'"}),
    )

    def __init__(self, *args: object, user: User, **named: object):
        super().__init__(*args, **named)  # type: ignore[arg-type]
        cast(forms.ModelChoiceField, self.fields["team"]).queryset = teams_where(user, "dataset.add")

    def read_recipe(self) -> Recipe:
        said = {**self.cleaned_data, "team": self.cleaned_data["team"].name}
        lines = (line.strip() for line in said["pip"].splitlines())
        return Recipe(**{**said, "pip": tuple(line for line in lines if line)})


@dataclass(frozen=True)
class EnvironmentView:
    """found: those of its newest version's packages that were searched for."""

    of: DatasetView
    packages: int
    found: list[str]


@dataclass(frozen=True)
class BuildView:
    """lines: the last ones of the log, where it failed."""

    job: Job
    lines: str


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def show_environments(request: HttpRequest) -> HttpResponse:
    """List what one may use, or build a version."""
    user, package = cast(User, request.user), request.GET.get("package", "")[:300]
    initial = {name: request.GET[name] for name in ("name", "team", "base") if name in request.GET}
    form = BuildForm(request.POST if request.method == "POST" else None, user=user, initial=initial)
    if form.is_bound:
        able = {"check": check_possible, "containers": runtime_has_containers()}
        job = save(form, lambda: build_environment(user=user, recipe=form.read_recipe(), **able))
        if job is not None:
            messages.success(request, _("%(job)s builds it.") % {"job": job.public_id})
            return redirect("job", job_id=job.public_id)
    context = {
        "environments": _view_environments(list_environments(user, package)[:MOST_ENVIRONMENTS], package),
        "builds": [BuildView(job, _read_last_lines(job)) for job in list_builds(user)[:MOST_BUILDS]],
        "package": package,
        "form": form,
    }
    return render(request, "environments/list.html", context, status=400 if form.is_bound else 200)


@require_POST
@signed_in
def save_notebook(request: HttpRequest, notebook_id: str) -> HttpResponse:
    """Save what a notebook keeps as the next version; a refusal is a message on its page."""
    user = cast(User, request.user)
    notebook = find_own_notebook(user, notebook_id)
    try:
        made = save_kept(actor=user, notebook=notebook, name=request.POST.get("name", "")[:200])
    except PlatformError as refusal:
        messages.warning(request, describe_refusal(refusal))
        return redirect("notebook", notebook_id=notebook_id)
    messages.success(request, _("%(name)s is being taken.") % {"name": made.public_id})
    return redirect("dataset", dataset_id=made.dataset.public_id)


def list_package_changes(before: DatasetVersion | None, after: DatasetVersion) -> list[PackageChange]:
    """Return the packages that differ; without an earlier version all of them."""
    if before is not None:
        return compare_packages(before, after)
    return [PackageChange(one.name, "", one.number) for one in after.packages.all()]


def _view_environments(rows: Iterable, package: str) -> list[EnvironmentView]:
    views = view_datasets(rows)
    counts, found = match_packages([view.newest.row for view in views], package)
    return [
        EnvironmentView(view, counts.get(view.newest.row.pk, 0), found.get(view.newest.row.pk, [])) for view in views
    ]


def _read_last_lines(job: Job) -> str:
    """Return pip's own words where a build failed."""
    task = job.newest_tasks.first() if job.state == JobState.FAILED else None
    if task is None:
        return ""
    store = LogStore(settings.TESSERA_LOGS)
    size = store.size(task.uuid.hex)
    data, _end = store.read(task.uuid.hex, max(size - LAST_BYTES, 0))
    return "\n".join(data.decode(errors="replace").rstrip().splitlines()[-LAST_LINES:])
