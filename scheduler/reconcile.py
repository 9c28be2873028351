"""Drive what runs to what the rows say, level by level: list, compare (pure), act (idempotent).

Only an `exited` sighting frees what a task holds: it is the runtime's proof that no process is left (P4). A task that
cannot be seen becomes LOST and keeps its holdings; no timer ever frees it.
"""

import logging
from collections.abc import Iterable, Sequence, Set
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction

from cluster.models import Gpu
from common.errors import StaleState
from events.bus import RUNTIME, ring
from images.logins import load_logins
from jobs.codepack import code_file
from jobs.jobfile.beside import split_source
from jobs.jobfile.spec import DEFAULT_GRACE_S, JobSpec, from_json, role_of
from jobs.lifecycle import MADE_ROOM, load_attempt, lock_job, move_task
from jobs.models import Job, JobKind, Task
from jobs.states import TASK_FINAL, TaskState
from jobs.tensorboard import TOOLS
from jobs.upstream import UPSTREAM_TOKEN, upstream_secret
from notebooks.environment import READY, environment_path
from quotas.models import Holding
from runtimes.base import (
    Checkpoint,
    ContainerView,
    GpuShare,
    GpuUse,
    Mount,
    NodeRefused,
    Peer,
    Rejected,
    Runtime,
    TaskSpec,
    Unavailable,
)
from runtimes.places import Place
from scheduler.inventory import view_of_card
from scheduler.lease import check_epoch

log = logging.getLogger("tessera.reconcile")

GRACE_S = 10
"""Between SIGTERM and SIGKILL where the job's file says nothing."""

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
    """A task that holds something, as a value. stop: the end reason of a wish that it should stop, "" for none."""

    uuid: str
    job_id: int
    state: str
    stop: str
    checkpointed_at: datetime | None = None
    gpu_use: tuple[GpuUse, ...] = ()
    coming: Coming = NOTHING_TOLD


@dataclass(frozen=True)
class Start:
    """Start a placed task, once."""

    uuid: str
    job_id: int


@dataclass(frozen=True)
class Stop:
    """Ask a task to end; `mark` moves it to STOPPING first."""

    uuid: str
    job_id: int
    reason: str
    mark: bool


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


Step = Start | Stop | Sighting | Noted | Forget

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
    """Whether it is worth a write: a step of TOLD_PARTS of a slice, another limit or request refused, another card."""
    before = {use.uuid: use for use in old}
    return any(use.uuid not in before or _moved(before[use.uuid], use) for use in new)


def _moved(old: GpuUse, new: GpuUse) -> bool:
    step = max(new.limit_mib / TOLD_PARTS, 1)
    moved = max(abs(new.used_mib - old.used_mib), new.peak_mib - old.peak_mib)
    return moved >= step or (old.limit_mib, old.refused) != (new.limit_mib, new.refused)


def _compare_one(row: TaskRow, view: ContainerView | None) -> list[Step]:
    if view is None:
        return _unseen(row)
    if view.phase == "exited":
        state, reason = end_of(view, row.stop, ran=row.state not in (T.ASSIGNED, T.STARTING))
        told = view if view.detail or view.cause != "stopped" or row.stop else replace(view, detail=UNASKED)
        return [Sighting(row.uuid, row.job_id, state, reason, told)]
    if view.phase == "lost":
        return [] if row.state == T.LOST else [Sighting(row.uuid, row.job_id, T.LOST, "", view)]
    if row.stop or row.state == T.STOPPING:
        return [Stop(row.uuid, row.job_id, row.stop, mark=row.state != T.STOPPING)]
    if view.phase == "starting" and view.cause:  # it will never come up: its end will say why
        return [Stop(row.uuid, row.job_id, view.cause, mark=False)]
    target = T.RUNNING if view.phase == "running" else T.STARTING
    news = row.state != target and not (target == T.STARTING and row.state != T.ASSIGNED)
    return [Sighting(row.uuid, row.job_id, target, "", view)] if news else []


def _unseen(row: TaskRow) -> list[Step]:
    if row.state == T.ASSIGNED:
        return [Stop(row.uuid, row.job_id, row.stop, mark=False)] if row.stop else [Start(row.uuid, row.job_id)]
    return [] if row.state == T.LOST else [Sighting(row.uuid, row.job_id, T.LOST)]


