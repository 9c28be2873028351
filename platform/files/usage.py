"""How full a place is: measured now and then, plus what was sent since. Over its limit nothing more may be sent."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from accounts.models import Team, User
from common.amounts import show_bytes
from common.errors import Conflict, PlatformError
from files.models import KEPT, PlaceUsage, Upload
from files.shelves import Shelf
from runtimes.places import Place, place_path
from runtimes.storage import measure_place

STALE_AFTER = timedelta(minutes=10)
FRESH = timedelta(seconds=10)
QUICK_S = 2.0
"""How long a person waits for a measurement; the beat takes longer."""
ROUND_S = 30.0
AMBER_AT = 0.85


@dataclass(frozen=True)
class Used:
    """bytes: measured, and sent since. promised: with what running uploads will still send. limit: 0 = none."""

    bytes: int
    promised: int
    limit: int
    whole: bool
    measured_at: datetime

    @property
    def share(self) -> float:
        return self.bytes / self.limit if self.limit else 0.0

    @property
    def is_nearly_full(self) -> bool:
        return self.share >= AMBER_AT


def load_used(shelf: Shelf) -> Used:
    """Measured now where it never was. Raises Unavailable."""
    row = find_row(shelf.place) or measure(shelf.place, within_s=QUICK_S)
    sums = uploads_of(shelf.place).aggregate(sent=Sum(F("sent") - F("counted")))
    open_ones = uploads_of(shelf.place).filter(finished_at__isnull=True).aggregate(rest=Sum(F("size") - F("sent")))
    used = row.bytes + max(sums["sent"] or 0, 0)
    return Used(used, used + (open_ones["rest"] or 0), shelf.limit_bytes, row.whole, row.measured_at)


def check_room(shelf: Shelf, more: int = 0) -> None:
    """That `more` bytes beside what is promised fit. Before it says no, it measures again.

    Raises Conflict (no_room).
    """
    used = load_used(shelf)
    if used.limit and used.promised + more > used.limit and timezone.now() - used.measured_at > FRESH:
        measure(shelf.place, within_s=QUICK_S)
        used = load_used(shelf)
    if used.limit and used.promised + more > used.limit:
        numbers = {"used_bytes": used.promised, "limit_bytes": used.limit, "asked_bytes": more}
        shown = {"used": show_bytes(used.promised), "limit": show_bytes(used.limit)}
        raise Conflict("no_room", place=shelf.name, **numbers, **shown)


def measure(place: Place, *, within_s: float) -> PlaceUsage:
    """Count what lies there. A count that was not whole in time replaces an older one only where it is higher.

    What was sent and has no row any more goes: its person was deleted, or a process was killed as it began.
    """
    sent = list(uploads_of(place).values_list("pk", "sent"))  # before: what comes meanwhile is counted twice, not never
    orphans = time.time() - 2 * KEPT.total_seconds()  # who has a row was touched since, or is swept already
    usage = measure_place(settings.TESSERA_FILES, place, within_s=within_s, parts_before=orphans)
    old = find_row(place)
    if old and not usage.whole and usage.bytes <= old.bytes:
        PlaceUsage.objects.filter(pk=old.pk).update(whole=False, measured_at=timezone.now())
        old.refresh_from_db()
        return old
    values = {"bytes": usage.bytes, "files": usage.files, "whole": usage.whole, "measured_at": timezone.now()}
    row = PlaceUsage.objects.update_or_create(kind=place.kind, number=place.number, defaults=values)[0]
    for pk, bytes_then in sent:
        Upload.objects.filter(pk=pk).update(counted=bytes_then)
    return row


@transaction.atomic
def record_removal(*, shelf: Shelf, freed_bytes: int) -> None:
    """Something went away, so many bytes as the disk counts: nothing is measured anew for that."""
    row = PlaceUsage.objects.select_for_update().filter(kind=shelf.place.kind, number=shelf.place.number).first()
    if row is None:
        return  # never measured, so it will be
    uploads = uploads_of(shelf.place).filter(sent__gt=F("counted"))
    sent = uploads.aggregate(bytes=Sum(F("sent") - F("counted")))["bytes"] or 0
    uploads.update(counted=F("sent"))  # they may be what went: one number holds both
    row.bytes = max(row.bytes + sent - freed_bytes, 0)
    row.save(update_fields=["bytes"])


def measure_stale() -> int:
    """Measure the places of whoever has one, longest unmeasured first, for ROUND_S at most. How many were."""
    until, done = time.monotonic() + ROUND_S, 0
    known = {(row.kind, row.number): row.measured_at for row in PlaceUsage.objects.all()}
    now = timezone.now()
    due = [place for place in _places() if now - known.get((place.kind, place.number), _never(now)) > STALE_AFTER]
    for place in sorted(due, key=lambda place: known.get((place.kind, place.number), _never(now))):
        left = until - time.monotonic()
        if left <= 1:
            break
        try:
            measure(place, within_s=min(left, 20.0))
            done += 1
        except PlatformError:  # told in the log; the next round tries again
            continue
    return done


def uploads_of(place: Place) -> QuerySet[Upload]:
    if place.kind == "home":
        return Upload.objects.filter(team__isnull=True, user__uid=place.number)
    return Upload.objects.filter(team__gid=place.number)


def find_row(place: Place) -> PlaceUsage | None:
    return PlaceUsage.objects.filter(kind=place.kind, number=place.number).first()


def _places() -> list[Place]:
    """Of those who exist and have something here."""
    homes = [Place("home", uid) for uid in User.objects.values_list("uid", flat=True)]
    teams = [Place("team", gid) for gid in Team.objects.values_list("gid", flat=True)]
    return [place for place in homes + teams if place_path(settings.TESSERA_FILES, place).is_dir()]


def _never(now: datetime) -> datetime:
    return now - timedelta(days=36500)
