"""Compare tasks with containers and list the steps that reconcile them.

Only an `exited` container, proof that no process is left, frees resources. Unseen tasks become LOST and keep
their holdings; no timer frees them.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from jobs.lifecycle import MADE_ROOM
from jobs.models import Task
from jobs.states import TASK_FINAL, TaskState
from runtimes.contract.container import ContainerView, GpuUse
from scheduler.loading.row_cache import cached_rows, caching, read_change_mark
from scheduler.reconcile.draining import find_draining

TOLD_PARTS = 100
"""GPU use is written in steps of this fraction (1/N) of a slice."""

LONGEST_DETAIL = 300

T = TaskState


class StartProgress(NamedTuple):
    """Progress of a start. fetching_since: its image. detail: the runtime's message."""

    fetching_since: datetime | None = None
    detail: str = ""


NO_PROGRESS = StartProgress()


@dataclass(frozen=True)
class TaskRow:
    """A task with holdings. stop: reason to stop, or "". settled: an administrator's word on a lost one, or "".

    drains: it answers requests that its stop waits for.
    """

    uuid: str
    job_id: int
    state: str
    stop: str
    checkpointed_at: datetime | None = None
    gpu_use: tuple[GpuUse, ...] = ()
    start_progress: StartProgress = NO_PROGRESS
    resize: bool = False
    settled: str = ""
    drains: bool = False


@dataclass(frozen=True)
class Start:
    """again: the start before was broken off after the runtime had shown it."""

    uuid: str
    job_id: int
    again: bool = False


@dataclass(frozen=True)
class Stop:
    """Stop a task. mark: set STOPPING first. unless_ran: only if it never ran."""

    uuid: str
    job_id: int
    reason: str
    mark: bool
    unless_ran: bool = False


@dataclass(frozen=True)
class Resize:
    uuid: str
    job_id: int


@dataclass(frozen=True)
class TaskObserved:
    """A state change that was observed."""

    uuid: str
    job_id: int
    state: str
    reason: str = ""
    seen: ContainerView | None = None


@dataclass(frozen=True)
class TaskProgress:
    """New checkpoint, GPU use or start progress; no event."""

    uuid: str
    checkpointed_at: datetime | None = None
    gpu_use: tuple[GpuUse, ...] = ()
    start_progress: StartProgress | None = None


@dataclass(frozen=True)
class Forget:
    """Clean up after a recorded end."""

    uuid: str


Step = Start | Stop | Resize | TaskObserved | TaskProgress | Forget

ENDS: dict[str, tuple[str, str]] = {
    "time_limit": (T.FAILED, "time_limit"),
    "out_of_memory": (T.FAILED, "out_of_memory"),
    "gpu_out_of_memory": (T.FAILED, "gpu_out_of_memory"),
    "start_failed": (T.FAILED, "start_failed"),
    "image_pull": (T.FAILED, "image_pull"),
    "container_lost": (T.FAILED, "container_lost"),
    "refused_by_node": (T.FAILED, "refused_by_node"),
    "evicted": (T.FAILED, "evicted"),
    "node_lost": (T.FAILED, "node_lost"),
}
"""{the runtime's cause of an end: (state, reason)}."""
FROM_OUTSIDE = frozenset({"stopped", "never_started", "refused_by_node", "evicted", "node_lost"})
"""Causes outside of the program; if a stop was requested, this is that stop."""
OVER = "gpu_out_of_memory"
"""Reason for a task that its agent reports above its slice, which the runtime itself cannot stop."""
UNASKED = "It was ended from outside, and nobody had asked Tessera for that."


def compare(
    rows: Iterable[TaskRow], seen: Sequence[ContainerView], ended: set[str], awaited: Set[str] = frozenset()
) -> list[Step]:
    """Return steps that reconcile rows and containers (pure).

    rows: tasks in HOLDING. ended: final tasks. awaited: those with incomplete logs. Other containers are ignored.
    """
    views = {view.uuid: view for view in seen}
    rows = list(rows)
    steps: list[Step] = []
    for row in rows:
        view = views.get(row.uuid)
        steps += [*_find_progress(row, view), *_compare_one(row, view)]
    for uuid in sorted(ended & views.keys()):
        alive = views[uuid].phase in {"starting", "running"}
        if alive:
            steps.append(Stop(uuid, 0, "", mark=False))
        elif uuid not in awaited:
            steps.append(Forget(uuid))
    return steps


