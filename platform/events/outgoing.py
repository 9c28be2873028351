"""Sending of rows (webhooks, mails): claim, send, retry with growing pauses, at least once.

A claim is a numbered lease: no transaction is open during a send, and a late sender finds another number and changes
nothing.
"""

from datetime import timedelta
from typing import Any, TypeVar

from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from events.models import Delivery, Outgoing, Webhook

Row = TypeVar("Row", bound=Outgoing)

LEASE = timedelta(seconds=60)
"""Longer than a batch can take; then another sender tries."""
PAUSES_S = (10, 30, 120, 600, 1800, 3600, 7200, 14_400, 21_600, 36_000)
"""Pauses between tries: 11 tries within 24 h."""
LONGEST_REST_S = 120
"""The longest pause of a webhook, after which it is tried again."""


def claim(rows: models.QuerySet[Row], most: int) -> list[Row]:
    """Claim up to `most` due rows; concurrent callers get others."""
    free = Q(claimed_until__isnull=True) | Q(claimed_until__lt=Now())
    with transaction.atomic():
        due = rows.filter(free, due_at__lte=Now()).order_by("due_at", "pk")
        keys = list(due.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)[:most])
        everything = rows.model._default_manager.filter(pk__in=keys)
        everything.update(claimed_until=Now() + LEASE, claim_no=F("claim_no") + 1, attempts=F("attempts") + 1)
    return list(rows.filter(pk__in=keys).order_by("due_at", "pk"))


def claim_deliveries(most: int) -> list[Delivery]:
    """Claim due deliveries of webhooks not paused."""
    awake = Q(webhook__rests_until__isnull=True) | Q(webhook__rests_until__lte=Now())
    return claim(Delivery.objects.filter(awake).select_related("webhook", "event"), most)


def finish(row: Outgoing, *, sent: bool, error: str = "", again: bool = True, **also: Any) -> bool:
    """Store the result of a try; True if the last one failed."""
    left = again and row.attempts <= len(PAUSES_S)
    due = None if sent or not left else Now() + timedelta(seconds=PAUSES_S[row.attempts - 1])
    changes = {"due_at": due, "claimed_until": None, "error": error, "sent_at": Now() if sent else None, **also}
    mine = type(row)._default_manager.filter(pk=row.pk, claim_no=row.claim_no)
    return bool(mine.update(**changes)) and not sent and not left


def rest(webhook: Webhook, attempts: int) -> None:
    """Pause a failing webhook, so that others go first."""
    pause = min(PAUSES_S[min(attempts, len(PAUSES_S)) - 1], LONGEST_REST_S)
    Webhook.objects.filter(pk=webhook.pk).update(rests_until=Now() + timedelta(seconds=pause))


def wake(webhook_id: int) -> None:
    Webhook.objects.filter(pk=webhook_id, rests_until__isnull=False).update(rests_until=None)
