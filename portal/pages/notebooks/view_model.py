"""View model of a notebook."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import User
from common.errors import NotFound
from common.resources import parse_gpu, show_duration
from jobs.models import Task
from jobs.states import TaskState
from monitoring.idle.requests import find_released
from notebooks.models import Notebook
from notebooks.states import NotebookState
from portal.access.idle_rows import IdleRow
from portal.access.ssh_endpoint import find_ssh_endpoint
from portal.pages.alerts.view_model import AlertView, find_planned_stop
from portal.pages.jobs.view_model import JobRights, JobView, view_jobs
from portal.wording.resources import describe_gpu
from schedules.models import Schedule

NOTEBOOK_ID = re.compile(r"nb-([1-9][0-9]{0,17})")
SOON = timedelta(minutes=15)
"""So long before its end a notebook warns."""


def find_notebook(user: User, notebook_id: str) -> Notebook:
    """Return the visible notebook with this id ("nb-51"). Raises NotFound."""
    named = NOTEBOOK_ID.fullmatch(notebook_id)
    found = Notebook.objects.visible_to(user).with_names().filter(pk=named[1]).first() if named else None
    if found is None:
        raise NotFound()
    return found


class NotebookView:
    """A notebook as one user sees it; `start`: its newest start's job."""

    def __init__(self, notebook: Notebook, user: User, start: JobView | None = None):
        self.notebook = notebook
        self.user = user
        self.start = start or (JobView(notebook.job, JobRights(user)) if notebook.job else None)
        self.state = notebook.state

    @property
    def id(self) -> str:
        return self.notebook.public_id

    @property
    def name(self) -> str:
        return self.notebook.name

    @property
    def is_own(self) -> bool:
        """Whether the user owns it; others only see that it exists."""
        return self.notebook.user_id == self.user.pk

    @property
    def idle(self) -> IdleRow | None:
        """Return what is told of it while it is idle."""
        return self.start.idle if self.start else None

    @cached_property
    def planned_stop(self) -> AlertView | None:
        """Return the alert that stops it soon, if it concerns the reader."""
        if self.start is None or self.start.has_ended:
            return None
        return find_planned_stop(self.start.job.pk, self.user)

    @cached_property
    def may_resume(self) -> bool:
        """Whether a rule took its GPU, and it may have it again."""
        return self.is_own and find_released(self.notebook) is not None

    @cached_property
    def schedules(self) -> list[Schedule]:
        """Return those that start it, by the time of their next run; suspended ones come last."""
        rows = Schedule.objects.filter(notebook=self.notebook)
        return list(rows.order_by(F("next_at").asc(nulls_last=True), "pk"))

    # ---- state ----

    @property
    def state_label(self) -> str:
        return str(NotebookState(self.state).label)

    @property
    def is_waiting(self) -> bool:
        return self.state == NotebookState.QUEUED

    @property
    def is_running(self) -> bool:
        return self.state == NotebookState.RUNNING

    @property
    def is_stopping(self) -> bool:
        return self.state == NotebookState.STOPPING or (self._stop_wanted and self.is_started)

    @property
    def is_started(self) -> bool:
        return self.notebook.is_started

    @property
    def has_failed(self) -> bool:
        return self.state == NotebookState.FAILED

    @property
    def may_open(self) -> bool:
        return self.is_own and self.is_started and not self.is_stopping

    @property
    def may_start(self) -> bool:
        return self.is_own and not self.is_started

    @property
    def may_stop(self) -> bool:
        return self.is_own and self.is_started and not self._stop_wanted

    @property
    def _stop_wanted(self) -> bool:
        return self.notebook.job is not None and self.notebook.job.stop_requested_at is not None

    @property
    def sentence(self) -> str:
        """Say what it does now, and where."""
        if self.start is None:
            return _("Not started yet.")
        if self.has_failed or not self.is_started:
            return self.ended
        if self.is_waiting and not self._stop_wanted:
            return self.start.sentence
        if self.is_stopping:
            return _("Stopping.")
        where = {"where": " · ".join(self.where) or _("a node")}
        if self.is_running:
            return _("Running on %(where)s.") % where
        return _("Starting on %(where)s.") % where

    @property
    def ended(self) -> str:
        """Say why the last start ended, or ""."""
        return self.start.end if self.start else ""

    @property
    def ended_at(self) -> datetime | None:
        return self.notebook.job.ended_at if self.notebook.job else None

    @property
    def hint(self) -> str:
        return self.start.hint if self.start and self.has_failed else ""

    # ---- size and place ----

    @property
    def gpu(self) -> str:
        return str(self.notebook.spec["gpu"])

    @property
    def ask(self) -> str:
        """The GPU request in words."""
        return describe_gpu(parse_gpu(self.gpu))

    @property
    def now_ask(self) -> str:
        """Return the running request if the next differs, else ""."""
        held = self.start.ask if self.start and self.is_started else self.ask
        return "" if held == self.ask else held

    @property
    def where(self) -> list[str]:
        return self.start.where if self.start else []

    @property
    def has_simulated_cards(self) -> bool:
        return self.start is not None and self.start.has_simulated_cards

    @cached_property
    def task(self) -> Task | None:
        return self.start.tasks[0] if self.start and self.start.tasks else None

    @property
    def folder(self) -> str:
        return f"~/{self.notebook.folder}"

    # ---- its end ----

    @property
    def stops_at(self) -> datetime | None:
        return self.notebook.stops_at if self.is_started else None

    @property
    def left(self) -> str:
        if self.stops_at is None:
            return ""
        return show_duration(60 * max(int((self.stops_at - timezone.now()).total_seconds()) // 60, 0))

    @property
    def stops_soon(self) -> bool:
        return self.stops_at is not None and self.stops_at - timezone.now() <= SOON

    # ---- connections ----

    @cached_property
    def ssh_command(self) -> str:
        endpoint = find_ssh_endpoint()
        return f"ssh -p {endpoint.port} {self.name}@{endpoint.host}" if endpoint else ""

    @property
    def has_container(self) -> bool:
        """Whether its container runs, JupyterLab or not."""
        return self.task is not None and self.task.state == TaskState.RUNNING and not self.is_stopping

    @property
    def cli_command(self) -> str:
        return f"tessera open {self.name} --in vscode"


def view_notebooks(notebooks: Iterable[Notebook], user: User) -> list[NotebookView]:
    """Return views of `notebooks` (with_names) in a constant number of queries."""
    notebooks = list(notebooks)
    starts = {view.job.pk: view for view in view_jobs([one.job for one in notebooks if one.job], user)}
    return [NotebookView(one, user, starts.get(one.job_id)) for one in notebooks]