def end_of(view: ContainerView, wish: str, *, ran: bool = True) -> tuple[str, str]:
    """(state, reason) of a task whose container has exited. wish: the reason of the stop wish, "" for none. ran: it was
    seen to run, whatever its node says of it now.
    """
    if wish and view.cause in FROM_OUTSIDE:
        return T.STOPPED, wish
    if view.cause in {"stopped", "never_started"} or (ran and view.cause == "refused_by_node"):
        return T.FAILED, "container_lost"
    if view.cause in ENDS:
        return ENDS[view.cause]
    if view.exit_code is None and view.signal is None:
        return T.FAILED, "container_lost"
    return (T.SUCCEEDED, "completed") if view.exit_code == 0 else (T.FAILED, "exit_nonzero")


def load_rows() -> list[TaskRow]:
    """The tasks in HOLDING, with the stop wish of their job or of their broken gang."""
    tasks = load_holding_tasks()
    broken = load_broken({task.job_id for task in tasks})
    return [
        TaskRow(
            task.uuid.hex,
            task.job_id,
            task.state,
            _wish(task, broken),
            task.checkpointed_at,
            tuple(GpuUse(**use) for use in task.gpu_use),
            Coming(task.fetching_since, task.detail),
        )
        for task in tasks
    ]


def load_holding_tasks() -> list[Task]:
    """With the columns that a TaskRow needs: a job's text is long, and a large cluster has thousands of these."""
    own = ("uuid", "attempt", "state", "reason", "checkpointed_at", "gpu_use", "job_id")
    return list(Task.objects.holding().select_related("job").only(*own, "job__stop_requested_at", "job__stop_reason"))


def load_broken(job_ids: Iterable[int]) -> set[tuple[int, int]]:
    """(job, attempt) of these jobs' attempts of which a task failed or was stopped."""
    ended = Task.objects.filter(job__in=job_ids, state__in=[T.FAILED, T.STOPPED])
    return set(ended.values_list("job_id", "attempt"))


def load_task(uuid: str) -> Task:
    return Task.objects.select_related("job__team", "job__user", "job__pool", "node__pool").get(uuid=uuid)


def load_ended(seen: Iterable[ContainerView]) -> set[str]:
    """Which of the seen containers belong to tasks whose end is recorded."""
    uuids = [view.uuid for view in seen]
    final = Task.objects.filter(uuid__in=uuids, state__in=TASK_FINAL)
    return {uuid.hex for uuid in final.values_list("uuid", flat=True)}


def load_awaited(ended: Set[str]) -> set[str]:
    """Of which of these an agent may still bring the end of the log."""
    if not ended:
        return set()
    return {uuid.hex for uuid in Task.objects.filter(uuid__in=ended).log_awaited().values_list("uuid", flat=True)}


def reconcile_once(runtime: Runtime, epoch: int) -> bool:
    """One round. True where something moves or comes up, so that another look soon pays. Raises Unavailable where the
    runtime does not answer."""
    rows = load_rows()
    seen = runtime.list_containers()
    ended = load_ended(seen)
    steps = compare(rows, seen, ended, load_awaited(ended))
    for step in steps:
        try:
            run_step(step, runtime, epoch)
        except StaleState as stale:
            log.info("%s dropped: %s", type(step).__name__, stale)
        except Unavailable as away:
            log.warning("%s waits for the runtime: %s", type(step).__name__, away)
    moves = any(isinstance(step, Start | Sighting) for step in steps)
    return moves or any(view.phase == "starting" for view in seen)


def run_step(step: Step, runtime: Runtime, epoch: int) -> None:
    """The interpreter: each step in a transaction of its own, and calls to the runtime outside of any."""
    if isinstance(step, Start):
        _start(step, runtime, epoch)
    elif isinstance(step, Sighting):
        record_sighting(step, epoch)
    elif isinstance(step, Noted):
        record_news(step, epoch)
    else:
        try:
            _stop(step, runtime, epoch) if isinstance(step, Stop) else runtime.forget(step.uuid)
        except Rejected as refusal:  # nothing ends by that: it is asked again, and the steps behind it go on
            raise Unavailable(f"{type(step).__name__} was refused: {refusal}") from refusal


