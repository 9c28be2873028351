"""Write why jobs wait: new codes at once, numbers later."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from django.db import connection, transaction

from common.locks import database_now
from events.record_and_publish import publish_row
from jobs.dependencies.conditions import show_dependency
from jobs.models import Job
from scheduler.commit.steps import ExplainJobs
from scheduler.core.model.types import Refusal
from scheduler.lease import check_epoch
from scheduler.loading.json_rows import seconds
from scheduler.loading.row_cache import ROW_VERSION, cached_columns, cached_rows, read_version

REFRESH_REASONS_S = 15
"""Maximum age of numbers in a reason; new codes are written at once."""
NEAR_FRONT = 100
"""New positions up to this one are written at once; further back every start changes them: see REFRESH_REASONS_S."""
MOST_REFRESHED = 1000
"""Maximum number of jobs per cycle whose numbers alone are rewritten, the oldest first."""
MOST_MESSAGES = 50
"""Maximum number of jobs per cycle whose pages get a change message; others update later."""
IN_ALL_POOLS = {"held", "dependency", "start_after", "rate_policy", "user_limit"}
"""Reasons that hold in whichever pool a job waits."""

VERSION = ROW_VERSION.format(table="jobs_job")
WRITE_REASONS = f"""
UPDATE jobs_job SET wait_reasons = told.row -> 2, wait_position = (told.row ->> 3)::int,
    wait_of = (told.row ->> 4)::int, wait_places = told.row -> 5, explained_at = clock_timestamp()
FROM jsonb_array_elements(%s::jsonb) AS told(row)
WHERE jobs_job.id = (told.row ->> 0)::bigint AND {VERSION} = (told.row ->> 1)::bigint
    AND state = 'QUEUED'
RETURNING jobs_job.id, {VERSION}, extract(epoch FROM explained_at)::float
"""  # noqa: S608 (a constant)


class StoredReasons(NamedTuple):
    """The last explanation. number: its row's version."""

    pk: int
    number: int
    reasons: list[dict]
    position: int | None
    of: int | None
    places: list[dict]
    told_at: float | None
    held_by: str
    codes: list[str]
    told_pool_id: int | None


class ReasonUpdate(NamedTuple):
    """An explanation to write. number: the row version it applies to."""

    pk: int
    number: int
    reasons: list[dict]
    position: int
    of: int
    places: list[dict]
    held_by: str


def explain_jobs(step: ExplainJobs, epoch: int) -> None:
    """Write changed reasons and front positions, others after 15 s; no events."""
    with transaction.atomic():
        check_epoch("cycle", epoch)
        changed, aged = list_updates(step, load_stored_reasons(), database_now().timestamp() - REFRESH_REASONS_S)
        others = list_differing(step, aged)
        lines = [*changed, *islice(others, MOST_REFRESHED)]
        done = next(others, None) is None
        written = write_reasons([line[:-1] for line in lines]) if lines else {}
        _publish_for([line.pk for line in sorted(changed, key=itemgetter(3))[:MOST_MESSAGES]])
    _update_cache(lines, written, done)


def load_stored_reasons() -> list[StoredReasons]:
    columns = ("pk", read_version("jobs_job"), "wait_reasons", "wait_position", "wait_of", "wait_places")
    return cached_rows("queue", build_stored_reasons, *columns, seconds("explained_at"), "held_by")


def build_stored_reasons(
    pk: int,
    number: int,
    reasons: list[dict],
    position: int | None,
    of: int | None,
    places: list[dict],
    told_at: float | None,
    held_by: str,
) -> StoredReasons:
    codes = [reason["code"] for reason in reasons]
    told_pool_id = places[0]["pool"] if places else None
    return StoredReasons(pk, number, reasons, position, of, places, told_at, held_by, codes, told_pool_id)


def list_updates(
    step: ExplainJobs, rows: Iterable[StoredReasons], until: float
) -> tuple[list[ReasonUpdate], list[StoredReasons]]:
    """Return (visible changes, older rows by age)."""
    changed, aged, told_pools = [], [], step.list_told_pools()
    for row in rows:
        refusals = step.refusals.get(row.pk)
        if refusals is None:
            continue
        place = step.positions[row.pk]
        moved = place[0] <= NEAR_FRONT and place != (row.position, row.of)
        moved = moved or told_pools.get(row.pk) != row.told_pool_id
        if moved or [refusal.reason for refusal in refusals] != row.codes:
            changed.append(_build_update(row, refusals, place, step.list_places(row.pk)))
        elif not until <= (row.told_at or 0.0) <= until + 2 * REFRESH_REASONS_S:  # or told ahead of the clock
            aged.append(row)
    return changed, sorted(aged, key=lambda row: row.told_at or 0.0)


def list_differing(step: ExplainJobs, rows: Iterable[StoredReasons]) -> Iterator[ReasonUpdate]:
    """Yield explanations whose numbers changed."""
    for row in rows:
        line = _build_update(row, step.refusals[row.pk], step.positions[row.pk], step.list_places(row.pk))
        if (line.position, line.of, line.reasons, line.places) != (row.position, row.of, row.reasons, row.places):
            yield line


def write_reasons(
    lines: Sequence[tuple[int, int, list[dict], int, int, list[dict]]],
) -> Mapping[int, tuple[int, float]]:
    """Write explanations; return {job: (row version, time)} without jobs that changed meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(WRITE_REASONS, [json.dumps(lines)])
        return {pk: (number, told_at) for pk, number, told_at in cursor.fetchall()}


def _update_cache(lines: Iterable[ReasonUpdate], written: Mapping[int, tuple[int, float]], done: bool) -> None:
    """Update the row cache. done: nothing is left."""
    numbers, rows = {}, {}
    for pk, number, reasons, position, of, places, held_by in lines:
        if pk in written:
            new, told_at = written[pk]
            numbers[pk], rows[pk] = (
                (number, new),
                build_stored_reasons(pk, new, reasons, position, of, places, told_at, held_by),
            )
    cached_columns("queue", numbers, build_stored_reasons, rows, settled=done)


def _publish_for(job_ids: list[int]) -> None:
    for job in Job.objects.filter(pk__in=job_ids).only("pk", "team_id", "pool_id", "state", "choices").order_by("pk"):
        publish_row(job)


def _build_update(
    row: StoredReasons, refusals: list[Refusal], place: tuple[int, int], places: list[dict]
) -> ReasonUpdate:
    reasons = [_build_reason(refusal, row.held_by, [place["name"] for place in places]) for refusal in refusals]
    return ReasonUpdate(row.pk, row.number, reasons, *place, places, row.held_by)


def _build_reason(refusal: Refusal, held_by: str, pools: list[str]) -> dict:
    """Build the reason as it is stored with the job."""
    if refusal.reason == "held" and held_by:
        return {"code": "held", "params": {"who": held_by}}
    return {"code": refusal.reason, "params": name_pool(refusal, pools)}


def name_pool(refusal: Refusal, pools: list[str]) -> dict:
    """Return the values of a reason's sentence; of a job that waits in several pools it names the one that it is of."""
    if refusal.reason == "dependency":
        return {"jobs": [show_dependency(number) for number in refusal.params["jobs"]]}
    if len(pools) < 2 or refusal.reason in IN_ALL_POOLS:
        return refusal.params
    return {**refusal.params, "in_pool": pools[0]}