def _find_progress(row: TaskRow, view: ContainerView | None) -> list[Step]:
    if view is None:
        return []
    at = view.checkpointed_at
    saved = at if at and (row.checkpointed_at is None or at > row.checkpointed_at) else None
    use = view.gpu_use if _differs(row.gpu_use, view.gpu_use) else ()
    starts = view.phase == "starting" and not view.cause and row.state in (T.ASSIGNED, T.STARTING)
    now = StartProgress(view.fetching_since, view.detail[:LONGEST_DETAIL])
    coming = now if starts and now != row.start_progress else None
    return [TaskProgress(row.uuid, saved, use, coming)] if saved or use or coming is not None else []


def _differs(old: tuple[GpuUse, ...], new: tuple[GpuUse, ...]) -> bool:
    """Return whether GPU use changed by 1/TOLD_PARTS of a slice or in another field."""
    before = {use.uuid: use for use in old}
    return any(use.uuid not in before or _moved(before[use.uuid], use) for use in new)


def _moved(old: GpuUse, new: GpuUse) -> bool:
    step = max(new.limit_mib / TOLD_PARTS, 1)
    moved = max(abs(new.used_mib - old.used_mib), new.peak_mib - old.peak_mib)
    before, now = ((use.limit_mib, use.refused, use.watched, use.compute) for use in (old, new))
    return moved >= step or before != now


def _compare_one(row: TaskRow, view: ContainerView | None) -> list[Step]:
    if view is None:
        return _unseen(row)
    if view.phase == "exited":
        state, reason = find_end(view, row.stop, ran=row.state not in (T.ASSIGNED, T.STARTING))
        return [TaskObserved(row.uuid, row.job_id, state, reason, _fill_in_detail(row, view, reason))]
    if row.state == T.LOST and row.settled and view.phase == "starting":  # it is being looked for
        return [_end_lost(row)]
    if view.phase == "lost":
        return [] if row.state == T.LOST else [TaskObserved(row.uuid, row.job_id, T.LOST, "", view)]
    if row.drains:
        return []
    if row.stop or row.state == T.STOPPING:
        return [Stop(row.uuid, row.job_id, row.stop, mark=row.state != T.STOPPING)]
    if view.phase == "starting" and view.cause:  # it can never run; its end has the reason
        return [Stop(row.uuid, row.job_id, view.cause, mark=False)]
    if view.abandoned and row.state in (T.ASSIGNED, T.STARTING):
        return [Start(row.uuid, row.job_id, again=True)]
    target = T.RUNNING if view.phase == "running" else T.STARTING
    news = row.state != target and not (target == T.STARTING and row.state != T.ASSIGNED)
    if news:
        return [TaskObserved(row.uuid, row.job_id, target, "", view)]
    return [Resize(row.uuid, row.job_id)] if row.resize and row.state == T.RUNNING else []


def _end_lost(row: TaskRow) -> Stop:
    """Return a stop, by which the runtime makes sure that nothing is left of a task without records."""
    return Stop(row.uuid, row.job_id, row.stop, mark=False)


def _fill_in_detail(row: TaskRow, view: ContainerView, reason: str) -> ContainerView:
    if row.state == T.LOST and row.settled:
        return replace(view, detail=row.settled)
    if view.detail or view.cause != "stopped":
        return view
    if reason == OVER:
        return replace(view, detail=" ".join(use.over for use in row.gpu_use if use.over))
    return view if row.stop else replace(view, detail=UNASKED)


def _unseen(row: TaskRow) -> list[Step]:
    if row.state == T.ASSIGNED:
        return [Stop(row.uuid, row.job_id, row.stop, mark=False)] if row.stop else [Start(row.uuid, row.job_id)]
    if row.state == T.LOST:
        return [_end_lost(row)] if row.settled else []
    return [TaskObserved(row.uuid, row.job_id, T.LOST)]


