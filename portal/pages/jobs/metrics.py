"""View model of a job's Metrics tab: its curves, with marks for what happened."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property

from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from events.models import Event
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from portal.pages.charts import JOB_CHARTS, ChartSet, Mark, list_ranges

MOST_MARKS = 200
MARKS: dict[tuple[str, str], Promise] = {
    ("job", JobState.RUNNING): gettext_lazy("start"),
    ("job", JobState.QUEUED): gettext_lazy("queued again"),
    ("task", "resized"): gettext_lazy("resized"),
    ("task", TaskState.LOST): gettext_lazy("not seen"),
}
PREEMPTED = gettext_lazy("preempted")
CHECKPOINT = gettext_lazy("last checkpoint")


class JobMetrics:
    """The curves of a job, from its first start on."""

    def __init__(self, job: Job, tasks: Sequence[Task], begin: datetime | None):
        self.job = job
        self.tasks = tasks
        self.begin = begin

    @property
    def has_started(self) -> bool:
        return self.begin is not None

    @cached_property
    def charts(self) -> ChartSet:
        return ChartSet(
            urls=[f"/api/v1/jobs/{self.job.public_id}/metrics"],
            charts=JOB_CHARTS,
            ranges=list_ranges(self.begin, self.job.ended_at),
            watch=self.job.public_id,
            begin=self.begin,
            end=self.job.ended_at,
            marks=build_marks(load_marked_events(self.job), self.tasks),
            version=str(self.job.attempt),
        )


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
