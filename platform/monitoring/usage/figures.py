"""What jobs held and did, from holdings and their uses."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import DatabaseError, transaction
from django.utils import timezone

from cluster.models import Gpu
from common.resources import GpuAsk, parse_gpu, slice_of
from jobs.models import Job, Task
from jobs.states import JobState
from monitoring.usage.card_faults import load_faults
from monitoring.usage.counting import Count
from monitoring.usage.job_use import CardUse, HostUse, JobUse, Size
from monitoring.usage.moving import find_count
from quotas.models import Holding

PARTS = ((1, 8), (1, 4), (1, 2))
"""The slices that are offered in place of what a job held."""


def load_job_use(job: Job) -> JobUse | None:
    """Return the use of a job's newest attempt that held anything; None if none did, or it cannot be read."""
    return load_job_uses([job]).get(job.pk)


def load_job_uses(jobs: Sequence[Job]) -> dict[int, JobUse]:
    """Return {job id: its use}, in few statements. What cannot be read is not there: no page fails for want of it."""
    try:
        with transaction.atomic():
            return _load_job_uses({job.pk: job for job in jobs})
    except DatabaseError:
        return {}


def _load_job_uses(jobs: dict[int, Job]) -> dict[int, JobUse]:
    tasks = _find_newest(Task.objects.filter(job__in=jobs, assigned_at__isnull=False))
    rows = Holding.objects.filter(task__in=[task.uuid for task in tasks])
    rows = rows.select_related("gpu__pool", "node", "use", "use_now")
    held: dict[UUID, list[Holding]] = defaultdict(list)
    for row in rows.order_by("held_from", "pk"):
        held[row.task].append(row)
    now, of_job = timezone.now(), defaultdict(list)
    faults = load_faults([row for some in held.values() for row in some], now)
    for task in tasks:
        of_job[task.job_id].append(task)
    return {pk: _build_job_use(jobs[pk], some, held, faults, now) for pk, some in of_job.items()}


def _find_newest(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks of each job's newest attempt among them."""
    newest: dict[int, int] = {}
    tasks = list(tasks)
    for task in tasks:
        newest[task.job_id] = max(newest.get(task.job_id, 0), task.attempt)
    return [task for task in tasks if task.attempt == newest[task.job_id]]


def _build_job_use(
    job: Job, tasks: list[Task], held: dict[UUID, list[Holding]], faults: dict[int, list[str]], now: datetime
) -> JobUse:
    cards = [use for task in tasks for use in _build_cards(task, held[task.uuid], faults, now)]
    hosts = [_build_host(task, row, now) for task in tasks for row in held[task.uuid] if row.gpu_id is None]
    begun = [task.started_at for task in tasks if task.started_at]
    ended = max((task.ended_at or now for task in tasks), default=now)
    return JobUse(
        cards=cards,
        hosts=hosts,
        ran_ms=_count_ms(min(begun), ended) if begun else 0,
        max_time_s=job.max_time_s,
        ended_well=job.state == JobState.SUCCEEDED,
        sizes=_list_sizes(job, {row.gpu for task in tasks for row in held[task.uuid] if row.gpu is not None}),
    )


def _build_cards(task: Task, rows: Iterable[Holding], faults: dict[int, list[str]], now: datetime) -> list[CardUse]:
    """Return the uses of a task's cards. Its slices' watch saw peaks between two samples, too."""
    peaks = {use["uuid"]: use.get("peak_mib") for use in task.gpu_use}
    built: list[CardUse] = []
    newest: dict[int | None, int] = {}
    for row in rows:
        if row.gpu is None:
            continue
        count, times = find_count(row), _measure(task, row, now)
        if row.gpu_id in newest:  # it was resized since
            earlier = newest[row.gpu_id]
            built[earlier] = replace(built[earlier], tail_ms=None)
        newest[row.gpu_id] = len(built)
        built.append(
            CardUse(
                milli=row.gpu_milli,
                percent=row.gpu_compute_percent,
                memory_mib=row.gpu_memory_mib,
                **times,
                known_ms=_measure_known(task, row, count, times["ran_ms"]),
                seen_ms=count.seen_ms if count else 0,
                active_ms=count.active_ms if count else 0,
                idle_ms=count.idle_ms if count else 0,
                tail_ms=count.low_ms if count else 0,
                busy_ms=count.busy_ms if count else None,
                peak_mib=_find_peak(count, peaks.get(row.gpu.uuid)),
                source=count.source if count else "",
                of_card=count.of_card if count else False,
                sm_ms=count.sm_ms if count else None,
                sm_of_ms=count.sm_of_ms if count else 0,
                throttle_ms=count.throttle_ms if count else None,
                throttle_of_ms=count.throttle_of_ms if count else 0,
                task=task.name,
                node=row.node.name,
                gpu=row.gpu.index,
                faults=faults.get(row.pk, ()),
            )
        )
    return built


def _build_host(task: Task, row: Holding, now: datetime) -> HostUse:
    count, times = find_count(row), _measure(task, row, now)
    return HostUse(
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        **times,
        known_ms=_measure_known(task, row, count, times["ran_ms"]),
        seen_ms=count.seen_ms if count else 0,
        cpu_ms=count.cpu_ms if count else None,
        peak_mib=_find_peak(count, task.peak_memory_mib),
    )


def _measure(task: Task, row: Holding, now: datetime) -> dict[str, int]:
    end = row.released_at or now
    ran = _count_ms(max(row.held_from, task.started_at), end) if task.started_at else 0
    return {"held_ms": _count_ms(row.held_from, end), "ran_ms": ran}


def _find_peak(count: Count | None, told_mib: int | None) -> int | None:
    known = (count.peak_mib if count is not None else None, told_mib)
    return max((mib for mib in known if mib is not None), default=None)


def _measure_known(task: Task, row: Holding, count: Count | None, ran_ms: int) -> int:
    """Return how long it had run at its newest sample."""
    if count is None or task.started_at is None:
        return 0
    return min(_count_ms(max(row.held_from, task.started_at), count.at), ran_ms)


def _list_sizes(job: Job, gpus: set[Gpu]) -> list[Size]:
    """Return the slices that each of its tasks could have had; none unless each held one card that may be shared."""
    if len(job.gang) != 1:
        return []
    ask = parse_gpu(job.request["gpu"])
    if ask.count != 1 or not gpus or not all(gpu.shared for gpu in gpus):
        return []
    sellable, most = min(gpu.sellable_mib for gpu in gpus), min(gpu.max_slices for gpu in gpus)
    sizes = []
    for part in PARTS:
        smaller = GpuAsk(count=1, part=part, models=ask.models)
        share = slice_of(smaller, sellable)
        if part[1] <= most and share is not None:
            sizes.append(Size(smaller.text, share.compute_percent, share.memory_mib))
    return sizes


def _count_ms(begin: datetime, end: datetime) -> int:
    return max(round((end - begin).total_seconds() * 1000), 0)