def find_end(view: ContainerView, wish: str, *, ran: bool = True) -> tuple[str, str]:
    """Return (state, reason) of an exited task. wish: reason to stop. ran: seen running."""
    if wish and view.cause in FROM_OUTSIDE:
        return (T.FAILED if wish == OVER else T.STOPPED), wish
    if view.cause in {"stopped", "never_started"} or (ran and view.cause == "refused_by_node"):
        return T.FAILED, "container_lost"
    if view.cause in ENDS:
        return ENDS[view.cause]
    if view.exit_code is None and view.signal is None:
        return T.FAILED, "container_lost"
    return (T.SUCCEEDED, "completed") if view.exit_code == 0 else (T.FAILED, "exit_nonzero")


class HeldTask(NamedTuple):
    """A task in HOLDING with its job's stop request."""

    uuid: str
    job_id: int
    attempt: int
    state: str
    reason: str
    checkpointed_at: datetime | None
    gpu_use: list[dict[str, Any]]
    fetching_since: datetime | None
    detail: str
    resize: dict[str, Any] | None
    settled: dict[str, Any] | None
    stop_requested_at: datetime | None
    stop_reason: str


MOMENTS = ("checkpointed_at", "fetching_since", "stop_requested_at")


def load_rows() -> list[TaskRow]:
    """Load tasks in HOLDING with reasons to stop."""
    tasks = load_holding_tasks()
    broken = load_broken()
    draining = find_draining([task.uuid for task in tasks if _makes_room(task)])
    return [
        TaskRow(
            task.uuid,
            task.job_id,
            task.state,
            _wish(task, broken),
            task.checkpointed_at,
            tuple(GpuUse(**use) for use in task.gpu_use),
            StartProgress(task.fetching_since, task.detail),
            task.resize is not None and task.resize["open"],
            f"{task.settled['by']} settled it: {task.settled['why']}" if task.settled else "",
            task.uuid in draining,
        )
        for task in tasks
    ]


def load_holding_tasks() -> list[HeldTask]:
    """Load them through the row cache."""
    wish = ("job__stop_requested_at", "job__stop_reason")
    with caching(read_change_mark("holders")):
        return cached_rows("holders", _held_task, *HeldTask._fields[: -len(wish)], *wish)


def _held_task(uuid: str, *values: Any) -> HeldTask:
    task = HeldTask(uuid.replace("-", ""), *values)
    moments: Any = {n: datetime.fromisoformat(text) for n in MOMENTS if (text := getattr(task, n)) is not None}
    return task._replace(**moments) if moments else task


def load_broken() -> set[tuple[int, int]]:
    """Return (job, attempt) of gangs with a failed or stopped task."""
    holding = Task.objects.holding().values("job")
    ended = Task.objects.filter(job__in=holding, state__in=[T.FAILED, T.STOPPED])
    return set(ended.values_list("job_id", "attempt"))


def find_unheld(seen: Iterable[ContainerView], rows: Iterable[TaskRow]) -> list[ContainerView]:
    """Return containers without a task in HOLDING."""
    held = {row.uuid for row in rows}
    return [view for view in seen if view.uuid not in held]


def load_ended(seen: Sequence[ContainerView]) -> set[str]:
    """Return uuids whose tasks are final."""
    if not seen:
        return set()
    uuids = [view.uuid for view in seen]
    final = Task.objects.filter(uuid__in=uuids, state__in=TASK_FINAL)
    return {uuid.hex for uuid in final.values_list("uuid", flat=True)}


def load_awaiting_log(ended: Set[str]) -> set[str]:
    """Return those whose log may still arrive."""
    if not ended:
        return set()
    return {uuid.hex for uuid in Task.objects.filter(uuid__in=ended).log_awaited().values_list("uuid", flat=True)}


def _makes_room(task: HeldTask) -> bool:
    return task.state == T.STOPPING and task.reason in MADE_ROOM and task.stop_requested_at is None


def _wish(task: HeldTask, broken: set[tuple[int, int]]) -> str:
    if task.stop_requested_at is not None:
        return task.stop_reason
    if task.state == T.STOPPING and task.reason:  # preempted by the scheduler
        return task.reason
    if any(use.get("over") for use in task.gpu_use):
        return OVER
    return "gang_broken" if (task.job_id, task.attempt) in broken else ""
