"""What people are told, by which channel they chose. A notice is a row in the transaction of what it tells about.

The bell shows it at once; its mail is sent from the row by portal.tasks. Sentences are made when it is shown
(portal.notice_words), from kind and params, so that page and mail say the same in the reader's language.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone

from common.errors import FieldError, InvalidInput
from events.bus import hint_sender, ring_person
from events.models import Notice, NoticeChoice

KEPT = timedelta(days=90)


@dataclass(frozen=True)
class Channels:
    portal: bool
    mail: bool

    @property
    def any(self) -> bool:
        return self.portal or self.mail


@dataclass(frozen=True)
class Told:
    """Who is told, and of what. params: values of the sentence, JSON-able."""

    user_id: int
    about: models.Model
    params: dict


# Every kind, and what a person who chose nothing gets.
KINDS: dict[str, Channels] = {
    "job_started": Channels(portal=True, mail=False),
    "job_failed": Channels(portal=True, mail=True),
    "job_succeeded": Channels(portal=False, mail=False),
    "about_to_end": Channels(portal=True, mail=True),
    "webhook_disabled": Channels(portal=True, mail=True),
    "quota_changed": Channels(portal=True, mail=False),
}


def notify(*, user_id: int, kind: str, about: models.Model, params: dict | None = None) -> Notice | None:
    """Tell a person of `about`, which has KIND, pk and public_id. None where they chose not to hear of this kind.

    params: values of its sentence, JSON-able. Call it in the transaction that makes it true.
    """
    return next(iter(notify_all(kind, [Told(user_id, about, params or {})])), None)


def notify_all(kind: str, told: Sequence[Told]) -> list[Notice]:
    """As `notify`, in as many statements for a hundred as for one. The notices of those who want to hear of it."""
    if not told:
        return []
    choices = choices_of({each.user_id for each in told}, kind)
    wanted = [(each, choices[each.user_id]) for each in told if choices[each.user_id].any]
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
        ring_person(user_id, "notices")
    if any(channels.mail for _, channels in wanted):
        hint_sender()
    return notices


def choices_of(user_ids: Iterable[int], kind: str) -> dict[int, Channels]:
    """By which channels each of them hears of it."""
    rows = NoticeChoice.objects.filter(user_id__in=list(user_ids), kind=kind)
    chosen = {row.user_id: Channels(row.portal, row.mail) for row in rows}
    return {user_id: chosen.get(user_id, KINDS[kind]) for user_id in user_ids}


def load_choices(user_id: int) -> dict[str, Channels]:
    """Every kind, in the order in which it is shown."""
    rows = NoticeChoice.objects.filter(user_id=user_id)
    chosen = {row.kind: Channels(row.portal, row.mail) for row in rows}
    return {kind: chosen.get(kind, usual) for kind, usual in KINDS.items()}


@transaction.atomic
def choose_channels(*, user_id: int, choices: dict[str, Channels]) -> None:
    """Raises InvalidInput for a kind that there is not."""
    if unknown := sorted(set(choices) - set(KINDS)):
        raise InvalidInput([FieldError("/kind", "unknown_value", {"got": unknown[0][:40], "allowed": list(KINDS)})])
    for kind, channels in choices.items():
        values = {"portal": channels.portal, "mail": channels.mail}
        NoticeChoice.objects.update_or_create(user_id=user_id, kind=kind, defaults=values)


def notices_of(user_id: int) -> models.QuerySet[Notice]:
    """What the bell lists, the newest first."""
    return Notice.objects.filter(user_id=user_id, in_portal=True)


def count_unread(user_id: int) -> int:
    return notices_of(user_id).filter(read_at__isnull=True).count()


@transaction.atomic
def mark_read(*, user_id: int, ids: list[int] | None = None) -> int:
    """Those of `ids`, or all; others' ids change nothing. Returns how many were unread."""
    unread = notices_of(user_id).filter(read_at__isnull=True)
    count = (unread if ids is None else unread.filter(pk__in=ids)).update(read_at=Now())
    if count:
        ring_person(user_id, "notices")
    return count


def drop_old_notices() -> None:
    Notice.objects.filter(due_at__isnull=True, created_at__lt=timezone.now() - KEPT).delete()
