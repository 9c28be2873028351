"""Slices of running jobs: another size on request, which scheduler.reconcile.resizing gives or refuses, and their use.

Task.resize is {"gpu": "12GB", "by", "serial": counts requests, "uuid": of the card, "memory_mib", "compute_percent",
"milli": the new size, "open": not done or refused, "before": the old size, "refused": {"kind", "detail"}}.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from accounts.models import User
from accounts.permissions import require
from cluster.models import Agent, Gpu
from common.errors import Conflict, FieldError, InvalidInput
from common.resources import GpuAsk, Slice, gpu_milli, parse_gpu, show_memory, slice_of
from events.record_and_publish import Actor, hint, record
from jobs.control import load_with_names
from jobs.lifecycle import load_attempt, lock_job
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from quotas.models import Holding

BY_LIBRARY = frozenset({"slice", "simulated"})
"""Enforcement modes of cards with slices that can be resized."""
BY_MPS = "mps"


@dataclass(frozen=True)
class Change:
    task: Task
    gpu: Gpu
    was: dict[str, Any]
    share: Slice

    @property
    def more_mib(self) -> int:
        return self.share.memory_mib - self.was["memory_mib"]

    def is_asked(self, ask: GpuAsk) -> bool:
        """Whether this size is requested and still open."""
        wish = self.task.resize
        return wish is not None and wish["open"] and wish["gpu"] == ask.text


def resize_job(*, actor: User, job: Job, gpu: object, task: str = "", able: bool = True) -> Job:
    """Request another slice size for running tasks. Raises InvalidInput and Conflict.

    gpu: as in a job file. task: such as worker.1, "" for all. able: whether the runtime can.
    """
    require(actor, "job.resize", job.team, job.user_id)
    return request_resize(by=actor.as_actor, job=job, gpu=gpu, task=task, able=able)


@transaction.atomic
def request_resize(*, by: Actor, job: Job, gpu: object, task: str = "", able: bool = True) -> Job:
    """Request another slice size without a permission check, as a rule does. Raises InvalidInput and Conflict."""
    ask = _read_ask(gpu)
    job = lock_job(job.pk)
    if job.state != JobState.RUNNING or job.stop_requested_at is not None:
        raise Conflict("only_running_jobs", state=job.state.lower())
    if not able:
        raise Conflict("resize_not_here")
    changes = [_change(one, ask) for one in _choose(job, task)]
    if all(change.is_asked(ask) for change in changes):
        return load_with_names(job)  # a repeated request
    _check_room(changes)
    for change in changes:
        Task.objects.filter(pk=change.task.pk).update(resize=build_wish(change, ask, by.name))
    names = [change.task.name for change in changes]
    params = {"gpu": ask.text, "tasks": names}
    record(job, "resize_requested", actor=by, params=params)
    hint("reconcile")
    return load_with_names(job)


def may_resize(job: Job, tasks: Iterable[Task]) -> bool:
    """Whether a running task has a slice that can be resized."""
    return job.state == JobState.RUNNING and job.stop_requested_at is None and any(map(_has_slice, tasks))


def _read_ask(gpu: object) -> GpuAsk:
    ask = parse_gpu(gpu)
    if not ask.is_slice or ask.models:
        raise InvalidInput([FieldError("/gpu", "not_a_slice", {"got": ask.text})])
    return ask


def _choose(job: Job, name: str) -> Sequence[Task]:
    running = [task for task in load_attempt(job) if task.state == TaskState.RUNNING]
    if name:
        running = [task for task in running if name == task.name]
        if not running:
            raise InvalidInput([FieldError("/task", "no_such_task", {"got": name[:80]})])
    chosen = [task for task in running if _has_slice(task)] or running
    if not chosen:
        raise Conflict("only_running_jobs", state=job.state.lower())
    return chosen


def _has_slice(task: Task) -> bool:
    held = task.cards
    return len(held) == 1 and not held[0]["whole"] and held[0]["enforcement"] in BY_LIBRARY


def _change(task: Task, ask: GpuAsk) -> Change:
    """Raise Conflict for what is impossible whatever is free."""
    if not task.cards:
        raise Conflict("resize_no_card")
    card = task.cards[0]
    if len(task.cards) > 1 or card["whole"]:
        raise Conflict("resize_whole_card")
    if card["enforcement"] not in BY_LIBRARY:
        raise Conflict("resize_kept_otherwise", mode=card["enforcement"])
    if task.resize is not None and task.resize["open"] and task.resize["gpu"] != ask.text:
        raise Conflict("resize_under_way")
    gpu = Gpu.objects.present().filter(node=task.node_id, uuid=card["uuid"]).select_related("pool").first()
    share = slice_of(ask, gpu.sellable_mib) if gpu else None
    if gpu is None or share is None or share.memory_mib >= gpu.sellable_mib:
        largest = show_memory(gpu.sellable_mib) if gpu else "0 GB"
        raise Conflict("resize_above_card", asked=ask.text, largest=largest)
    return _check_use(Change(task, gpu, card, share))


def _check_use(change: Change) -> Change:
    wanted = change.share.memory_mib
    for use in change.task.gpu_use:
        if use["uuid"] != change.gpu.uuid:
            continue
        if use["used_mib"] > wanted:
            used = show_memory(use["used_mib"])
            raise Conflict("resize_below_use", used=used, asked=show_memory(wanted), task=change.task.name)
        if use.get("compute") == BY_MPS and change.more_mib > 0:
            raise Conflict("resize_by_mps")
    return change


def _check_room(changes: Iterable[Change]) -> None:
    """Check without a lock that the changes fit their cards now."""
    of: dict[int, list[Change]] = defaultdict(list)
    for change in changes:
        of[change.gpu.pk].append(change)
    for pk, some in of.items():
        gpu, more = some[0].gpu, sum(change.more_mib for change in some)
        held = Holding.objects.live().filter(gpu=pk).aggregate(mib=Sum("gpu_memory_mib", default=0))["mib"]
        if more > 0 and held + more > gpu.sellable_mib:
            free, asked = show_memory(max(gpu.sellable_mib - held, 0)), show_memory(more)
            raise Conflict("resize_no_room", gpu=str(gpu), free=free, asked=asked)


def build_wish(change: Change, ask: GpuAsk, by: str) -> dict[str, Any]:
    """Build the stored request. Under MPS the compute share is fixed at the start."""
    by_mps = any(use.get("compute") == BY_MPS for use in change.task.gpu_use)
    percent = change.was["compute_percent"] if by_mps else change.share.compute_percent
    held = Slice(change.share.memory_mib, percent)
    return {
        "gpu": ask.text,
        "by": by,
        "serial": (change.task.resize or {"serial": 0})["serial"] + 1,
        "uuid": change.gpu.uuid,
        "memory_mib": held.memory_mib,
        "compute_percent": held.compute_percent,
        "milli": gpu_milli(held, change.gpu.sellable_mib),
        "open": True,
    }


FIELDS = ("uuid", "limit_mib", "used_mib", "peak_mib", "refused", "watched", "over")


def take_uses(agent: Agent, slices: Iterable[Mapping[str, Any]]) -> int:
    """Store the slice use of tasks on the agent's node. Tasks above their slice are stopped.

    slices: {"task": uuid in hex, "cards": [dict of FIELDS]}.
    """
    told = {UUID(one["task"]): one["cards"] for one in slices}
    tasks = list(
        Task.objects.holding().filter(uuid__in=told, node__name=agent.node_name).only("cards", "gpu_use", "uuid")
    )
    for task in tasks:
        uses = _uses(task, told[task.uuid])
        if uses != task.gpu_use:
            Task.objects.holding().filter(pk=task.pk).update(gpu_use=uses)
            if any(use["over"] for use in uses):
                hint("reconcile")
    return len(tasks)


def _uses(task: Task, cards: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Keep `over` once it is set."""
    own = {card["uuid"] for card in task.cards if not card.get("whole")}
    before = {use["uuid"]: use.get("over", "") for use in task.gpu_use}
    kept = ({name: card[name] for name in FIELDS} for card in cards if card["uuid"] in own)
    return [card | {"over": card["over"] or before.get(card["uuid"], "")} for card in kept]