def _start(step: Start, runtime: Runtime, epoch: int) -> None:
    with transaction.atomic():
        check_epoch("reconcile", epoch)
        task = load_task(step.uuid)
        if task.state != T.ASSIGNED or task.job.stop_requested_at is not None:
            raise StaleState(kind="task", was=task.state)
        spec = build_task_spec(task)
        if runtime.capabilities.containers:
            spec = replace(spec, logins=load_logins(task.job.team_id))
    try:
        runtime.start(spec)
    except Rejected as refusal:
        reason = "refused_by_node" if isinstance(refusal, NodeRefused) else "rejected_by_cluster"
        view = ContainerView(step.uuid, spec.node, "exited", detail=str(refusal))
        record_sighting(Sighting(step.uuid, step.job_id, T.FAILED, reason, view), epoch)


def _stop(step: Stop, runtime: Runtime, epoch: int) -> None:
    if step.mark:
        record_sighting(Sighting(step.uuid, step.job_id, T.STOPPING, step.reason), epoch)
    runtime.stop(step.uuid, GRACE_S, epoch=epoch)


@transaction.atomic
def record_sighting(step: Sighting, epoch: int) -> None:
    """Move the task to what was seen, with the engine's own words and times."""
    check_epoch("reconcile", epoch)
    lock_job(step.job_id)
    task = load_task(step.uuid)
    if task.state == step.state:
        return
    also: dict[str, object] = {}
    if view := step.seen:
        found = {
            "detail": view.detail[:LONGEST_DETAIL],
            "exit_code": view.exit_code,
            "exit_signal": view.signal,
            "peak_memory_mib": view.peak_memory_mib,
            "address": view.address,
            # A task that is over before it was seen running still ran: the runtime knows since when.
            "started_at": view.started_at if task.started_at is None and step.state in TASK_FINAL else None,
        }
        also = {name: value for name, value in found.items() if value not in (None, "")}
    if step.state == T.RUNNING:
        also |= {"fetching_since": None, "detail": ""}
    ended = step.seen if step.state in TASK_FINAL else None
    params = {"exit_code": ended.exit_code, "detail": ended.detail, **lost_work(task, ended, step)} if ended else {}
    move_task(task, step.state, reason=step.reason, actor=RUNTIME, params=params, **also)


@transaction.atomic
def record_news(step: Noted, epoch: int) -> None:
    check_epoch("reconcile", epoch)
    told = {"checkpointed_at": step.checkpointed_at, "gpu_use": [asdict(use) for use in step.gpu_use]}
    news = {name: value for name, value in told.items() if value}
    write_news(step.uuid, news | (step.coming._asdict() if step.coming is not None else {}))
    if step.coming is not None:  # somebody looks at a page and waits
        ring(load_task(step.uuid))


def write_news(uuid: str, told: dict[str, Any]) -> None:
    """told: columns of the task."""
    Task.objects.filter(uuid=uuid).update(**told)


def lost_work(task: Task, ended: ContainerView, step: Sighting) -> dict[str, object]:
    """What making room cost this task, for its history: seconds since its last checkpoint, else since its start."""
    began, saved_at = task.started_at or ended.started_at, ended.checkpointed_at or task.checkpointed_at
    if step.reason not in MADE_ROOM or began is None or ended.ended_at is None:
        return {}
    kind, since = ("saved", saved_at) if saved_at is not None and saved_at > began else ("unsaved", began)
    return {"kind": kind, "lost_s": max(round((ended.ended_at - since).total_seconds()), 0)}


def build_task_spec(task: Task) -> TaskSpec:
    """What the runtime needs to run `task`, from its row and its job's spec. Its one secret is the task's own: the
    logins of its team are added where a runtime has use for them.
    """
    job, spec = task.job, from_json(task.job.spec)
    role = role_of(spec, task.role)
    assert task.node is not None  # an assigned task has its node
    return TaskSpec(
        uuid=task.uuid.hex,
        label=f"{job.public_id} {task.role}.{task.rank}",
        epoch=task.epoch or 0,
        node=task.node.name,
        run=role.run,
        env=spec.env | role.env,
        workdir=spec.workdir or None,
        image=spec.image or "",
        code_path=str(code_file(Path(settings.TESSERA_CODE), spec.code)) if spec.code else None,
        gpus=load_shares(task),
        cpu_milli=task.cpu_milli,
        memory_mib=task.memory_mib,
        cpu_overcommit_percent=task.node.pool.cpu_overcommit_percent,
        numa=load_numa(task),
        uid=job.user.uid,
        gid=job.team.gid,
        user=job.user.username,
        team=job.team.name,
        max_time_s=job.max_time_s,
        grace_s=GRACE_S,
        rank=task.rank,
        role=task.role,
        peers=build_peers(load_attempt(job)),
        ports=(task.ports["master"],) if "master" in task.ports else (),
        platform_env={UPSTREAM_TOKEN: upstream_secret(task.uuid), **_tools_env(job, spec)},
        port_map=port_map(task),
        mounts=build_mounts(job, spec),
        checkpoint=build_checkpoint(job, spec),
        cpu_pinning=task.node.facts.get("cpu_pinning", ""),
    )


