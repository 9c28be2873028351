"""The page that shows how far a notebook's start is."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from common.errors import NotFound, Unavailable
from common.resources import parse_gpu
from notebooks.environment import FAILED, PREPARING, EnvironmentState, environment_state
from notebooks.services import mark_opened
from notebooks.start_phases import Phase, load_start_phases
from portal.access.app_links import link_to_notebook
from portal.pages.cluster.scheduler_pulse import scheduler_late
from portal.pages.jobs import detail as job_detail
from portal.pages.notebooks.sizes import SIZES, Size, sizes_for
from portal.pages.notebooks.view_model import NotebookView, find_notebook
from portal.pages.own_limits import FullLimit, find_full_start_limit
from portal.pages.request_guards import signed_in
from portal.partial import render_page, wants_fragment
from portal.wording.errors import describe_error
from portal.wording.resources import show_elapsed

PHASE_WORDS = {
    "queue": gettext_lazy("Waiting for resources"),
    "place": gettext_lazy("Sending it to its machine"),
    "container": gettext_lazy("Starting its container"),
    "jupyter": gettext_lazy("Loading JupyterLab"),
}
PREPARING_WORDS = {
    "waiting": gettext_lazy("waiting to begin"),
    "making": gettext_lazy("creating an environment"),
    "installing": gettext_lazy("installing packages"),
    "compiling": gettext_lazy("compiling them, so that notebooks start faster"),
}


@never_cache
@require_safe
@signed_in
def open_notebook(request: HttpRequest, notebook_id: str) -> HttpResponse:
    """Redirect to a ready notebook or show its progress; never starts it.

    ?watch=1: the page navigates itself, as forms allow no redirect to another origin; only that visit marks it opened,
    as a poll's response may be dropped. It also presses Start once the environment is ready.
    ?autostart=1: focuses Start.
    """
    view = NotebookView(find_notebook(request.user, notebook_id), request.user)
    if not view.is_own:  # admins only see that it exists
        raise NotFound()
    page = StartProgressPage(view, autostart="autostart" in request.GET, wanted="watch" in request.GET)
    if page.link and not wants_fragment(request) and not page.wanted:
        mark_opened(notebook=view.notebook)
        return HttpResponseRedirect(page.link)
    return render_page(request, "notebooks/open.html", {"page": page, "view": view}, fragment="notebooks/_open.html")


@dataclass(frozen=True)
class Step(job_detail.Phase):
    """A phase of a start and its usual duration."""

    usual: str = ""
    usual_s: float | None = None

    @property
    def is_slow(self) -> bool:
        """Whether it takes more than twice its usual time."""
        if not self.now or self.since is None or not self.usual_s:
            return False
        return (timezone.now() - self.since).total_seconds() > max(2 * self.usual_s, 5)


class StartProgressPage:
    """View model of that page. wanted: just requested."""

    def __init__(self, view: NotebookView, *, autostart: bool = False, wanted: bool = False):
        self.view = view
        self.autostart = autostart
        self.wanted = wanted

    @cached_property
    def link(self) -> str:
        """URL of the ready notebook, or ""."""
        if not self.view.is_running or self.view.is_stopping:
            return ""
        try:
            address = link_to_notebook(self.view.notebook)
        except Unavailable as error:
            self.trouble = describe_error(error)
            return ""
        # JupyterLab picks a first page; later visits restore tabs
        return address + "lab" if self.view.notebook.opened_at else address

    trouble = ""
    """Why a running notebook cannot be opened from here."""

    @cached_property
    def environment(self) -> EnvironmentState:
        return environment_state()

    @property
    def preparing(self) -> str:
        """What its installation is doing, or ""."""
        return str(PREPARING_WORDS.get(self.environment["step"], ""))

    @property
    def is_preparing(self) -> bool:
        return self.environment["state"] == PREPARING

    @property
    def cannot_prepare(self) -> bool:
        return self.environment["state"] == FAILED

    @cached_property
    def is_scheduler_late(self) -> bool:
        return self.view.is_waiting and scheduler_late()

    @property
    def head(self) -> str:
        """Say how far the start is."""
        name = {"name": self.view.name}
        if self.link:
            return _("%(name)s is ready and opens now.") % name
        if self.view.is_stopping:
            return _("%(name)s is stopping.") % name
        if self.view.has_failed:
            return _("%(name)s could not continue.") % name
        if self.wanted and self.is_preparing:
            return _("%(name)s starts as soon as JupyterLab is installed.") % name
        if self.view.start is None:
            return _("%(name)s has not been started yet.") % name
        if not self.view.is_started:
            return _("%(name)s is stopped; its files are kept.") % name
        if self.view.is_waiting:
            return _("%(name)s is waiting for resources; it opens automatically.") % name
        return _("%(name)s is starting; it opens automatically.") % name

    @cached_property
    def detail(self) -> job_detail.JobDetail | None:
        """The page of the start's job, for its log."""
        return job_detail.JobDetail(self.view.start, "log", "") if self.view.start else None

    @property
    def steps(self) -> list[Step]:
        """The phases of the start, with usual durations."""
        return [self._step(phase) for phase in load_start_phases(self.view.notebook)]

    def _step(self, phase: Phase) -> Step:
        last = phase.began_at is not None and phase.took_s is None
        return Step(
            str(PHASE_WORDS[phase.name]),
            done=phase.took_s is not None,
            now=last and self.view.is_started,
            fault=last and self.view.has_failed,
            since=phase.began_at,
            took=_show_seconds(phase.took_s),
            usual=_show_seconds(phase.usual_s),
            usual_s=phase.usual_s,
        )

    @cached_property
    def smaller(self) -> list[Size]:
        """Return smaller sizes that could start now, largest first."""
        if not self.view.is_waiting:
            return []
        below = [gpu for gpu in SIZES if weight(gpu) < weight(self.view.gpu)]
        found = sizes_for(self.view.user, tuple(below), self.view.notebook.team.name, notebook=self.view.notebook)
        return [size for size in reversed(found) if size.starts]

    @cached_property
    def full(self) -> FullLimit | None:
        """Return what refuses its start, for its owner."""
        return find_full_start_limit(self.view.user, self.view.notebook) if self.view.may_start else None


def _show_seconds(seconds: float | None) -> str:
    now = timezone.now()
    return "" if seconds is None else show_elapsed(now, now + timedelta(seconds=seconds))


def weight(gpu: str) -> float:
    """Return thousandths of a card for comparison; a memory slice is just under one."""
    ask = parse_gpu(gpu)
    if ask.part is not None:
        return 1000 * ask.part[0] / ask.part[1]
    return 999.0 if ask.memory_gb is not None else 1000.0 * ask.count
