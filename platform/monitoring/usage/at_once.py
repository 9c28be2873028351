"""How often jobs of a size started at once, lately."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache

from django.db.models import Count, F, Q
from django.utils import timezone

from jobs.models import Job, Task
from monitoring.usage.efficiency import judge
from monitoring.usage.job_use import JobUse
from monitoring.usage.verdict import Verdict

LATELY = timedelta(days=30)
AT_ONCE = timedelta(minutes=1)
FEWEST = 10
"""Of fewer jobs nothing is said."""
KEPT_S = 600


def judge_job(job: Job, use: JobUse) -> list[Verdict]:
    """Return the verdicts on a job, with how often a smaller slice that is advised started at once."""
    return _add_starts(job, judge(use))


def _add_starts(job: Job, verdicts: Sequence[Verdict]) -> list[Verdict]:
    told = []
    for verdict in verdicts:
        if verdict.code == "too_much_memory":
            percent = find_at_once_percent(job.pool_id, str(verdict.params["gpu"]))
            verdict = verdict if percent is None else replace(verdict, params={**verdict.params, "at_once": percent})
        told.append(verdict)
    return told


def find_at_once_percent(pool_id: int, gpu: str) -> int | None:
    """Return how many jobs of a size started within a minute of their submit; None if too few were there."""
    return _count_at_once(pool_id, gpu, int(time.monotonic() // KEPT_S))


@lru_cache(maxsize=256)
def _count_at_once(pool_id: int, gpu: str, turn: int) -> int | None:
    """turn: grows every ten minutes, for which it is kept: pages ask each five seconds."""
    since = timezone.now() - LATELY
    first = Task.objects.filter(rank=0, attempt=1, assigned_at__isnull=False, job__pool=pool_id)
    of_size = first.filter(job__submitted_at__gt=since, job__gang__0__request__gpu=gpu)
    soon = Q(assigned_at__lte=F("job__eligible_at") + AT_ONCE)
    found = of_size.aggregate(jobs=Count("pk"), soon=Count("pk", filter=soon))
    return round(100 * found["soon"] / found["jobs"]) if found["jobs"] >= FEWEST else None
