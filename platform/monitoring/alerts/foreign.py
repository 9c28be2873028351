"""Alerts of other systems, brought by the webhook of an Alertmanager and shown beside the platform's own.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from django.conf import settings
from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import User
from common.errors import FieldError, InvalidInput
from monitoring.models import ForeignAlert

VERSION = "4"
MOST_ALERTS, MOST_KEPT = 1000, 5000
MOST_LABELS, MOST_TEXT = 64, 1000
STALE_AFTER = timedelta(hours=25)
"""An Alertmanager repeats what fires, each four hours if nobody changed that."""
KEPT = timedelta(days=7)


@dataclass(frozen=True)
class Brought:
    """One alert as it was sent. ended_at: None while it fires."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: datetime
    ended_at: datetime | None
    url: str = ""
    place: int = field(default=0, compare=False)

    @property
    def fingerprint(self) -> str:
        said = "\0".join(f"{name}\0{self.labels[name]}" for name in sorted(self.labels))
        return sha256(said.encode()).hexdigest()


@transaction.atomic
def take_foreign_alerts(*, user: User, source: str, alerts: Sequence[Brought]) -> int:
    """Keep what an Alertmanager says, and return how many alerts were taken. What it got from here is left out."""
    _check(alerts)
    others = {one.fingerprint: one for one in alerts if one.labels.get("tessera") != settings.TESSERA_PUBLIC_URL}
    known = set(ForeignAlert.objects.filter(user_id=user.pk).values_list("fingerprint", flat=True))
    if len(known | set(others)) > MOST_KEPT:
        raise InvalidInput([FieldError("/alerts", "too_many", {"got": len(known | set(others)), "max": MOST_KEPT})])
    rows = [
        ForeignAlert(
            user_id=user.pk,
            fingerprint=one.fingerprint,
            name=one.labels.get("alertname", "?")[:120],
            severity=one.labels.get("severity", "")[:40],
            labels=one.labels,
            annotations=one.annotations,
            source=source[:300],
            url=one.url[:1000],
            starts_at=one.starts_at,
            ended_at=one.ended_at,
            received_at=timezone.now(),
        )
        for one in others.values()
    ]
    newer = ["name", "severity", "annotations", "source", "url", "starts_at", "ended_at", "received_at"]
    ForeignAlert.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["user_id", "fingerprint"], update_fields=newer
    )
    return len(rows)


def foreign_alerts_of(user: User) -> models.QuerySet[ForeignAlert]:
    """Return what others told to the platform: one's own systems; all for admins and auditors."""
    rows = ForeignAlert.objects.order_by("ended_at", "-starts_at")
    return rows if user.sees_all else rows.filter(user_id=user.pk)


def drop_old_foreign_alerts() -> None:
    ForeignAlert.objects.filter(received_at__lt=Now() - KEPT).delete()


def _check(alerts: Sequence[Brought]) -> None:
    errors = []
    for one in alerts:
        for name, texts in (("labels", one.labels), ("annotations", one.annotations)):
            if len(texts) > MOST_LABELS:
                error = "too_many", {"got": len(texts), "max": MOST_LABELS}
            elif longest := max((len(part) for pair in texts.items() for part in pair), default=0):
                if longest <= MOST_TEXT:
                    continue
                error = "too_long", {"got": longest, "max": MOST_TEXT}
            else:
                continue
            errors.append(FieldError(f"/alerts/{one.place}/{name}", *error))
    if errors:
        raise InvalidInput(errors[:20])
