"""Pages and actions for notebooks; 404 for those that the user may not see."""

from collections import Counter
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

from django.contrib import messages
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User
from common.errors import Conflict, Impossible, InvalidInput, PlatformError, QuotaExceeded, Unavailable
from common.resources import parse_duration
from notebooks.models import Notebook
from notebooks.presets import Preset, find_free_name
from notebooks.services import (
    change_notebook,
    clone_notebook,
    create_and_start,
    delete_notebook,
    extend_notebook,
    start_notebook,
    stop_notebook,
)
from portal.forms import bind
from portal.pages.cluster.scheduler_pulse import scheduler_late
from portal.pages.jobs.form import CONTROLS, gpu_of
from portal.pages.jobs.history import Happening, history_of
from portal.pages.jobs.metrics import JobMetrics
from portal.pages.notebooks.form import NotebookForm, SettingsForm
from portal.pages.notebooks.sizes import Size, SizePicker, offered_presets
from portal.pages.notebooks.view_model import NotebookView, find_notebook, view_notebooks
from portal.pages.own_limits import FullLimit, find_full_start_limit
from portal.pages.request_guards import safe_path, signed_in
from portal.pages.sharing.view_model import SharedJob, list_shared_jobs
from portal.partial import render_page
from portal.wording.errors import describe_refusal
from scheduler.preview.possible_asks import PossibleAsks
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers

GET_POST = ["GET", "HEAD", "POST"]
MOST = 200
EXTEND_HOURS = 2
REFUSALS = (Conflict, Impossible, InvalidInput)
"""What a person can mend: said on the page where they are."""


@require_safe
@signed_in
def list_notebooks(request: HttpRequest) -> HttpResponse:
    fragments = {"notebooks": "notebooks/_list.html", "notebooks-answer": "notebooks/_answer.html"}
    return render_page(request, "notebooks/list.html", {"page": NotebookList(request.user)}, fragment=fragments)


@require_safe
@signed_in
def show_notebook(request: HttpRequest, notebook_id: str) -> HttpResponse:
    """Show a notebook's page or list row."""
    view = NotebookView(find_notebook(request.user, notebook_id), request.user)
    page = NotebookPage(view)
    context = {"view": view, "page": page, "picker": page.picker}
    fragments = {
        "notebook": "notebooks/_notebook.html",
        f"row-{view.id}": "notebooks/_row.html",
        "promises": "notebooks/_promises.html",
    }
    return render_page(request, "notebooks/detail.html", context, fragment=fragments)


@require_http_methods(GET_POST)
@signed_in
def new_notebook(request: HttpRequest) -> HttpResponse:
    user, possible = request.user, PossibleAsks(request.user)
    if request.method != "POST":
        gpu = request.GET.get("gpu") or possible.usual
        return _show_new(request, NotebookForm(user, initial={"name": find_free_name(user, gpu)}), gpu, possible)
    form = NotebookForm(user, request.POST)
    gpu = gpu_of(request.POST)
    if form.is_valid():
        try:
            team = form.cleaned_data.get("team") or None
            return _watch(_create_and_start(user, name=form.cleaned_data["name"], team=team, **form.values()))
        except PlatformError as error:
            if error.status >= 500:
                raise
            if not _shows_itself(error):
                bind(form, error)
    return _show_new(request, form, gpu, possible, 400)


@require_POST
@signed_in
def start_preset(request: HttpRequest) -> HttpResponse:
    """Start the user's last notebook of this size, or a new one."""
    gpu = request.POST.get("gpu", "")
    preset = next((one for one, _size in offered_presets(request.user) if one.gpu == gpu), None)
    if preset is None:
        return redirect("notebook_new")
    if preset.notebook is not None:
        return _watch(preset.notebook) if preset.notebook.is_started else _start(request, preset.notebook)
    try:
        name = find_free_name(request.user, gpu)
        return _watch(_create_and_start(request.user, name=name, gpu=gpu, team=preset.team))
    except (*REFUSALS, Unavailable) as error:
        _tell(request, error)
        return redirect("notebooks")


