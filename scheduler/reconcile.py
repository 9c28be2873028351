"""Drive what runs to what the rows say, level by level: list, compare (pure), act (idempotent). Here the comparing.

Only an `exited` sighting frees what a task holds: it is the runtime's proof that no process is left (P4). A task that
cannot be seen becomes LOST and keeps its holdings; no timer ever frees it.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from jobs.models import Task
from jobs.states import TASK_FINAL, TaskState
from runtimes.base import ContainerView, GpuUse
from scheduler.memory import TABLES, read_versions, remembered, remembering
from scheduler.rows import Statement, build_pairs

TOLD_PARTS = 100
"""In steps of this part of its slice a task's use of a card is written down."""

LONGEST_DETAIL = 300

T = TaskState


class Coming(NamedTuple):
    """How a start goes on. fetching_since: of its image, None where that is not so. detail: the engine's own words for
    what keeps it, "" for nothing.
    """

    fetching_since: datetime | None = None
    detail: str = ""


NOTHING_TOLD = Coming()


@dataclass(frozen=True)
class TaskRow:
    """A task that holds something, as a value. stop: the end reason of a wish that it should stop, "" for none.
    resize: whether its slice shall be of another size than it is.
    """

    uuid: str
    job_id: int
    state: str
    stop: str
    checkpointed_at: datetime | None = None
    gpu_use: tuple[GpuUse, ...] = ()
    coming: Coming = NOTHING_TOLD
    resize: bool = False


@dataclass(frozen=True)
class Start:
    """Start a placed task, once."""

    uuid: str
    job_id: int


@dataclass(frozen=True)
class Stop:
    """Ask a task to end; `mark` moves it to STOPPING first. unless_ran: leave it alone where it ever ran."""

    uuid: str
    job_id: int
    reason: str
    mark: bool
    unless_ran: bool = False


@dataclass(frozen=True)
class Resize:
    """Bring a running task's slice to the size that its row says."""

    uuid: str
    job_id: int


@dataclass(frozen=True)
class Sighting:
    """What was seen of a task, as the move that it means."""

    uuid: str
    job_id: int
    state: str
    reason: str = ""
    seen: ContainerView | None = None


@dataclass(frozen=True)
class Noted:
    """A task has a newer checkpoint, uses its cards otherwise than before, or its start goes on in another way. No
    event: it may do so every minute. coming: None where that is as it was.
    """

    uuid: str
    checkpointed_at: datetime | None = None
    gpu_use: tuple[GpuUse, ...] = ()
    coming: Coming | None = None


@dataclass(frozen=True)
class Forget:
    """The task's end is recorded: let the runtime clean up."""

    uuid: str


Step = Start | Stop | Resize | Sighting | Noted | Forget

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
"""What a runtime's cause of an end means: (state, reason)."""
FROM_OUTSIDE = frozenset({"stopped", "never_started", "refused_by_node", "evicted", "node_lost"})
"""Not by its program: where somebody wished its end, this is it."""
OVER = "gpu_out_of_memory"
"""Of a task that its machine's agent says is above its slice: its runtime cannot end it by itself."""
UNASKED = "It was ended from outside, and nobody had asked Tessera for that."


def compare(
    rows: Iterable[TaskRow], seen: Sequence[ContainerView], ended: set[str], awaited: Set[str] = frozenset()
) -> list[Step]:
    """What to do so that the runtime and the rows agree. Pure.

    rows: the tasks in HOLDING. ended: uuids of the tasks that are final. A container of neither is not ours to judge.
    awaited: those of them whose log is not whole yet: with what they left on the node it would go.
    """
    views = {view.uuid: view for view in seen}
    rows = list(rows)
    steps: list[Step] = []
    for row in rows:
        view = views.get(row.uuid)
        steps += [*_news(row, view), *_compare_one(row, view)]
    for uuid in sorted(ended & views.keys()):
        alive = views[uuid].phase in {"starting", "running"}
        if alive:
            steps.append(Stop(uuid, 0, "", mark=False))
        elif uuid not in awaited:
            steps.append(Forget(uuid))
    return steps


def _news(row: TaskRow, view: ContainerView | None) -> list[Step]:
    if view is None:
        return []
    at = view.checkpointed_at
    saved = at if at and (row.checkpointed_at is None or at > row.checkpointed_at) else None
    use = view.gpu_use if _differs(row.gpu_use, view.gpu_use) else ()
    starts = view.phase == "starting" and not view.cause and row.state in (T.ASSIGNED, T.STARTING)
    now = Coming(view.fetching_since, view.detail[:LONGEST_DETAIL])
    coming = now if starts and now != row.coming else None
    return [Noted(row.uuid, saved, use, coming)] if saved or use or coming is not None else []


