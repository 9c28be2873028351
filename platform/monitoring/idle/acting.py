"""What the last rung does, and what follows from it: the notebook starts anew without its GPU, or with it again."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Sum

from common.errors import Conflict, InvalidInput, PlatformError, Unavailable
from common.locks import lock_rows
from events.record_and_publish import SYSTEM, Actor, record
from jobs.control import end_job
from jobs.models import Job
from jobs.running_slices import request_resize
from monitoring.idle.ladder import Ladder, Standing, plan_times
from monitoring.idle.loading import HeldJob
from monitoring.idle.rungs import Rung, Then
from monitoring.models import IdleWatch
from notebooks.models import Notebook
from quotas.models import Holding

log = logging.getLogger("tessera.idle")

LONGEST_RETURN = timedelta(hours=8)
REGRET = timedelta(minutes=15)
MARGIN = 1.2
"""A slice that is made smaller keeps so much more than its memory in use."""
CPU, GPU = "cpu", "gpu"

Start = Callable[[Notebook, str | None], Notebook]
"""Start a notebook for its owner; with another GPU amount than its own, if one is given."""


def act(watch: IdleWatch, job: Job, then: str, held: HeldJob, now: datetime, *, by: Actor = SYSTEM) -> dict[str, Any]:
    """Do what a rule or a person says, under the job's lock; return what was done."""
    before = sum_milli(held)
    if then == Then.SHRINK:
        return _shrink(watch, job, held, now)
    end_job(by=by, job=job, reason="idle")
    keeps = then == Then.RELEASE_GPU and held.notebook is not None
    if keeps:
        watch.notebook, watch.wish = held.notebook, CPU
    _count_return(watch, job, before, now)
    return {"then": then if keeps else Then.STOP.value, "milli": before}


def _shrink(watch: IdleWatch, job: Job, held: HeldJob, now: datetime) -> dict[str, Any]:
    """Ask for slices as small as what is used; what cannot be made smaller stays as it is."""
    used = watch.evidence.get("gpu_mib") or 0
    size = f"{max(0.5, round(MARGIN * used / len(held.tasks) * 1.048576 / 1000, 1))}GB"
    try:
        request_resize(by=SYSTEM, job=job, gpu=size)
    except (Conflict, InvalidInput) as refused:
        return {"then": Then.TELL.value, "why": refused.code}
    wishes = [wish for wish in job.newest_tasks.values_list("resize", flat=True) if wish]
    freed = sum_milli(held) - sum(wish["milli"] for wish in wishes)
    _count_return(watch, job, max(freed, 0), now)
    return {"then": Then.SHRINK.value, "gpu": size, "milli": max(freed, 0)}


def _count_return(watch: IdleWatch, job: Job, milli: int, now: datetime) -> None:
    ends = [now + LONGEST_RETURN]
    if watch.notebook is not None and watch.notebook.stops_at is not None:
        ends.append(watch.notebook.stops_at)
    elif job.max_time_s and job.started_at:
        ends.append(job.started_at + timedelta(seconds=job.max_time_s))
    watch.acted_at, watch.returned_milli, watch.returned_until = now, milli, max(min(ends), now)
    watch.regretted = False


def sum_milli(held: HeldJob) -> int:
    """Return the thousandths of cards that a job holds."""
    live = Holding.objects.live().filter(task__in=[task.uuid for task in held.tasks])
    return live.aggregate(milli=Sum("gpu_milli", default=0))["milli"]


def describe(watch: IdleWatch, job: Job, ladder: Ladder, standing: Standing, now: datetime) -> dict[str, Any]:
    """Return what an event and a notice of a rung say."""
    acts_at = plan_times(ladder, standing).get(Rung.ACTED)
    return {
        "name": watch.notebook.name if watch.notebook else job.name,
        "minutes": int(watch.clock.measure_idle_s(now) // 60),
        "seen": watch.evidence,
        "then": ladder.then.value,
        **({"at": acts_at.isoformat()} if acts_at is not None else {}),
    }


def fulfil_wishes(start: Start) -> None:
    """Start the notebooks anew whose last start has ended."""
    for watch in IdleWatch.objects.exclude(wish="").select_related("notebook__user", "notebook__job"):
        try:
            _fulfil(watch, start)
        except Unavailable:  # JupyterLab is being installed: the next look tries again
            continue
        except PlatformError as refused:
            log.info("%s does not go on: %s", watch.notebook, refused)
            _give_up(watch, refused)


@transaction.atomic
def _fulfil(watch: IdleWatch, start: Start) -> None:
    notebook = next(iter(lock_rows(Notebook.objects.live().filter(pk=watch.notebook_id or 0))), None)
    row = lock_rows(IdleWatch.objects.filter(pk=watch.pk))[0]
    if row.wish == "" or notebook is None:
        IdleWatch.objects.filter(pk=watch.pk).update(wish="")
        return
    before = row.job_id if row.wish == CPU else row.next_job_id
    if notebook.job_id != before:  # somebody started it meanwhile
        IdleWatch.objects.filter(pk=watch.pk).update(wish="")
        return
    if notebook.is_started:
        return
    started = start(notebook, "0" if row.wish == CPU else None)
    verb = "idle_on_cpu" if row.wish == CPU else "idle_resumed"
    IdleWatch.objects.filter(pk=watch.pk).update(wish="", next_job=started.job_id if row.wish == CPU else row.next_job)
    record(notebook, verb, actor=SYSTEM, params={"job": started.job.public_id if started.job else ""})


@transaction.atomic
def _give_up(watch: IdleWatch, refused: PlatformError) -> None:
    """The notebook stays stopped; its files are kept."""
    if lock_rows(IdleWatch.objects.filter(pk=watch.pk, wish=watch.wish)):
        IdleWatch.objects.filter(pk=watch.pk).update(wish="")
        rows = lock_rows(Notebook.objects.filter(pk=watch.notebook_id or 0))
        if rows:
            record(rows[0], "idle_not_started", actor=SYSTEM, params={"why": refused.code})
