"""Run idempotent actions (start, stop, resize, forget) on the runtime.

Database reads are batched first; calls run in parallel outside of transactions.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

from django.db import DatabaseError, transaction

from common.errors import StaleState
from datasets.services import find_store
from images.logins import load_logins
from jobs.models import Job, Task
from jobs.states import TaskState
from jobs.used_secrets.giving import MissingSecret, give_secrets, load_task_masks, pick_secrets
from reported_numbers.collecting import collect_ended
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import NodeRefused, Rejected, Unavailable
from runtimes.contract.runtime import Runtime
from runtimes.contract.task import TaskSpec
from runtimes.log_masking import LogMask
from runtimes.storage.areas import NO_VOLUME
from scheduler.lease import check_epoch
from scheduler.reconcile.compare import Forget, Resize, Start, Stop, TaskObserved, load_broken
from scheduler.reconcile.observations import record_observation, record_observations
from scheduler.reconcile.resizing import resize_task
from scheduler.reconcile.task_specs import GRACE_S, build_task_specs

log = logging.getLogger("tessera.reconcile")

THREADS = 8
"""Concurrent runtime calls; most of their time is waiting."""
PATIENCE_S = 5.0
"""An action that could not begin within this time is dropped; a later round sends it again."""

RuntimeAction = Start | Stop | Resize | Forget
ACTION_TYPES = {kind.__name__: kind for kind in (Start, Stop, Resize, Forget)}


@dataclass(frozen=True)
class FencedAction:
    """An action with its lease epoch."""

    action: RuntimeAction
    epoch: int


@dataclass(frozen=True)
class LoadedTasks:
    """Database rows for actions. specs: by uuid; gids: by job; masks: over logs of tasks to forget, by uuid."""

    specs: dict[str, TaskSpec | MissingSecret]
    gids: dict[int, int]
    masks: Mapping[str, LogMask | None]


def encode_action(order: FencedAction) -> dict:
    return {"kind": type(order.action).__name__, "epoch": order.epoch, **asdict(order.action)}


def decode_action(message: dict) -> FencedAction:
    fields = dict(message)
    kind, epoch = ACTION_TYPES[fields.pop("kind")], fields.pop("epoch")
    return FencedAction(kind(**fields), epoch)


def run_actions(orders: Sequence[FencedAction], runtime: Runtime) -> None:
    """Run actions; drop stale and refused ones."""
    until = time.monotonic() + PATIENCE_S
    if others := [order for order in orders if not isinstance(order.action, Resize)]:
        _run_together(others, runtime, until)
    for action, epoch in ((order.action, order.epoch) for order in orders):
        if isinstance(action, Resize):  # rare, and each in transactions of its own
            try:
                resize_task(action, runtime, epoch)
            except (StaleState, Unavailable) as late:
                log.info("Resize of %s dropped: %s", action.uuid, late)


def _run_together(orders: Sequence[FencedAction], runtime: Runtime, until: float) -> None:
    orders = [order for order in orders if not isinstance(order.action, Forget) or _collect_numbers(order, runtime)]
    if not orders:
        return
    known = _load(orders, runtime)
    if len(orders) == 1:
        refused = [_run(orders[0], runtime, known, until)]
    else:
        with ThreadPoolExecutor(min(THREADS, len(orders))) as pool:
            refused = list(pool.map(lambda order: _run(order, runtime, known, until), orders))
    for order, observation in zip(orders, refused, strict=True):
        if observation is not None:
            record_observations([observation], order.epoch)


def run_action(order: FencedAction, runtime: Runtime) -> None:
    """Run one action. Raise StaleState, Unavailable."""
    action = order.action
    if isinstance(action, Resize):
        resize_task(action, runtime, order.epoch)
        return
    if isinstance(action, Forget):
        collect_ended([action.uuid], runtime)
    known = _load([order], runtime)
    if isinstance(action, Start) and action.uuid not in known.specs:
        raise StaleState(kind="task", was="not to be started")
    if refused := _call(order, runtime, known):
        record_observation(refused, order.epoch)


def find_missing_data(spec: TaskSpec) -> str:
    """Return what to say of a version that is not on disk, as after a backup that leaves files out, or of a volume that
    was removed; "" if all are there.
    """
    for mount in spec.mounts:
        if mount.place == NO_VOLUME:
            return f"The volume at {mount.target} was removed."
        if mount.place is None or mount.place.kind != "dataset":
            continue
        if not find_store().version(str(mount.place.number), int(mount.source)).is_dir():
            return f"The files of version {mount.source} at {mount.target} are not on the platform's storage."
    return ""


def build_stop_mark(stop: Stop) -> TaskObserved:
    return TaskObserved(stop.uuid, stop.job_id, TaskState.STOPPING, stop.reason)


def load_starts(
    uuids: Sequence[str], runtime: Runtime, epoch: int, again: Set[str] = frozenset()
) -> dict[str, TaskSpec | MissingSecret]:
    """Load specs of tasks still to start, or which secret keeps one from ever doing so. Raise StaleState.

    again: those that may be STARTING already, as their start was broken off. Stops after `looked_at`, the time before
    the read, win.
    """
    looked_at = time.monotonic()
    with transaction.atomic():
        check_epoch("reconcile", epoch)
        tasks = [task for task in load_tasks_to_start(uuids) if _is_still_to_start(task, again)]
        broken = load_broken()
        tasks = [task for task in tasks if (task.job_id, task.attempt) not in broken]
        specs = build_task_specs(tasks)
        containers, teams = runtime.capabilities.containers, {task.job.team_id for task in tasks}
        logins = {team: load_logins(team) if containers else () for team in teams}
        given = give_secrets({task.job_id: task.job for task in tasks}.values())
    known: dict[str, TaskSpec | MissingSecret] = {}
    for task in tasks:
        secrets = given.get(task.job_id, ())
        if isinstance(secrets, MissingSecret):
            known[task.uuid.hex] = secrets
        elif secrets is not None:
            spec, team = specs[task.uuid.hex], task.job.team_id
            own = pick_secrets(secrets, task.role)
            known[task.uuid.hex] = replace(spec, logins=logins[team], secrets=own, looked_at=looked_at)
    return known


def load_tasks_to_start(uuids: Sequence[str]) -> list[Task]:
    """Load tasks with rows for specs."""
    return list(Task.objects.filter(uuid__in=uuids).select_related("job__team", "job__user", "job__pool", "node__pool"))


def load_gids(job_ids: Sequence[int]) -> dict[int, int]:
    return dict(Job.objects.filter(pk__in=job_ids).values_list("pk", "team__gid")) if job_ids else {}


def _is_still_to_start(task: Task, again: Set[str]) -> bool:
    is_begun = task.state == TaskState.STARTING and task.uuid.hex in again
    return (task.state == TaskState.ASSIGNED or is_begun) and task.job.stop_requested_at is None


def _collect_numbers(order: FencedAction, runtime: Runtime) -> bool:
    """Store what a task still reported; False keeps it from being forgotten in this round."""
    try:
        collect_ended([order.action.uuid], runtime)
    except (Unavailable, OSError, DatabaseError) as failed:
        log.warning("the numbers of %s wait, and with them its end: %s", order.action.uuid, failed)
        return False
    return True


def _load(orders: Sequence[FencedAction], runtime: Runtime) -> LoadedTasks:
    of_term: dict[int, list[str]] = defaultdict(list)
    for order in orders:
        if isinstance(order.action, Start):
            of_term[order.epoch].append(order.action.uuid)
    again = {order.action.uuid for order in orders if isinstance(order.action, Start) and order.action.again}
    specs: dict[str, TaskSpec | MissingSecret] = {}
    for epoch, uuids in of_term.items():
        try:
            specs |= load_starts(uuids, runtime, epoch, again)
        except StaleState as stale:
            log.info("%d starts dropped: %s", len(uuids), stale)
    gids = load_gids([order.action.job_id for order in orders if isinstance(order.action, Stop)])
    forgotten = [order.action.uuid for order in orders if isinstance(order.action, Forget)]
    masks = load_task_masks(forgotten) if forgotten and runtime.capabilities.late_logs else {}
    return LoadedTasks(specs, gids, masks)


def _run(order: FencedAction, runtime: Runtime, known: LoadedTasks, until: float) -> TaskObserved | None:
    """Run one action without database; return what to record."""
    action = order.action
    if time.monotonic() > until or (isinstance(action, Start) and action.uuid not in known.specs):
        log.info("%s of %s dropped: stale, or too late", type(action).__name__, action.uuid)
        return None
    try:
        return _call(order, runtime, known)
    except Unavailable as away:
        log.warning("%s of %s waits: %s", type(action).__name__, action.uuid, away)
        return None


def _call(order: FencedAction, runtime: Runtime, known: LoadedTasks) -> TaskObserved | None:
    """Call the runtime; return the failure of a start that can never succeed. Raise Unavailable."""
    action = order.action
    try:
        if isinstance(action, Start):
            return _start(action, runtime, known.specs[action.uuid])
        if isinstance(action, Stop):
            gid = known.gids.get(action.job_id)
            runtime.stop(action.uuid, GRACE_S, epoch=order.epoch, gid=gid, unless_ran=action.unless_ran)
        else:
            runtime.forget(action.uuid, mask=known.masks.get(action.uuid))
    except Rejected as refusal:  # nothing ended: a later round retries
        raise Unavailable(f"{type(action).__name__} was refused: {refusal}") from refusal
    return None


def _start(action: Start, runtime: Runtime, spec: TaskSpec | MissingSecret) -> TaskObserved | None:
    if isinstance(spec, MissingSecret):
        return _build_failure(action, "secret_missing", "", spec.words)
    if missing := find_missing_data(spec):
        return _build_failure(action, "data_missing", "", missing)
    try:
        runtime.start(spec)
    except Rejected as refusal:
        reason = "refused_by_node" if isinstance(refusal, NodeRefused) else "rejected_by_cluster"
        return _build_failure(action, reason, spec.node, str(refusal))
    return None


def _build_failure(action: Start, reason: str, node: str, words: str) -> TaskObserved:
    view = ContainerView(action.uuid, node, "exited", detail=words)
    return TaskObserved(action.uuid, action.job_id, TaskState.FAILED, reason, view)