def _differs(old: tuple[GpuUse, ...], new: tuple[GpuUse, ...]) -> bool:
    """Whether it is worth a write: a step of TOLD_PARTS of a slice, another limit or request
    refused, that somebody looks or nobody any more, another card."""
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
        state, reason = end_of(view, row.stop, ran=row.state not in (T.ASSIGNED, T.STARTING))
        return [Sighting(row.uuid, row.job_id, state, reason, _with_words(row, view, reason))]
    if view.phase == "lost":
        return [] if row.state == T.LOST else [Sighting(row.uuid, row.job_id, T.LOST, "", view)]
    if row.stop or row.state == T.STOPPING:
        return [Stop(row.uuid, row.job_id, row.stop, mark=row.state != T.STOPPING)]
    if view.phase == "starting" and view.cause:  # it will never come up: its end will say why
        return [Stop(row.uuid, row.job_id, view.cause, mark=False)]
    target = T.RUNNING if view.phase == "running" else T.STARTING
    news = row.state != target and not (target == T.STARTING and row.state != T.ASSIGNED)
    if news:
        return [Sighting(row.uuid, row.job_id, target, "", view)]
    return [Resize(row.uuid, row.job_id)] if row.resize and row.state == T.RUNNING else []


def _with_words(row: TaskRow, view: ContainerView, reason: str) -> ContainerView:
    if view.detail or view.cause != "stopped":
        return view
    if reason == OVER:
        return replace(view, detail=" ".join(use.over for use in row.gpu_use if use.over))
    return view if row.stop else replace(view, detail=UNASKED)


def _unseen(row: TaskRow) -> list[Step]:
    if row.state == T.ASSIGNED:
        return [Stop(row.uuid, row.job_id, row.stop, mark=False)] if row.stop else [Start(row.uuid, row.job_id)]
    return [] if row.state == T.LOST else [Sighting(row.uuid, row.job_id, T.LOST)]


def end_of(view: ContainerView, wish: str, *, ran: bool = True) -> tuple[str, str]:
    """(state, reason) of a task whose container has exited. wish: the reason of the stop wish, "" for none. ran: it was
    seen to run, whatever its node says of it now.
    """
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
    """A task in HOLDING as it is read, with the wish of its job."""

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
    stop_requested_at: datetime | None
    stop_reason: str


MOMENTS = ("checkpointed_at", "fetching_since", "stop_requested_at")


def load_rows() -> list[TaskRow]:
    """The tasks in HOLDING, with the stop wish of their job or of their broken gang."""
    tasks = load_holding_tasks()
    broken = load_broken()
    return [
        TaskRow(
            task.uuid,
            task.job_id,
            task.state,
            _wish(task, broken),
            task.checkpointed_at,
            tuple(GpuUse(**use) for use in task.gpu_use),
            Coming(task.fetching_since, task.detail),
            task.resize is not None and task.resize["open"],
        )
        for task in tasks
    ]


def load_holding_tasks() -> list[HeldTask]:
    """A large cluster has thousands of these, of which few are others at each look."""
    wish = ("job__stop_requested_at", "job__stop_reason")
    with remembering(read_versions(_holders())):
        return remembered("holders", _held_task, *HeldTask._fields[: -len(wish)], *wish)


@cache
def _holders() -> Statement:
    return build_pairs({"holders": (TABLES["holders"][0](), TABLES["holders"][1])})


def _held_task(uuid: str, *values: Any) -> HeldTask:
    task = HeldTask(uuid.replace("-", ""), *values)
    moments: Any = {n: datetime.fromisoformat(text) for n in MOMENTS if (text := getattr(task, n)) is not None}
    return task._replace(**moments) if moments else task


def load_broken() -> set[tuple[int, int]]:
    """(job, attempt) of the attempts of which a task failed or was stopped, of jobs that hold something."""
    holding = Task.objects.holding().values("job")
    ended = Task.objects.filter(job__in=holding, state__in=[T.FAILED, T.STOPPED])
    return set(ended.values_list("job_id", "attempt"))


def unheld(seen: Iterable[ContainerView], rows: Iterable[TaskRow]) -> list[ContainerView]:
    """What was seen besides the tasks in HOLDING: of these the rows may say that their end is recorded."""
    held = {row.uuid for row in rows}
    return [view for view in seen if view.uuid not in held]


def load_ended(seen: Sequence[ContainerView]) -> set[str]:
    """Which of the seen containers belong to tasks whose end is recorded."""
    if not seen:
        return set()
    uuids = [view.uuid for view in seen]
    final = Task.objects.filter(uuid__in=uuids, state__in=TASK_FINAL)
    return {uuid.hex for uuid in final.values_list("uuid", flat=True)}


def load_awaited(ended: Set[str]) -> set[str]:
    """Of which of these an agent may still bring the end of the log."""
    if not ended:
        return set()
    return {uuid.hex for uuid in Task.objects.filter(uuid__in=ended).log_awaited().values_list("uuid", flat=True)}


def _wish(task: HeldTask, broken: set[tuple[int, int]]) -> str:
    if task.stop_requested_at is not None:
        return task.stop_reason
    if task.state == T.STOPPING and task.reason:  # the scheduler makes room
        return task.reason
    if any(use.get("over") for use in task.gpu_use):
        return OVER
    return "gang_broken" if (task.job_id, task.attempt) in broken else ""
