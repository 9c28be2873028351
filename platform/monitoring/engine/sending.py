"""Send samples of cards, machines and pools to a series engine, each once, soon after they came.

Nothing waits for it. While the engine is away the newest quarter of an hour is kept for it (they are in PostgreSQL
anyway), and what is older is dropped and counted.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from common.safe_http import Unreached
from metrics.process import REMOTE_WRITTEN
from monitoring.engine.endpoint import Endpoint
from monitoring.engine.figures import KINDS, Labels, build_series, load_labels
from monitoring.engine.remote_write import HEADERS, Series, encode_body
from monitoring.models import RemoteWrite, Sample
from monitoring.series.keys import Kind

CAUGHT_UP = timedelta(minutes=15)
HELD_BACK = timedelta(seconds=30)
"""Samples of this age have come, unless their agent or the platform was away: those that come later are not sent."""
LONGEST = timedelta(seconds=60)
"""Of samples in one body."""
TERM_S = 5.0
"""After which no further body is begun: mails and webhooks leave by the same process."""


@dataclass(frozen=True)
class Span:
    """Samples after `start`, until `end`, are due; those from `until` to `start` are too old."""

    until: datetime
    start: datetime
    end: datetime


def send_samples(endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
    """Send what is due, at most for about TERM_S; nothing while another process does it."""
    last, labels = clock() + TERM_S, load_labels()
    while _send_next(endpoint, labels) and clock() < last:
        pass


def load_sent() -> RemoteWrite | None:
    """Return how far samples were sent; None before the first try."""
    return RemoteWrite.objects.filter(pk=1).first()


def choose_span(until: datetime, now: datetime) -> Span | None:
    """Return what is to be sent next, when everything was until `until`; None if that is nothing."""
    start = max(until, now - CAUGHT_UP)
    end = min(start + LONGEST, now - HELD_BACK)
    return Span(until, start, end) if end > start else None


def judge_status(status: int) -> bool | None:
    """Return whether an engine took a body; None: it may take it later."""
    if 200 <= status < 300:
        return True
    return None if status == 429 or status >= 500 else False


def _send_next(endpoint: Endpoint, labels: Mapping[Kind, Mapping[int, Labels]]) -> bool:
    """Send one body, and return whether there may be more to send at once.

    The row is locked meanwhile, so that no other process sends the same. What a process had sent that was killed before
    it wrote that down is sent twice, which docs/admin.md tells.
    """
    now = timezone.now()
    RemoteWrite.objects.get_or_create(pk=1, defaults={"until": now - CAUGHT_UP})
    with transaction.atomic():
        row = RemoteWrite.objects.select_for_update(skip_locked=True).filter(pk=1).first()
        span = None if row is None else choose_span(row.until, now)
        if row is None or span is None:
            return False
        _drop(row, _count_values(span.until, span.start))
        row.until = span.start
        series = build_series(_load_samples(labels, span), labels)
        taken = _post(row, endpoint, series) if series else True
        row.until = span.start if taken is None else span.end
        row.save()
    return taken is not None and span.end == span.start + LONGEST


def _post(row: RemoteWrite, endpoint: Endpoint, series: list[Series]) -> bool | None:
    """Send series and note what came of it. None: it is to be tried again."""
    try:
        reply = endpoint.send("POST", endpoint.url, HEADERS, encode_body(series))
        taken = judge_status(reply.status)
        row.error = "" if taken else "refused"
        row.status = reply.status
        row.words = "" if taken else reply.body.decode(errors="replace").strip()[:300]
    except Unreached as unreached:
        taken, row.error, row.status, row.words = None, unreached.why, None, ""
    values = sum(len(one.points) for one in series)
    if taken:
        row.sent_at = timezone.now()
        row.sent += values
        REMOTE_WRITTEN.labels("sent").inc(values)
    elif taken is False:
        _drop(row, values)
    return taken


def _drop(row: RemoteWrite, values: int) -> None:
    if values:
        row.dropped += values
        row.dropped_at = timezone.now()
        REMOTE_WRITTEN.labels("dropped").inc(values)


def _load_samples(labels: Mapping[Kind, Mapping[int, Labels]], span: Span) -> list[Sample]:
    """Return the samples of a span, each subject's in the order of their times."""
    found: list[Sample] = []
    for kind in KINDS:  # by their subjects, or PostgreSQL would read whole hours of what tasks did
        rows = Sample.objects.filter(kind=kind, subject__in=list(labels[kind]), card=0)
        found += rows.filter(at__gt=span.start, at__lte=span.end).order_by("subject", "at")
    return found


def _count_values(start: datetime, end: datetime) -> int:
    if start >= end:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            'SELECT coalesce(sum(cardinality(array_remove("values", NULL))), 0) FROM monitoring_sample '
            "WHERE kind = ANY(%s) AND at > %s AND at <= %s",
            [list(map(int, KINDS)), start, end],
        )
        return int(cursor.fetchone()[0])