@require_POST
@signed_in
def start(request: HttpRequest, notebook_id: str) -> HttpResponse:
    """Start a notebook; `gpu` replaces its size and a start that waits."""
    return _start(request, find_notebook(request.user, notebook_id), request.POST.get("gpu") or None)


@require_POST
@signed_in
def stop(request: HttpRequest, notebook_id: str) -> HttpResponse:
    notebook = find_notebook(request.user, notebook_id)
    stop_notebook(actor=request.user, notebook=notebook)
    return _back(request, notebook)


def changes_notebook(act: Callable[[HttpRequest, Notebook], HttpResponse]) -> Callable[..., HttpResponse]:
    """Make an action on a notebook a view, with refusals as messages on the notebook's page."""

    @require_POST
    @signed_in
    @wraps(act)
    def view(request: HttpRequest, notebook_id: str) -> HttpResponse:
        notebook = find_notebook(request.user, notebook_id)
        try:
            return act(request, notebook)
        except REFUSALS as error:
            return _refuse(request, notebook, describe_refusal(error))

    return view


@changes_notebook
def change(request: HttpRequest, notebook: Notebook) -> HttpResponse:
    form = SettingsForm(request.user, request.POST)
    if not form.is_valid():
        return _refuse(request, notebook, " ".join(words for field in form.errors.values() for words in field))
    change_notebook(actor=request.user, notebook=notebook, **form.values())
    messages.success(request, _("Saved. The next start of %(name)s uses it.") % {"name": notebook.name})
    return _back(request, notebook)


@changes_notebook
def rename(request: HttpRequest, notebook: Notebook) -> HttpResponse:
    name = request.POST.get("name", "").strip()
    named = change_notebook(actor=request.user, notebook=notebook, name=name)
    messages.success(request, _("The notebook is now called %(name)s.") % {"name": named.name})
    return _back(request, named)


@changes_notebook
def clone(request: HttpRequest, notebook: Notebook) -> HttpResponse:
    name = request.POST.get("name", "").strip()
    copy = clone_notebook(actor=request.user, notebook=notebook, name=name)
    return redirect("notebook", notebook_id=copy.public_id)


@changes_notebook
def extend(request: HttpRequest, notebook: Notebook) -> HttpResponse:
    """Move its time limit back."""
    extend_notebook(actor=request.user, notebook=notebook, hours=EXTEND_HOURS)
    return _back(request, notebook)


@changes_notebook
def delete(request: HttpRequest, notebook: Notebook) -> HttpResponse:
    """Delete after its name was typed, files only if asked."""
    confirm, with_files = request.POST.get("confirm", "").strip(), request.POST.get("with_files") == "on"
    delete_notebook(actor=request.user, notebook=notebook, confirm=confirm, with_files=with_files)
    messages.success(request, _("%(name)s is deleted.") % {"name": notebook.name})
    return redirect("notebooks")


GOING = {
    "running": gettext_lazy("%(count)s running"),
    "starting": gettext_lazy("%(count)s starting"),
    "waiting": gettext_lazy("%(count)s waiting"),
    "stopping": gettext_lazy("%(count)s stopping"),
}


def describe_start_state(view: NotebookView) -> str:
    """Return the key of GOING for a started notebook."""
    if view.is_stopping:
        return "stopping"
    return "waiting" if view.is_waiting else "running" if view.is_running else "starting"


class NotebookList:
    """The user's notebooks, started ones first, then by last opened."""

    def __init__(self, user: User):
        self.user = user

    @cached_property
    def views(self) -> list[NotebookView]:
        mine = Notebook.objects.visible_to(self.user).filter(user=self.user).with_names()
        views = view_notebooks(mine.order_by(F("opened_at").desc(nulls_last=True), "-pk")[:MOST], self.user)
        return sorted(views, key=lambda view: not view.is_started)

    @property
    def is_sampled(self) -> bool:
        """Whether curves are shown, which change without events."""
        return any(view.start and view.start.activity for view in self.views)

    @property
    def answer(self) -> str:
        """Sum up the list in a sentence."""
        if not self.views:
            return _("Python in the browser, on as much of a GPU as you need.")
        going = Counter(describe_start_state(view) for view in self.views if view.is_started)
        said = [str(words) % {"count": going[state]} for state, words in GOING.items() if going[state]]
        return ", ".join(said) + "." if said else _("None is running. Files are kept; start one to continue.")

    @cached_property
    def shared(self) -> list[SharedJob]:
        """What colleagues opened to the user."""
        return list_shared_jobs(self.user)

    @cached_property
    def presets(self) -> list[tuple[Preset, Size]]:
        return offered_presets(self.user)

    @cached_property
    def full(self) -> FullLimit | None:
        return find_full_start_limit(self.user)

    @cached_property
    def is_scheduler_late(self) -> bool:
        return scheduler_late()


