"""View model of one's own work on the home page: what needs one, what runs, waits and has ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from django.db.models import Case, Exists, IntegerField, OuterRef, Value, When
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import ApiToken, SshKey, User
from common.resources import parse_gpu, show_duration, show_memory
from jobs.arrays.models import JobArray
from jobs.models import Job, JobQuerySet, Task
from jobs.states import JOB_FINAL, JobState
from monitoring.samples.newest import TaskUse, load_task_uses
from notebooks.models import Notebook
from portal.pages.arrays.view_model import ArrayView
from portal.pages.cluster.scheduler_pulse import scheduler_late
from portal.pages.home.needs import Need, describe_needs, list_needs
from portal.pages.jobs.activity import Activity
from portal.pages.jobs.view_model import JobRights, JobView, view_jobs
from portal.pages.notebooks.view_model import NotebookView, view_notebooks
from portal.wording.efficiency import Meter
from portal.wording.resources import describe_gpu
from portal.wording.starts import describe_start
from portal.wording.time_of_day import clock
from scheduler.preview.possible_asks import PossibleAsks
from scheduler.preview.stored_forecasts import load_first_promises, load_forecasts

MOST_ROWS, MOST_ENDED, MOST_FAILED, MOST_ARRAYS = 60, 5, 5, 20
NEWS = timedelta(hours=24)
"""So long a failure needs its owner, unless the job was sent again."""
IN_ORDER = {JobState.RUNNING: 0, JobState.STARTING: 1, JobState.STOPPING: 2, JobState.QUEUED: 3}


@dataclass(frozen=True)
class RunningRow:
    """What runs, in one line. job: of a notebook, that of its start."""

    view: JobView | NotebookView
    job: JobView
    memory: Meter | None

    @property
    def notebook(self) -> NotebookView | None:
        return self.view if isinstance(self.view, NotebookView) else None

    @property
    def where(self) -> str:
        """The first place, and how many more there are."""
        first, *others = self.job.where or [""]
        return f"{first} +{len(others)}" if others else first

    @property
    def activity(self) -> Activity | None:
        return self.job.activity

    @property
    def runs(self) -> bool:
        return self.job.job.state == JobState.RUNNING

    @property
    def ends(self) -> str:
        """Say when it ends: at its stop time or time limit, or about when by its expected time; "" if unknown."""
        at = self.view.stops_at if isinstance(self.view, NotebookView) else self.job.ends_at
        if at:
            return clock(at)
        if self.notebook or not self.job.job.time_s or self.job.started_at is None:
            return ""
        return f"~{clock(self.job.started_at + timedelta(seconds=self.job.job.time_s))}"

    @property
    def time(self) -> Meter | None:
        """How much of its time limit, or else of its expected time, has passed; None without one."""
        limit, began = self.job.job.max_time_s or self.job.job.time_s, self.job.started_at
        if not limit or began is None or self.notebook:
            return None
        ran = int((timezone.now() - began).total_seconds())
        words = {"ran": show_duration(ran // 60 * 60 or ran), "limit": show_duration(limit)}
        return Meter("", _("%(ran)s of %(limit)s") % words, min(100 * ran / limit, 100.0), "quiet")


@dataclass(frozen=True)
class WaitingRow:
    view: JobView
    starts: str


class Desk:
    """What one person has going."""

    def __init__(self, user: User):
        self.user = user

    @cached_property
    def needs(self) -> list[Need]:
        promised = load_first_promises([view.job for view in self._waiting])
        return list_needs(self._jobs, self.notebooks, self._failed, promised, timezone.now())

    @property
    def headline(self) -> str:
        return describe_needs(len(self.needs)) if self.needs else ""

    @property
    def counts(self) -> str:
        """Say how much runs and waits: "10 run, 2 wait"."""
        parts = []
        if running := len(self.running):
            parts.append(ngettext("%(n)s runs", "%(n)s run", running) % {"n": running})
        if waiting := len(self._waiting):
            parts.append(ngettext("%(n)s waits", "%(n)s wait", waiting) % {"n": waiting})
        return _("%(what)s.") % {"what": ", ".join(parts)} if parts else ""

    @cached_property
    def running(self) -> list[RunningRow]:
        """Notebooks first, then what runs, starts and stops."""
        active = [view for view in self._jobs[:MOST_ROWS] if not view.is_waiting]
        started = [(view, view.start) for view in self.notebooks if view.start and not view.is_waiting]
        found = [*started, *((view, view) for view in active)]
        uses = load_task_uses(task.pk for _view, job in found for task in job.tasks)
        return [RunningRow(view, job, measure_memory(job.tasks, uses)) for view, job in found]

    @cached_property
    def waiting(self) -> list[WaitingRow]:
        forecasts = load_forecasts([view.job for view in self._waiting])
        in_order = sorted(self._waiting, key=lambda view: view.job.wait_position or 10**9)
        return [WaitingRow(view, describe_start(forecasts.get(view.job.pk))) for view in in_order]

    @property
    def has_more(self) -> bool:
        return len(self._jobs) > MOST_ROWS

    @cached_property
    def ended(self) -> list[JobView]:
        jobs = self._mine().filter(state__in=JOB_FINAL).order_by("-ended_at")
        return view_jobs(jobs[:MOST_ENDED], self.user)

    @cached_property
    def notebooks(self) -> list[NotebookView]:
        mine = Notebook.objects.live().filter(user=self.user)
        return view_notebooks(mine.started().with_names().order_by("-job_id"), self.user)

    @cached_property
    def arrays(self) -> list[ArrayView]:
        """Open arrays, each in one line instead of its elements."""
        mine = JobArray.objects.visible_to(self.user).filter(user=self.user).open().with_names()
        rights = JobRights(self.user)
        return [ArrayView(array, rights) for array in mine.defer("spec")[:MOST_ARRAYS]]

    @property
    def has_simulated_cards(self) -> bool:
        return any(row.job.has_simulated_cards for row in self.running)

    @cached_property
    def is_new(self) -> bool:
        """Whether the user has done nothing yet, and sees first steps."""
        has_notebooks = Notebook.objects.live().filter(user=self.user).exists()
        return not self._jobs and not self.ended and not has_notebooks and not self.arrays

    @property
    def usual_size(self) -> str:
        """What the example asks, in words."""
        return describe_gpu(parse_gpu(PossibleAsks(self.user).usual))

    @cached_property
    def has_token(self) -> bool:
        return ApiToken.objects.live().filter(user=self.user).exists()

    @cached_property
    def has_ssh_key(self) -> bool:
        return SshKey.objects.live().filter(user=self.user).exists()

    @cached_property
    def is_scheduler_late(self) -> bool:
        return scheduler_late()

    @cached_property
    def _jobs(self) -> list[JobView]:
        """Unfinished jobs: running, starting, stopping, waiting."""
        order = Case(*(When(state=state, then=Value(n)) for state, n in IN_ORDER.items()), output_field=IntegerField())
        return view_jobs(self._mine().open().annotate(rank=order).order_by("rank", "-id")[: MOST_ROWS + 1], self.user)

    @property
    def _waiting(self) -> list[JobView]:
        notebooks = [view.start for view in self.notebooks if view.is_waiting and view.start]
        return notebooks + [view for view in self._jobs[:MOST_ROWS] if view.is_waiting]

    @cached_property
    def _failed(self) -> list[JobView]:
        again = Job.objects.filter(user=self.user, name=OuterRef("name"), pk__gt=OuterRef("pk")).exclude(name="")
        failed = self._mine().filter(state=JobState.FAILED, ended_at__gt=timezone.now() - NEWS)
        return view_jobs(failed.exclude(Exists(again)).order_by("-ended_at")[:MOST_FAILED], self.user)

    def _mine(self) -> JobQuerySet:
        mine = Job.objects.visible_to(self.user).filter(user=self.user, array=None).of_kind("")
        return mine.with_names().defer("spec", "labels")


def measure_memory(tasks: Iterable[Task], uses: dict[int, TaskUse]) -> Meter | None:
    """Return how much of the memory of its shares of cards a job uses; None where it holds none or it is not known."""
    pairs = [
        (use.used_mib, card.get("memory_mib") or 0)
        for task in tasks
        if task.pk in uses
        for card in task.cards
        if (use := uses[task.pk].shares.get(card["uuid"])) and use.used_mib is not None
    ]
    used, most = (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0, 0)
    if not most:
        return None
    value, _space, unit = show_memory(used).rpartition(" ")
    shown = value if show_memory(most).endswith(f" {unit}") else f"{value} {unit}"  # "7.1 of 8.5 GB"
    words = _("%(used)s of %(most)s") % {"used": shown, "most": show_memory(most)}
    return Meter("", words, min(100 * used / most, 100.0))
