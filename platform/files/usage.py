"""Measured usage of file areas, plus what was sent since."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum

from accounts.models import Team, User
from common.amounts import show_bytes
from common.errors import Conflict, PlatformError
from common.steady_clock import steady_now, steady_time
from files.file_areas import FileArea
from files.models import KEPT, PlaceUsage, Upload
from runtimes.storage.areas import AreaId, get_area_path
from runtimes.storage.file_store import measure_area

STALE_AFTER = timedelta(minutes=10)
FRESH = timedelta(seconds=10)
QUICK_S = 2.0
"""Time limit of a measurement that a person waits for."""
ROUND_S = 30.0
AMBER_AT = 0.85


@dataclass(frozen=True)
class Used:
    """bytes: measured and sent since. promised: plus the rest of open uploads. limit: 0 for none."""

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


def load_used(area: FileArea) -> Used:
    """Return an area's usage, measured if it never was. Raises Unavailable."""
    row = find_usage(area.area_id) or measure_usage(area.area_id, within_s=QUICK_S)
    sums = filter_uploads(area.area_id).aggregate(sent=Sum(F("sent") - F("counted")))
    open_ones = filter_uploads(area.area_id).filter(finished_at__isnull=True).aggregate(rest=Sum(F("size") - F("sent")))
    used = row.bytes + max(sums["sent"] or 0, 0)
    return Used(used, used + (open_ones["rest"] or 0), area.limit_bytes, row.whole, row.measured_at)


def check_room(area: FileArea, more: int = 0) -> None:
    """Raise Conflict (no_room) unless `more` bytes fit, measuring again before refusing."""
    used = load_used(area)
    if used.limit and used.promised + more > used.limit and steady_now() - used.measured_at > FRESH:
        measure_usage(area.area_id, within_s=QUICK_S)
        used = load_used(area)
    if used.limit and used.promised + more > used.limit:
        numbers = {"used_bytes": used.promised, "limit_bytes": used.limit, "asked_bytes": more}
        shown = {"used": show_bytes(used.promised), "limit": show_bytes(used.limit)}
        raise Conflict("no_room", place=area.name, **numbers, **shown)


def measure_usage(place: AreaId, *, within_s: float) -> PlaceUsage:
    """Measure an area and remove orphaned uploads. A partial count replaces an older one only if higher."""
    sent = list(filter_uploads(place).values_list("pk", "sent"))  # first: bytes sent meanwhile count twice, not never
    orphans = steady_time() - 2 * KEPT.total_seconds()  # uploads with a row were touched since
    usage = measure_area(settings.TESSERA_FILES, place, within_s=within_s, parts_before=orphans)
    old = find_usage(place)
    if old and not usage.whole and usage.bytes <= old.bytes:
        PlaceUsage.objects.filter(pk=old.pk).update(whole=False, measured_at=steady_now())
        old.refresh_from_db()
        return old
    values = {"bytes": usage.bytes, "files": usage.files, "whole": usage.whole, "measured_at": steady_now()}
    row = PlaceUsage.objects.update_or_create(kind=place.kind, number=place.number, defaults=values)[0]
    for pk, bytes_then in sent:
        Upload.objects.filter(pk=pk).update(counted=bytes_then)
    return row


@transaction.atomic
def record_removal(*, area: FileArea, freed_bytes: int) -> None:
    """Subtract removed bytes, as counted on disk."""
    row = PlaceUsage.objects.select_for_update().filter(kind=area.area_id.kind, number=area.area_id.number).first()
    if row is None:
        return  # to be measured first
    uploads = filter_uploads(area.area_id).filter(sent__gt=F("counted"))
    sent = uploads.aggregate(bytes=Sum(F("sent") - F("counted")))["bytes"] or 0
    uploads.update(counted=F("sent"))  # the removed file may be one of them
    row.bytes = max(row.bytes + sent - freed_bytes, 0)
    row.save(update_fields=["bytes"])


def measure_stale() -> int:
    """Measure areas, longest unmeasured first, for ROUND_S. Returns how many."""
    until, done = time.monotonic() + ROUND_S, 0
    known = {AreaId(row.kind, row.number): row.measured_at for row in PlaceUsage.objects.all()}  # type: ignore[arg-type]
    now = steady_now()
    due = [place for place in _places() if now - known.get(place, _never(now)) > STALE_AFTER]
    for place in sorted(due, key=lambda place: known.get(place, _never(now))):
        left = until - time.monotonic()
        if left <= 1:
            break
        try:
            measure_usage(place, within_s=min(left, 20.0))
            done += 1
        except PlatformError:  # logged, and tried again next round
            continue
    return done


def filter_uploads(place: AreaId) -> QuerySet[Upload]:
    if place.kind == "home":
        return Upload.objects.filter(team__isnull=True, user__uid=place.number)
    return Upload.objects.filter(team__gid=place.number)


def find_usage(place: AreaId) -> PlaceUsage | None:
    return PlaceUsage.objects.filter(kind=place.kind, number=place.number).first()


def _places() -> list[AreaId]:
    homes = [AreaId("home", uid) for uid in User.objects.values_list("uid", flat=True)]
    teams = [AreaId("team", gid) for gid in Team.objects.values_list("gid", flat=True)]
    return [place for place in homes + teams if get_area_path(settings.TESSERA_FILES, place).is_dir()]


def _never(now: datetime) -> datetime:
    return now - timedelta(days=36500)
