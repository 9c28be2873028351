"""All waiting jobs as the queue's page counts and orders them: of thousands it shows some."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import F, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from common.resources import gpu_milli, parse_gpu, slice_of
from jobs.models import Job, find_told_pool, list_positions
from jobs.reason_messages import UNEXPLAINED
from portal.access.redacted_rows import MOST_ROWS


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """pool: which its reason is of. positions: see `list_positions`. gang: as JSON, which many jobs share."""

    pk: int
    pool: str
    reason: str
    positions: dict[str, int | None]
    gang: str

    def count_milli(self, sellable: int) -> int:
        """Return the thousandths that it requests on cards of `sellable` MiB."""
        return _milli_of_gang(self.gang, sellable)


def load_queued_jobs(pool: str | None = None) -> list[QueuedJob]:
    """Load everybody's, at most MOST_ROWS, those at the front first. Only those in sight may be told as rows."""
    front = (F("wait_position").asc(nulls_last=True), "-priority", "id")
    jobs = Job.objects.waiting().filter(stop_requested_at__isnull=True).order_by(*front)
    texts = (Cast(name, TextField()) for name in ("choices", "wait_places", "gang"))
    reason = KeyTextTransform("code", KeyTransform("0", "wait_reasons"))
    rows = (jobs.in_pool(pool) if pool else jobs).values_list("pk", "pool__name", "wait_position", reason, *texts)
    return [_build_queued(*row) for row in rows[:MOST_ROWS]]


def sum_milli(jobs: Iterable[QueuedJob], sellable: dict[str, int]) -> int:
    """Return the thousandths that they request. sellable: MiB of a card of each pool."""
    return sum(job.count_milli(sellable.get(job.pool, 0)) for job in jobs)


def _build_queued(
    pk: int, pool: str, position: int | None, reason: str | None, choices: str, places: str, gang: str
) -> QueuedJob:
    told = json.loads(places) if places != "[]" else []
    positions = list_positions(pool, _parse(choices), told, position)
    return QueuedJob(pk, find_told_pool(pool, told), reason or UNEXPLAINED, positions, gang)


@lru_cache(1024)
def _parse(text: str) -> list[dict]:
    return json.loads(text)


@lru_cache(4096)
def _milli_of_gang(gang: str, sellable: int) -> int:
    return sum(role["min"] * _milli_of(role["request"]["gpu"], sellable) for role in _parse(gang))


def _milli_of(gpu: str, sellable: int) -> int:
    ask = parse_gpu(gpu)
    share = slice_of(ask, sellable) if ask.is_slice and sellable else None
    return gpu_milli(share, sellable) if share else 1000 * ask.count