def load_shares(task: Task) -> tuple[GpuShare, ...]:
    """What it holds of each of its cards, with what is known of these now: a card may have moved up since."""
    known = {gpu.uuid: gpu for gpu in load_cards_beside(task)} if task.cards else {}
    return tuple(
        GpuShare(
            uuid=held["uuid"],
            index=known[held["uuid"]].index if held["uuid"] in known else held["index"],
            memory_mib=held["memory_mib"],
            compute_percent=held["compute_percent"],
            whole=held["whole"],
            card=view_of_card(known[held["uuid"]]) if held["uuid"] in known else None,
        )
        for held in task.cards
    )


def load_cards_beside(task: Task) -> list[Gpu]:
    """All cards of its node."""
    return list(Gpu.objects.present().filter(node=task.node_id).select_related("node"))


def build_peers(tasks: Iterable[Task]) -> tuple[Peer, ...]:
    """All tasks of an attempt in order of rank, as they find each other."""
    in_order = sorted(tasks, key=lambda task: task.rank)
    return tuple(
        Peer(task.address, task.role, max(len(task.cards), 1), port_map(task), task.uuid.hex) for task in in_order
    )


def port_map(task: Task) -> dict[int, int]:
    """{declared: where it listens}."""
    return {int(declared): actual for declared, actual in task.ports.items() if declared != "master"}


def load_numa(task: Task) -> tuple[int, ...]:
    """The NUMA node of each of its cards, near which its cores should be."""
    cards = Holding.objects.live().filter(task=task.uuid, gpu__isnull=False).order_by("pk")
    return tuple(numa for numa in cards.values_list("numa", flat=True) if numa is not None)


def build_checkpoint(job: Job, spec: JobSpec) -> Checkpoint | None:
    """As the job's file says, with the grace that its pool allows: it may have been changed since the submit."""
    if spec.checkpoint is None:
        return None
    rule = spec.checkpoint
    grace_s = DEFAULT_GRACE_S if rule.grace_s is None else rule.grace_s
    return Checkpoint(rule.dir, rule.signal, min(grace_s, job.pool.max_grace_s))


def build_mounts(job: Job, spec: JobSpec) -> tuple[Mount, ...]:
    """What the job file names under `data`, and the environment that JupyterLab and TensorBoard run from."""
    places = {"home": Place("home", job.user.uid), "team": Place("team", job.team.gid)}
    mounts = []
    for target, text in spec.data.items():
        kind, source, read_only = split_source(text)
        mounts.append(Mount(places[kind], source, target, read_only))
    if _wants_tools(job, spec):
        tools = str(environment_path(settings.TESSERA_DATA))
        mounts.append(Mount(None, tools, tools, read_only=True))
    return tuple(mounts)


def _tools_env(job: Job, spec: JobSpec) -> dict[str, str]:
    return {TOOLS: str(environment_path(settings.TESSERA_DATA))} if _wants_tools(job, spec) else {}


def _wants_tools(job: Job, spec: JobSpec) -> bool:
    """Where the environment is not prepared yet, a job with `tensorboard` runs without it; an image brings its own."""
    if settings.TESSERA_NOTEBOOK_IMAGE:
        return False
    wanted = job.kind == JobKind.INTERACTIVE or spec.tensorboard is not None
    return wanted and (environment_path(settings.TESSERA_DATA) / READY).exists()


def _wish(task: Task, broken: set[tuple[int, int]]) -> str:
    job: Job = task.job
    if job.stop_requested_at is not None:
        return job.stop_reason
    if task.state == T.STOPPING and task.reason:  # the scheduler makes room
        return task.reason
    return "gang_broken" if (job.pk, task.attempt) in broken else ""
