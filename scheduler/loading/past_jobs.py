"""What is known of jobs before they run, and how long those ran that ended by themselves."""

import json
from collections.abc import Iterable
from functools import lru_cache
from hashlib import md5
from re import compile as compile_pattern
from typing import Any

from django.db.models import Func, JSONField, Q, QuerySet

from common.resources import parse_gpu
from jobs.models import Job, JobKind
from jobs.states import JobState
from scheduler.core.prediction.job_traits import JobTraits, PastJob, cut_name
from scheduler.loading.json_rows import as_text, load_rows, seconds

MOST_PAST = 20_000
"""Newest jobs to learn from."""
OWN_FAILURES = ("exit_nonzero", "out_of_memory", "gpu_out_of_memory", "time_limit")
"""Failures that a job itself brought about."""
NUMBERS = compile_pattern(r"[0-9]+")


def list_past_jobs() -> QuerySet[Job]:
    """Return the batch jobs that ended by themselves, or at their time limit, in their first attempt."""
    by_itself = Q(state=JobState.SUCCEEDED) | Q(state=JobState.FAILED, reason__in=OWN_FAILURES)
    return Job.objects.filter(
        by_itself, kind=JobKind.BATCH, attempt=1, started_at__isnull=False, ended_at__isnull=False
    )


def load_past_jobs() -> list[PastJob]:
    """Load the newest past jobs, oldest end first."""
    newest = list_past_jobs().order_by("-pk")[:MOST_PAST]
    rows = load_rows(newest, seconds("started_at"), seconds("ended_at"), *TRAITS)
    return [PastJob(_build(*told), max(end - start, 0.0)) for start, end, *told in sorted(rows, key=lambda row: row[1])]


def load_traits(job_ids: Iterable[int]) -> dict[int, tuple[int, JobTraits]]:
    """Return {job id: (revision, traits)}."""
    rows = load_rows(Job.objects.filter(pk__in=list(job_ids)), "pk", "revision", *TRAITS)
    return {pk: (revision, _build(*told)) for pk, revision, *told in rows}


def read_traits(job: Job) -> JobTraits:
    """Return the traits of a job that is not stored yet."""
    spec, gang = job.spec, json.dumps(job.gang)
    of_spec = spec.get("run"), spec.get("roles"), spec.get("image")
    return _build(job.user_id, job.team_id, job.pool_id, job.name, *of_spec, gang, job.time_s)


def _of_spec(key: str) -> Func:
    return Func("spec", template=f"%(expressions)s->'{key}'", output_field=JSONField())


TRAITS = (
    *("user_id", "team_id", "pool_id", "name"),
    *(_of_spec("run"), _of_spec("roles"), _of_spec("image")),
    *(as_text("gang"), "time_s"),
)
"""Columns of `_build`."""


def _build(
    user_id: int,
    team_id: int,
    pool_id: int,
    name: str,
    run: str | None,
    roles: dict[str, Any] | None,
    image: str | None,
    gang: str,
    time_s: int | None,
) -> JobTraits:
    command = run or json.dumps(roles, sort_keys=True)
    return JobTraits(
        person=user_id,
        team=team_id,
        pool=pool_id,
        name=cut_name(name),
        command=_hash(command),
        program=_hash(NUMBERS.sub("#", command)),
        image=image or "",
        size=_tell_size(gang),
        said_s=float(time_s) if time_s else None,
    )


def _hash(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()[:12]


@lru_cache(maxsize=4096)
def _tell_size(gang: str) -> str:
    """Return the cards that a gang starts with, such as "8", "2 parts" or "0"."""
    asks = [(role["min"], parse_gpu(role["request"]["gpu"])) for role in json.loads(gang)]
    cards = sum(tasks * ask.count for tasks, ask in asks)
    return f"{cards} parts" if any(ask.is_slice for _, ask in asks) else str(cards)
