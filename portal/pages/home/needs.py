"""What needs a person among one's own work, what would be lost first: a pure reading of what the pages show of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.states import JobState, TaskState
from jobs.time_limits import LEAST_LIMIT_S, WARN_BEFORE
from portal.pages.jobs.view_model import JobView
from portal.pages.notebooks.view_model import NotebookView
from portal.wording.time_of_day import clock

LOOKS = {
    "unseen": ("fault", "question-mark"),
    "failed": ("fault", "alert-circle"),
    "ends": ("idle", "clock"),
    "idle": ("idle", "zzz"),
    "never": ("fault", "ban"),
    "late": ("wait", "hourglass"),
}
"""{kind: (tone, icon)}, in the order in which they are told."""


@dataclass(frozen=True)
class Need:
    """One thing that needs its owner. words: after its name. note: what else is known of it."""

    kind: str
    view: JobView | NotebookView
    words: str
    note: str = ""

    @property
    def tone(self) -> str:
        return LOOKS[self.kind][0]

    @property
    def icon(self) -> str:
        return LOOKS[self.kind][1]

    @property
    def is_notebook(self) -> bool:
        return isinstance(self.view, NotebookView)


def list_needs(
    jobs: Iterable[JobView],
    notebooks: Iterable[NotebookView],
    failed: Iterable[JobView],
    promised: Mapping[int, datetime],
    now: datetime,
) -> list[Need]:
    """Return what needs the person, each job and notebook once.

    jobs, notebooks: unfinished ones. failed: jobs whose failure is news. promised: by when each waiting job was first
    expected to have started, by its id.
    """
    needs = [Need("failed", view, _("failed."), f"{view.end} {view.hint}".strip()) for view in failed]
    for notebook in notebooks:
        needs += _first(_judge_notebook(notebook, now))
    for job in jobs:
        needs += _first(_judge_job(job, promised.get(job.job.pk), now))
    order = list(LOOKS)
    return sorted(needs, key=lambda need: order.index(need.kind))


def describe_needs(count: int) -> str:
    return ngettext("%(count)s thing needs you.", "%(count)s things need you.", count) % {"count": count}


def _first(needs: Iterator[Need]) -> list[Need]:
    need = next(needs, None)
    return [need] if need else []


def _judge_notebook(view: NotebookView, now: datetime) -> Iterator[Need]:
    if view.start is None or not view.is_started:
        return
    yield from _judge_tasks(view, view.start)
    if view.stops_at and view.stops_soon:
        at = clock(view.stops_at, now)
        yield Need("ends", view, _("ends at %(at)s, in %(left)s.") % {"at": at, "left": view.left})
    yield from _judge_idle(view)


def _judge_job(view: JobView, promised: datetime | None, now: datetime) -> Iterator[Need]:
    yield from _judge_tasks(view, view)
    if view.is_waiting:
        yield from _judge_wait(view, promised, now)
    if view.ends_at and now < view.ends_at <= now + WARN_BEFORE and (view.job.max_time_s or 0) >= LEAST_LIMIT_S:
        words = _("ends at %(at)s by its time limit.") % {"at": clock(view.ends_at, now)}
        yield Need("ends", view, words, _saved(view))
    yield from _judge_idle(view)


def _judge_tasks(view: JobView | NotebookView, job: JobView) -> Iterator[Need]:
    lost = next((task for task in job.tasks if task.state == TaskState.LOST and task.node), None)
    if lost and lost.node:
        note = _("It may go on there. It is known again when the machine is back.")
        yield Need("unseen", view, _("runs on %(node)s, which is not seen.") % {"node": lost.node.name}, note)


def _judge_idle(view: JobView | NotebookView) -> Iterator[Need]:
    if row := view.idle:
        words = ngettext("has been idle for %(n)s minute.", "has been idle for %(n)s minutes.", row.minutes)
        act = row.acts if row.finding == "idle" and not row.exempt_until else ""
        yield Need("idle", view, words % {"n": row.minutes}, act or row.next)


def _judge_wait(view: JobView, promised: datetime | None, now: datetime) -> Iterator[Need]:
    if view.job.held_at is not None:
        return
    if any(reason["code"] == "impossible" for reason in view.job.wait_reasons):
        yield Need("never", view, _("cannot start as it is."), view.reason)
    elif view.is_unexplained:
        yield Need("late", view, _("waits, and nobody has said why."), view.reason)
    elif promised and promised < now:
        words = _("should have started by %(at)s and still waits.") % {"at": clock(promised, now)}
        yield Need("late", view, words, " ".join(filter(None, (view.place, view.reason))))


def _saved(view: JobView) -> str:
    if view.job.state != JobState.RUNNING or view.saved_at is None:
        return _("It has saved no checkpoint since its start.")
    return _("Its last checkpoint is of %(at)s.") % {"at": clock(view.saved_at)}
