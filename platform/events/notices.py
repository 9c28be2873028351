"""Notices to people, by the channels that they chose.

A notice is written in the transaction of what it reports; portal.tasks mails it, portal.wording.notices makes its text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import models, transaction
from django.db.models.functions import Now

from common.errors import FieldError, InvalidInput
from common.steady_clock import steady_now
from events.models import Notice, NoticeChoice
from events.record_and_publish import hint_sender, publish_person

KEPT = timedelta(days=90)


@dataclass(frozen=True)
class Channels:
    portal: bool
    mail: bool

    @property
    def any(self) -> bool:
        return self.portal or self.mail


@dataclass(frozen=True)
class Recipient:
    """Whom a notice is for, and of what. params: JSON-able. is_asked: they asked for this one, whatever they chose."""

    user_id: int
    about: models.Model
    params: dict
    is_asked: bool = False


EVERYWHERE = Channels(portal=True, mail=True)
# Default channels of every kind.
KINDS: dict[str, Channels] = {
    "job_started": Channels(portal=True, mail=False),
    "job_failed": Channels(portal=True, mail=True),
    "job_succeeded": Channels(portal=True, mail=False),
    "about_to_end": Channels(portal=True, mail=True),
    "idle_noticed": Channels(portal=True, mail=True),
    "idle_reminded": Channels(portal=True, mail=True),
    "idle_warned": Channels(portal=True, mail=True),
    "idle_acted": Channels(portal=True, mail=True),
    "away": Channels(portal=True, mail=True),
    "webhook_disabled": Channels(portal=True, mail=True),
    "quota_changed": Channels(portal=True, mail=False),
    "stop_warned": Channels(portal=True, mail=True),
    "alert": Channels(portal=True, mail=True),
    "alert_ended": Channels(portal=True, mail=False),
    "shared": Channels(portal=True, mail=True),
    "schedule_refused": Channels(portal=True, mail=True),
    "service_failed": Channels(portal=True, mail=True),
    "report": Channels(portal=False, mail=True),
}


def notify(*, user_id: int, kind: str, about: models.Model, params: dict | None = None) -> Notice | None:
    """Notify a person; None if they switched this kind off.

    about: has KIND, pk and public_id. params: JSON-able.
    """
    return next(iter(notify_all(kind, [Recipient(user_id, about, params or {})])), None)


def notify_all(kind: str, recipients: Sequence[Recipient]) -> list[Notice]:
    """Notify several people in few statements."""
    if not recipients:
        return []
    choices = choices_of({each.user_id for each in recipients}, kind)
    channels = [(each, EVERYWHERE if each.is_asked else choices[each.user_id]) for each in recipients]
    wanted = [(each, chosen) for each, chosen in channels if chosen.any]
    notices = Notice.objects.bulk_create(
        Notice(
            user_id=each.user_id,
            kind=kind,
            object_kind=each.about.KIND,  # type: ignore[attr-defined]
            object_id=each.about.pk,
            label=each.about.public_id,  # type: ignore[attr-defined]
            params=each.params,
            in_portal=channels.portal,
            due_at=Now() if channels.mail else None,
        )
        for each, channels in wanted
    )
    for user_id in {each.user_id for each, channels in wanted if channels.portal}:
        publish_person(user_id, "notices")
    if any(channels.mail for _, channels in wanted):
        hint_sender()
    return notices


def choices_of(user_ids: Iterable[int], kind: str) -> dict[int, Channels]:
    rows = NoticeChoice.objects.filter(user_id__in=list(user_ids), kind=kind)
    chosen = {row.user_id: Channels(row.portal, row.mail) for row in rows}
    return {user_id: chosen.get(user_id, KINDS[kind]) for user_id in user_ids}


def load_choices(user_id: int) -> dict[str, Channels]:
    """Return a user's channels by kind, in display order."""
    rows = NoticeChoice.objects.filter(user_id=user_id)
    chosen = {row.kind: Channels(row.portal, row.mail) for row in rows}
    return {kind: chosen.get(kind, usual) for kind, usual in KINDS.items()}


@transaction.atomic
def choose_channels(*, user_id: int, choices: dict[str, Channels]) -> None:
    """Store a user's channels. Raises InvalidInput."""
    if unknown := sorted(set(choices) - set(KINDS)):
        raise InvalidInput([FieldError("/kind", "unknown_value", {"got": unknown[0][:40], "allowed": list(KINDS)})])
    for kind, channels in choices.items():
        values = {"portal": channels.portal, "mail": channels.mail}
        NoticeChoice.objects.update_or_create(user_id=user_id, kind=kind, defaults=values)


def notices_of(user_id: int) -> models.QuerySet[Notice]:
    """List a person's notices, newest first."""
    return Notice.objects.filter(user_id=user_id, in_portal=True)


def count_unread(user_id: int) -> int:
    return notices_of(user_id).filter(read_at__isnull=True).count()


@transaction.atomic
def mark_read(*, user_id: int, ids: list[int] | None = None) -> int:
    """Mark `ids`, or all, read; return how many were unread."""
    unread = notices_of(user_id).filter(read_at__isnull=True)
    count = (unread if ids is None else unread.filter(pk__in=ids)).update(read_at=Now())
    if count:
        publish_person(user_id, "notices")
    return count


def drop_old_notices() -> None:
    Notice.objects.filter(due_at__isnull=True, created_at__lt=steady_now() - KEPT).delete()
