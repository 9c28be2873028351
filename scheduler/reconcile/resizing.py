"""Resize a running task's slice: grow its holding before its limit, shrink it after.

A card thus never has more limits than it sells. The task's row keeps the request until done; later rounds resume.
"""

import logging
from typing import Any

from django.db import transaction

from common.errors import StaleState
from events.record_and_publish import RUNTIME, hint, record
from jobs.lifecycle import lock_job
from jobs.models import Task
from jobs.states import HOLDING, TaskState
from quotas.models import Holding, load_parents
from runtimes.contract.errors import Rejected
from runtimes.contract.runtime import Runtime
from scheduler.commit.starting import DoesNotFit, check_growth, check_teams, check_user, lock_cards, lock_limits
from scheduler.lease import check_epoch
from scheduler.reconcile.compare import Resize
from scheduler.reconcile.observations import load_task, write_progress

log = logging.getLogger("tessera.reconcile")

COLUMNS = {"memory_mib": "gpu_memory_mib", "compute_percent": "gpu_compute_percent", "milli": "gpu_milli"}
"""{amount as in requests and tasks' cards: column of holdings}."""
BY_RUNTIME = "runtime"
"""Recorded as the refuser if the runtime refused; otherwise a kind of DoesNotFit."""

Share = dict[str, int]


def resize_task(action: Resize, runtime: Runtime, epoch: int) -> None:
    """Resize idempotently. Raise StaleState, Unavailable."""
    wish = grow_holding(action, epoch)
    if wish is None:
        return
    refused = ""
    try:
        runtime.resize(action.uuid, {wish["uuid"]: wish["memory_mib"]}, serial=wish["serial"])
    except Rejected as refusal:
        refused = str(refusal)
        log.info("%s is not resized: %s", action.uuid, refused)
    finish_resize(action, wish, refused, epoch)


@transaction.atomic
def grow_holding(action: Resize, epoch: int) -> dict[str, Any] | None:
    """Grow the holding; return the request, None if refused for lack of room.

    Locks as in a start: limits, cards, job, then sums.
    """
    check_epoch("reconcile", epoch)
    task, share = load_task(action.uuid), load_share(action.uuid)
    wish = _wish_of(task)
    now = get_share(share)
    most = {name: max(now[name], wish[name]) for name in COLUMNS}
    grows = most != now
    full = _find_full(task, share, most) if grows else ""
    lock_job(action.job_id)
    task = load_task(action.uuid)
    if _wish_of(task) != wish:
        raise StaleState(kind="task", was="another wish")
    if full:
        _close(task, share, wish, now, full, "")
        return None
    if grows:
        wish = {**wish, "before": now}
        _hold(task, share, most, wish)
    return wish


@transaction.atomic
def finish_resize(action: Resize, wish: dict[str, Any], refused: str, epoch: int) -> None:
    """Set the holding to the new size, or the old if refused."""
    check_epoch("reconcile", epoch)
    lock_job(action.job_id)
    task = load_task(action.uuid)
    if task.resize != wish or task.state not in HOLDING:
        raise StaleState(kind="task", was=task.state)
    share = load_share(action.uuid)
    wanted = {name: wish[name] for name in COLUMNS}
    kept = wish.get("before", get_share(share)) if refused else wanted
    _close(task, share, wish, kept, BY_RUNTIME if refused else "", refused)


def get_share(holding: Holding) -> Share:
    return {name: getattr(holding, column) for name, column in COLUMNS.items()}


def _wish_of(task: Task) -> dict[str, Any]:
    if task.resize is None or not task.resize["open"] or task.state != TaskState.RUNNING:
        raise StaleState(kind="task", was=task.state)
    return task.resize


def _find_full(task: Task, share: Holding, most: Share) -> str:
    """Take locks and return what is full, or ""."""
    more = {name: most[name] - held for name, held in get_share(share).items()}
    parents = load_parents()
    quotas, own = lock_limits(task.job, parents)
    assert share.gpu_id is not None  # load_share asks for that
    (gpu,) = lock_cards([share.gpu_id]).values()
    ask = (more["milli"], 0, 0)
    try:
        check_teams(task.job, quotas, ask, parents)
        check_user(task.job, own, ask, 0)
        check_growth(gpu, more["memory_mib"], more["compute_percent"])
    except DoesNotFit as full:
        return str(full.params["kind"])
    return ""


def _close(task: Task, share: Holding, wish: dict[str, Any], kept: Share, refused_by: str, detail: str) -> None:
    """Set the holding and record the event."""
    was = wish.get("before", get_share(share))
    refused = {"kind": refused_by, "detail": detail} if refused_by else None
    words = {"role": task.role, "rank": task.rank, "attempt": task.attempt}
    sizes = {"from_mib": was["memory_mib"], "to_mib": wish["memory_mib"]}
    told = {"kind": refused_by, "detail": detail} if refused_by else {}
    record(task, "resize_refused" if refused_by else "resized", actor=RUNTIME, params={**words, **sizes, **told})
    _hold(task, share, kept, {**wish, **kept, "open": False, "refused": refused})
    hint("cycle")


def _hold(task: Task, share: Holding, now: Share, wish: dict[str, Any]) -> None:
    """Replace a changed holding by a new row: reports read both."""
    if now != get_share(share):
        Holding.objects.filter(pk=share.pk).release()
        kept = ("task", "team_id", "user_id", "pool_id", "node_id", "gpu_id", "numa", "priority")
        same = {name: getattr(share, name) for name in kept}
        Holding.objects.create(**same, **{COLUMNS[name]: value for name, value in now.items()})
    write_progress(task.uuid.hex, {"cards": [{**task.cards[0], **now}], "resize": wish})


def load_share(uuid: str) -> Holding:
    """Load a single-card task's holding."""
    return Holding.objects.live().get(task=uuid, gpu__isnull=False)
