"""Sending of rows (webhooks, mails): claim, send, retry with growing pauses, at least once.

A claim is a numbered lease: no transaction is open during a send, and a late sender finds another number and changes
nothing.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypeVar

from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from events.models import Outgoing
from metrics.process import SENT

Row = TypeVar("Row", bound=Outgoing)

LEASE = timedelta(seconds=60)
"""Longer than a batch can take; then another sender tries."""
PAUSES_S = (10, 30, 120, 600, 1800, 3600, 7200, 14_400, 21_600, 36_000)
"""Pauses between tries: 11 tries within 24 h."""
LONGEST_PAUSE = timedelta(seconds=max(PAUSES_S))
MARGIN = timedelta(seconds=60)
"""A claim of another sender may be so much younger than the statement that meets it."""
AT_ONCE = 8
STOP_AFTER_S = 20


def claim_batches(rows: models.QuerySet[Row]) -> Iterator[list[Row]]:
    """Yield claimed batches of due rows, for a while."""
    until = time.monotonic() + STOP_AFTER_S
    while time.monotonic() < until and (batch := claim_rows(rows, AT_ONCE)):
        yield batch


def claim_rows(rows: models.QuerySet[Row], most: int) -> list[Row]:
    """Claim up to `most` due rows; concurrent callers get others."""
    free = Q(claimed_until__isnull=True) | Q(claimed_until__lt=Now()) | Q(claimed_until__gt=Now() + LEASE + MARGIN)
    now_or_before_the_clock_was_set_back = Q(due_at__lte=Now()) | Q(due_at__gt=Now() + LONGEST_PAUSE + MARGIN)
    with transaction.atomic():
        due = rows.filter(free, now_or_before_the_clock_was_set_back).order_by("due_at", "pk")
        keys = list(due.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)[:most])
        everything = rows.model._default_manager.filter(pk__in=keys)
        everything.update(claimed_until=Now() + LEASE, claim_no=F("claim_no") + 1, attempts=F("attempts") + 1)
    return list(rows.filter(pk__in=keys).order_by("due_at", "pk"))


def record_try(row: Outgoing, *, sent: bool, error: str = "", again: bool = True, **also: Any) -> bool:
    """Store the result of a try; True if the last one failed."""
    SENT.labels(row._meta.model_name or "", "sent" if sent else "failed").inc()
    left = again and row.attempts <= len(PAUSES_S)
    due = None if sent or not left else Now() + timedelta(seconds=PAUSES_S[row.attempts - 1])
    changes = {"due_at": due, "claimed_until": None, "error": error, "sent_at": Now() if sent else None, **also}
    mine = type(row)._default_manager.filter(pk=row.pk, claim_no=row.claim_no)
    return bool(mine.update(**changes)) and not sent and not left