class NotebookPage:
    def __init__(self, view: NotebookView):
        self.view = view

    extend_hours = EXTEND_HOURS

    @cached_property
    def picker(self) -> SizePicker:
        """Return what it could have, and what it has now."""
        notebook = self.view.notebook
        return SizePicker(self.view.user, self.view.gpu, team=notebook.team.name, notebook=notebook)

    @cached_property
    def form(self) -> SettingsForm:
        spec = self.view.notebook.spec
        hours = _hours(spec.get("max_time"))
        return SettingsForm(
            self.view.user,
            initial={
                "cpu": spec.get("cpu") or "",
                "memory": spec.get("memory") or "",
                "hours": hours,
                "environment": spec.get("environment") or "",
                "secrets": CONTROLS["secrets"].show(spec.get("secrets") or ""),
            },
            auto_id="settings-%s",
        )

    @property
    def metrics(self) -> JobMetrics | None:
        """Return the curves of its present start, once that runs."""
        start = self.view.start
        if start is None or not self.view.is_started or start.first_started_at is None:
            return None
        return JobMetrics(start.job, start.tasks, start.first_started_at)

    @cached_property
    def events(self) -> list[Happening]:
        notebook = self.view.notebook
        return history_of(notebook.job, notebook) if notebook.job else []


def _start(request: HttpRequest, notebook: Notebook, gpu: str | None = None) -> HttpResponse:
    """Start it and show the starting page, or a refusal there."""
    try:
        start_notebook(
            actor=request.user,
            notebook=notebook,
            check=check_possible,
            containers=runtime_has_containers(),
            gpu=gpu,
        )
    except (*REFUSALS, Unavailable) as error:
        _tell(request, error)
    return _watch(notebook)


def _create_and_start(user: User, **settings: Any) -> Notebook:
    containers = runtime_has_containers()
    return create_and_start(user=user, check=check_possible, containers=containers, **settings)


def _tell(request: HttpRequest, error: PlatformError) -> None:
    if not _shows_itself(error):
        messages.error(request, describe_refusal(error))


def _shows_itself(error: PlatformError) -> bool:
    """Whether the page says it while it lasts: JupyterLab is being installed, or a limit is reached."""
    return error.code.startswith("notebooks_") or isinstance(error, QuotaExceeded)


def _refuse(request: HttpRequest, notebook: Notebook, words: str) -> HttpResponse:
    messages.error(request, words)
    return redirect("notebook", notebook_id=notebook.public_id)


def _watch(notebook: Notebook) -> HttpResponse:
    """Redirect to the starting page, as form-action forbids other origins."""
    return redirect(reverse("notebook_open", args=[notebook.public_id]) + "?watch=1")


def _back(request: HttpRequest, notebook: Notebook) -> HttpResponse:
    there = request.POST.get("next", "")
    return redirect(safe_path(there)) if there else redirect("notebook", notebook_id=notebook.public_id)


def _show_new(
    request: HttpRequest, form: NotebookForm, gpu: str, possible: PossibleAsks, status: int = 200
) -> HttpResponse:
    picker, full = SizePicker(request.user, gpu, possible=possible), find_full_start_limit(request.user)
    context = {"form": form, "picker": picker, "full": full, "late": scheduler_late()}
    return render_page(request, "notebooks/new.html", context, fragment="notebooks/_promises.html", status=status)


def _hours(max_time: object) -> int | None:
    return parse_duration(max_time) // 3600 or None if max_time else None
