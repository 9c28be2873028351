"""Read what held jobs did: the newest samples of all, and windows of those that may be idle."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.db.models import F, Max

from cluster.models import Gpu
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from monitoring.idle.evidence import Kernels, Limits, ShareWindow, Signal, TaskWindow, Values, Window
from monitoring.models import IdleTouch, IdleWatch, TaskNow
from monitoring.series.frames import Frame, load_frame
from monitoring.series.keys import COLUMNS, Key, Kind
from notebooks.models import Notebook

STEP_S = 10
A_MINUTE_OF_TICKS = 60 / STEP_S
TASK_COLUMNS = ("cpu_milli", "processes", "read_kib_s", "write_kib_s", "net_rx_kib_s", "net_tx_kib_s")


@dataclass(frozen=True)
class HeldJob:
    """A running job that holds cards. gpus: their ids by (machine, uuid). notebook: whose start it is."""

    job: Job
    tasks: Sequence[Task]
    gpus: Mapping[tuple[int | None, str], int]
    notebook: Notebook | None = None

    def list_keys(self) -> list[Key]:
        return [key for task in self.tasks for key in _list_keys(task, self.gpus)]


def load_held_jobs(jobs: Iterable[int] | None = None) -> list[HeldJob]:
    """Return the running jobs that hold cards, or those of `jobs`."""
    rows = Task.objects.filter(state=TaskState.RUNNING, attempt=F("job__attempt"), job__state=JobState.RUNNING)
    if jobs is not None:
        rows = rows.filter(job__in=list(jobs))
    of: dict[int, list[Task]] = defaultdict(list)
    for task in rows.select_related("job__user", "job__team", "job__pool").order_by("job_id", "pk"):
        of[task.job_id].append(task)
    held = [tasks for tasks in of.values() if any(task.cards for task in tasks)]
    uuids = {card["uuid"] for tasks in held for task in tasks for card in task.cards}
    gpus = list_gpus(uuids)
    notebooks = {row.job_id: row for row in Notebook.objects.live().filter(job__in=of).select_related("user", "team")}
    return [HeldJob(tasks[0].job, tasks, gpus, notebooks.get(tasks[0].job_id)) for tasks in held]


def load_newest(held: Iterable[HeldJob]) -> dict[int, TaskNow]:
    """Return the newest samples by task."""
    return TaskNow.objects.in_bulk([task.pk for one in held for task in one.tasks])


def find_work(held: HeldJob, newest: Mapping[int, TaskNow], limits: Limits) -> Signal | None:
    """Return what the newest sample alone makes the last minute a busy one by: then no window has to be read."""
    for task in held.tasks:
        now = newest.get(task.pk)
        if now is None:
            continue
        enough = A_MINUTE_OF_TICKS * max(limits.cpu_minute_percent * task.cpu_milli / 100, limits.cpu_floor_milli)
        if now.cpu_milli is not None and now.cpu_milli >= enough:
            return Signal.CPU
        parts = {card["uuid"]: _get_part(card) for card in task.cards}
        for share in now.shares:
            busy = share.get("busy_percent") or 0
            if busy >= A_MINUTE_OF_TICKS * limits.gpu_minute_percent * parts.get(share["uuid"], 1.0):
                return Signal.GPU
    return None


def load_windows(
    held: Sequence[HeldJob], watches: Mapping[int, IdleWatch], window_s: int, now: datetime
) -> dict[int, Window]:
    """Return the window of each job up to now, by the job's id."""
    start = now - timedelta(seconds=window_s)
    frame = load_frame([key for one in held for key in one.list_keys()], start, now, STEP_S)
    doors = load_doors([one.job.pk for one in held])
    return {one.job.pk: cut_window(one, frame, watches.get(one.job.pk), doors.get(one.job.pk)) for one in held}


def load_doors(jobs: Sequence[int]) -> dict[int, datetime]:
    """Return when somebody was last at work in each job by a page, a terminal or SSH."""
    rows = IdleTouch.objects.filter(job__in=jobs).order_by().values_list("job").annotate(last=Max("at"))
    return dict(rows)


def cut_window(held: HeldJob, frame: Frame, watch: IdleWatch | None, door_at: datetime | None) -> Window:
    """Return a job's part of a frame, as evidence."""
    kernels = None
    if watch is not None and watch.kernels_asked_at is not None:
        kernels = Kernels(watch.kernels_asked_at, watch.kernels_busy, watch.kernels_active_at)
    restarted = watch.restarted_at if watch is not None else None
    return Window(
        frame.start,
        frame.step_s,
        [
            TaskWindow(
                cpu_asked=task.cpu_milli,
                **_get_task_values(frame, task),
                shares=[_get_share(frame, held, task, card) for card in task.cards],
                restarted_at=restarted,
                door_at=door_at,
                asks_kernels=held.notebook is not None,
                kernels=kernels,
            )
            for task in held.tasks
        ],
    )


def _get_task_values(frame: Frame, task: Task) -> dict[str, Values]:
    key = Key(Kind.TASK, task.pk)
    return {name: _get_column(frame, key, name) for name in TASK_COLUMNS}


def _get_share(frame: Frame, held: HeldJob, task: Task, card: dict) -> ShareWindow:
    """Return the task's part of a card. A whole card that is not told by its task is told by itself."""
    gpu = held.gpus.get((task.node_id, card["uuid"]), 0)
    own, whole = Key(Kind.SHARE, task.pk, gpu), Key(Kind.CARD, gpu)
    busy, used = (_get_column(frame, own, name) for name in ("busy_centi", "used_mib"))
    if card.get("whole"):
        busy = np.where(np.isnan(busy), _get_column(frame, whole, "busy_centi"), busy)
        used = np.where(np.isnan(used), _get_column(frame, whole, "used_mib"), used)
    return ShareWindow(busy / 100 / _get_part(card), used)


def _get_column(frame: Frame, key: Key, name: str) -> Values:
    values, column = frame.values.get(key), COLUMNS[key.kind].index(name)
    if values is None or column >= len(values):  # kept before there was such a column
        return np.full(frame.slots, np.nan)
    return values[column]


def _get_part(card: dict) -> float:
    """Return which part of a card's time belongs to the task."""
    return 1.0 if card.get("whole") else max(card.get("compute_percent") or 100, 1) / 100


def _list_keys(task: Task, gpus: Mapping[tuple[int | None, str], int]) -> list[Key]:
    keys = [Key(Kind.TASK, task.pk)]
    for card in task.cards:
        gpu = gpus.get((task.node_id, card["uuid"]), 0)
        keys += [Key(Kind.SHARE, task.pk, gpu), *([Key(Kind.CARD, gpu)] if card.get("whole") else [])]
    return keys


def list_gpus(uuids: Iterable[str]) -> dict[tuple[int | None, str], int]:
    """Return the ids of cards by (machine, uuid)."""
    rows = Gpu.objects.present().filter(uuid__in=list(uuids)).values_list("node_id", "uuid", "pk")
    return {(node, uuid): pk for node, uuid, pk in rows}
