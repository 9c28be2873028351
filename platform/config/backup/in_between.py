"""What ran between a backup and its restore: the restored rows compared with what the runtime shows.

Nothing is ended here, and nothing is given to another job.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from accounts.models import Team, User
from events.record_and_publish import Actor, record
from jobs.arrays.models import JobArray
from jobs.lifecycle import TaskMove, lock_job, move_tasks
from jobs.models import Job, Task
from jobs.states import HOLDING, TASK_FINAL, JobState, TaskState
from runtimes.contract.container import ContainerView
from runtimes.contract.runtime import Runtime
from scheduler.reconcile.orphans import load_orphans

RESTORE = Actor("restore")
ALIVE = ("starting", "running", "lost")

Kind = Literal["runs", "ended", "apart", "gone", "lost", "began"]
WORDS: dict[Kind, str] = {
    "runs": "still runs, and is this job's again.",
    "ended": "has ended meanwhile; its end is recorded when the platform starts.",
    "apart": "still runs, but not under this platform's records. It keeps its share. End it, then settle the task.",
    "gone": "is gone. It ends as container_lost; the job's own retry rules decide whether it is queued again.",
    "lost": "was lost before the backup already, and still is.",
    "began": "waited at the backup and has begun since. It is left alone; the job is held, so that it runs once.",
}
"""What is said after the task's name."""


@dataclass(frozen=True)
class Found:
    """What became of a task. kind: see WORDS."""

    kind: Kind
    task: Task


def compare_with_runtime(
    tasks: Iterable[Task], seen: Sequence[ContainerView], remains: Collection[str] = ()
) -> Iterator[Found]:
    """Yield what became of tasks that had not ended (pure). remains: uuids of those that run without records."""
    views = {view.uuid: view for view in seen}
    for task in tasks:
        view = views.get(task.uuid.hex)
        if task.state not in HOLDING:
            if view is not None or task.uuid.hex in remains:
                yield Found("began", task)
        elif view is not None:
            yield Found("runs" if view.phase in ALIVE else "ended", task)
        elif task.uuid.hex in remains:
            yield Found("apart", task)
        else:
            yield Found("lost" if task.state == TaskState.LOST else "gone", task)


@transaction.atomic
def record_in_between(runtime: Runtime, made_at: datetime, *, hold_waiting: bool) -> list[str]:
    """Write what became of tasks into their jobs' histories, and return what to tell, a line each.

    hold_waiting: keep all waiting jobs from starting, as some may have run since. Raises Unavailable.
    """
    seen = runtime.list_containers()
    tasks = list(Task.objects.exclude(state__in=TASK_FINAL).select_related("job", "node").order_by("job_id", "rank"))
    finder = runtime.capabilities.remains
    remains = import_string(finder)([task.uuid.hex for task in tasks]) if finder else ()
    found = list(compare_with_runtime(tasks, seen, remains))
    for one in found:
        _reconcile_task(one, f"{made_at:%F %H:%M} UTC")
    held = _hold_waiting_jobs() if hold_waiting else 0
    lines = [f"{one.task} {WORDS[one.kind]}" for one in found]
    lines += [_describe_orphan(view) for view in load_orphans(seen)]
    waiting = Job.objects.waiting().count()
    if held:
        lines.append(f"{waiting} jobs wait, all of them held: release those that have not run since the backup.")
    elif waiting:
        lines.append(f"{waiting} jobs wait, and start as usual; any that ran after the backup run once more.")
    return [*lines, *_find_unknown_files()]


def _reconcile_task(one: Found, made_at: str) -> None:
    """Put down what was found. What is gone becomes lost and settled: reconciling makes sure, then ends it."""
    job = lock_job(one.task.job_id)
    task = Task.objects.get(pk=one.task.pk)
    task.job = job
    if one.kind in ("gone", "apart") and task.state != TaskState.LOST:
        move_tasks([TaskMove(task, TaskState.LOST)], actor=RESTORE)
    if one.kind == "gone":
        why = f"nothing of it was found when the backup of {made_at} was restored"
        Task.objects.filter(pk=task.pk).update(settled={"by": RESTORE.name, "why": why})
    if one.kind == "began":  # its name is taken: what runs under it was placed by decisions that are not known here
        Task.objects.filter(pk=task.pk).update(uuid=uuid4())
        _hold(job)
    record(job, "restored", actor=RESTORE, params={"kind": one.kind, "task_name": task.name, "made_at": made_at})


def _hold_waiting_jobs() -> int:
    waiting = list(Job.objects.waiting().filter(held_at=None))
    for job in waiting:
        _hold(job)
        record(job, "held", actor=RESTORE)
    # Of an array nothing more is made either, until its owner lets it go on.
    JobArray.objects.open().filter(halted_at=None, made__lt=F("total")).update(halted_at=Now())
    return len(waiting)


def _hold(job: Job) -> None:
    if job.state == JobState.QUEUED and job.held_at is None:
        Job.objects.filter(pk=job.pk).update(held_at=Now(), held_by=RESTORE.name)


def _describe_orphan(view: ContainerView) -> str:
    since = f"since {view.started_at:%F %H:%M} UTC" if view.started_at else "it has not begun"
    return (
        f"{view.uuid} on {view.node or 'no machine'} ({view.phase}, {since}) belongs to no job of the backup. "
        f"It is left alone. To end it: manage.py strangers --end {view.uuid}"
    )


def _find_unknown_files() -> Iterator[str]:
    """Name logs and areas on disk that nobody in the database has: they were made after the backup."""
    logs = {path.stem for path in Path(settings.TESSERA_LOGS).glob("??/*.log")}
    known = {uuid.hex for uuid in Task.objects.filter(uuid__in=_read_uuids(logs)).values_list("uuid", flat=True)}
    if unknown := sorted(logs - known):
        where = settings.TESSERA_LOGS
        yield f"{len(unknown)} logs in {where} are of tasks that the backup does not know: {_name(unknown)}."
    owners: Mapping[str, set[int]] = {
        "home": set(User.objects.values_list("uid", flat=True)),
        "team": set(Team.objects.values_list("gid", flat=True)),
    }
    for kind, numbers in owners.items():
        found = {int(path.name) for path in (Path(settings.TESSERA_FILES) / kind).glob("[0-9]*")}
        if strange := [str(number) for number in sorted(found - numbers)]:
            where, names = Path(settings.TESSERA_FILES) / kind, _name(strange)
            yield f"{len(strange)} folders in {where} are nobody's in the backup: {names}. Nobody gets their numbers."


def _read_uuids(names: Iterable[str]) -> list[str]:
    return [name for name in names if len(name) == 32]


def _name(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
