"""Jobs with samples of minutes gone by, and hands that move their clocks."""

from datetime import timedelta

from django.db.models import F
from django.utils import timezone

from jobs.models import Job
from jobs.states import TaskState
from monitoring.models import IdleWatch, Sample, TaskNow
from monitoring.series.keys import COLUMNS, Kind
from monitoring.series.store import keep_samples

QUIET = {
    "cpu_milli": 8,
    "memory_mib": 300,
    "processes": 4,
    "read_kib_s": 0,
    "write_kib_s": 0,
    "net_rx_kib_s": None,
    "net_tx_kib_s": None,
}


def run_for(job: Job, minutes: float) -> Job:
    """Let a job have run for so long."""
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(minutes=minutes))
    job.refresh_from_db()
    return job


def sample(job: Job, minutes: float, *, ago: float = 0, busy: float | None = 0, used_mib: int = 0, **task) -> None:
    """Write what a job did in the `minutes` before `ago` minutes: ticks of ten seconds."""
    end = timezone.now() - timedelta(minutes=ago)
    rows = []
    for row in job.newest_tasks.filter(state=TaskState.RUNNING):
        gpus = {gpu.uuid: gpu.pk for gpu in row.node.gpus.all()}
        told = {**QUIET, **task}
        for tick in range(round(6 * minutes)):
            at = end - timedelta(seconds=10 * tick)
            rows.append(_row(Kind.TASK, row.pk, 0, at, [told[name] for name in COLUMNS[Kind.TASK]]))
            for card in row.cards:
                values = [None if busy is None else round(100 * busy), used_mib]
                rows.append(_row(Kind.SHARE, row.pk, gpus[card["uuid"]], at, values))
        shares = [{"uuid": card["uuid"], "source": "simulated", "up_ms": 0, "busy_percent": busy} for card in row.cards]
        now = {"at": end, "term": 1, "up_ms": 0, "cpu_milli": told["cpu_milli"], "shares": shares}
        TaskNow.objects.update_or_create(task=row, defaults=now)
    keep_samples(rows)


def _row(kind: Kind, subject: int, card: int, at, values: list) -> Sample:
    return Sample(kind=kind, subject=subject, card=card, at=at, span_ms=10_000, source="simulated", values=values)


def pass_time(job: Job, minutes: float) -> None:
    """Move all that a watch remembers into the past, as if so many minutes had gone by and been looked at."""
    by = timedelta(minutes=minutes)
    for name in ("since", "rung_at", "snoozed_until"):
        IdleWatch.objects.filter(pk=job.pk, **{f"{name}__isnull": False}).update(**{name: F(name) - by})
    IdleWatch.objects.filter(pk=job.pk).update(looked_at=F("looked_at") - timedelta(seconds=60))
