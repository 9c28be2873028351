"""View model of a job's Metrics tab: its curves, with marks for what happened, and who of a gang is slow."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from events.models import Event
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from monitoring.series.share_activity import load_share_activity
from monitoring.series.stragglers import LEAST_RANKS, find_stragglers
from portal.pages.charts import JOB_CHARTS, ChartSet, Mark, list_ranges
from portal.pages.jobs.view_model import describe_place
from portal.wording.time_of_day import clock

MOST_MARKS = 200
LOOKS_BACK = timedelta(hours=2)
STEP_S = 60
MARKS: dict[tuple[str, str], Promise] = {
    ("job", JobState.RUNNING): gettext_lazy("start"),
    ("job", JobState.QUEUED): gettext_lazy("queued again"),
    ("task", "resized"): gettext_lazy("resized"),
    ("task", TaskState.LOST): gettext_lazy("not seen"),
}
PREEMPTED = gettext_lazy("preempted")
CHECKPOINT = gettext_lazy("last checkpoint")


@dataclass(frozen=True)
class SlowTask:
    """A task that holds back its gang, in words. series: its lines in the charts."""

    words: str
    series: tuple[str, ...]


class JobMetrics:
    """The curves of a job, from its first start on. tasks: of the newest attempt."""

    def __init__(self, job: Job, tasks: Sequence[Task], begin: datetime | None):
        self.job = job
        self.tasks = tasks
        self.begin = begin

    @property
    def has_started(self) -> bool:
        return self.begin is not None

    @cached_property
    def slow_tasks(self) -> list[SlowTask]:
        running = [task for task in self.tasks if task.state == TaskState.RUNNING and task.cards]
        return list_slow_tasks(running) if len(running) >= LEAST_RANKS else []

    @cached_property
    def charts(self) -> ChartSet:
        return ChartSet(
            urls=[reverse("api-job-metrics", args=[self.job.public_id])],
            charts=JOB_CHARTS,
            ranges=list_ranges(self.begin, self.job.ended_at),
            watch=self.job.public_id,
            begin=self.begin,
            end=self.job.ended_at,
            marks=build_marks(load_marked_events(self.job), self.tasks),
            apart=[name for slow in self.slow_tasks for name in slow.series],
            version=str(self.job.attempt),
        )


def list_slow_tasks(tasks: Sequence[Task]) -> list[SlowTask]:
    """Say which of them are slower than the others now, and since when."""
    now = timezone.now()
    seen = load_share_activity(tasks, now - LOOKS_BACK, now, STEP_S)
    found = find_stragglers({task: np.mean(parts, axis=0) for task, parts in seen.rows.items()}, seen.step_s)
    return [
        _describe_slow(task, slow.behind, seen.start + slow.since_slot * timedelta(seconds=seen.step_s))
        for task, slow in found.items()
    ]


def _describe_slow(task: Task, behind: float, since: datetime) -> SlowTask:
    words = _("%(task)s is %(percent)s %% slower than the others since %(since)s (%(place)s).") % {
        "task": task.name,
        "percent": round(100 * behind),
        "since": clock(since),
        "place": describe_place(task),
    }
    return SlowTask(words, tuple(f"share:{task.uuid.hex}:{card['uuid']}" for card in task.cards))


def load_marked_events(job: Job) -> list[Event]:
    tasks = list(Task.objects.filter(job=job).values_list("pk", flat=True))
    which = Q(kind="job", object_id=job.pk) | Q(kind="task", object_id__in=tasks)
    return list(Event.objects.filter(which).order_by("-id")[:MOST_MARKS])[::-1]


def build_marks(events: Iterable[Event], tasks: Iterable[Task]) -> list[Mark]:
    """Return the moments that explain a curve: starts, resizes, preemptions, losses, and the newest checkpoint.

    Of several at the same moment in tasks of a gang, the first stands for all.
    """
    found = {(mark.words, mark.at.replace(microsecond=0)): mark for mark in map(_read_mark, events) if mark}
    saved = max((task.checkpointed_at for task in tasks if task.checkpointed_at), default=None)
    last = [Mark(saved, str(CHECKPOINT))] if saved else []
    return sorted([*found.values(), *last], key=lambda mark: mark.at)


def _read_mark(event: Event) -> Mark | None:
    if event.kind == "task" and "lost_s" in event.params:
        return Mark(event.at, str(PREEMPTED))
    words = MARKS.get((event.kind, event.to_state or event.verb.removeprefix(f"{event.kind}.")))
    return None if words is None else Mark(event.at, str(words))
