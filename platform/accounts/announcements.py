"""What admins tell everybody, or one team, at the top of each page."""

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.models import Announcement, User
from accounts.permissions import require
from common.errors import FieldError, InvalidInput, NotFound
from common.locks import database_now, lock_rows
from common.steady_clock import steady_now
from events.record_and_publish import record, record_change

MOST = 20
"""Announcements that have not ended, so that pages stay readable."""


def list_shown(user: User) -> QuerySet[Announcement]:
    """Return what the person is told now: everybody's, and those of their own teams."""
    now = steady_now()
    mine = Q(team__isnull=True) | Q(team__in=user.memberships.values("team"))
    return Announcement.objects.not_over(now).filter(mine, begins_at__lte=now).select_related("team")


def list_announcements(user: User) -> QuerySet[Announcement]:
    """Return what has not ended: all for admins and auditors, else what the person is told now."""
    if user.sees_all:
        return Announcement.objects.not_over(steady_now()).select_related("team")
    return list_shown(user)


def find_announcement(user: User, pk: int) -> Announcement:
    """Raises NotFound."""
    row = list_announcements(user).filter(pk=pk).first()
    if row is None:
        raise NotFound(kind="announcement", id=str(pk))
    return row


@transaction.atomic
def save_announcement(*, actor: User, announcement: Announcement) -> Announcement:
    """Store a new or changed announcement. Raises InvalidInput."""
    require(actor, "announcement.change")
    before = next(iter(lock_rows(Announcement.objects.filter(pk=announcement.pk))), None)
    if errors := _problems(announcement, is_new=before is None):
        raise InvalidInput(errors)
    announcement.made_by = announcement.made_by or actor.username
    announcement.save()
    verb = "changed" if before else "made"
    record_change(announcement, before, Announcement.HISTORY, verb, actor=actor.as_actor)
    return announcement


@transaction.atomic
def end_announcement(*, actor: User, announcement: Announcement) -> None:
    """Show it no more. It stays as history."""
    require(actor, "announcement.change")
    lock_rows(Announcement.objects.filter(pk=announcement.pk))
    record(announcement, "ended", actor=actor.as_actor, params={"text": announcement.text})
    now = database_now()
    Announcement.objects.filter(pk=announcement.pk, begins_at__gte=now).update(begins_at=now)
    Announcement.objects.filter(pk=announcement.pk).update(ends_at=now)


def _problems(row: Announcement, is_new: bool) -> list[FieldError]:
    errors = []
    if not row.text.strip():
        errors.append(FieldError("/text", "required"))
    if row.ends_at is not None and row.ends_at <= row.begins_at:
        errors.append(FieldError("/ends_at", "ends_before_it_begins"))
    if is_new and Announcement.objects.not_over(steady_now()).count() >= MOST:
        errors.append(FieldError("/text", "too_many_announcements", {"max": MOST}))
    return errors
