"""Make packs of spans that are over, some series at a time, so that it is spread over the hour."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from monitoring.models import PackedUntil
from monitoring.series.store import Keys, read_blocks, write_blocks
from monitoring.series.tiers import PACKED, TIERS, Tier, floor_time

AT_ONCE = 200
"""Series of one transaction."""


def pack_for(seconds: float, clock: Callable[[], float] = time.monotonic) -> int:
    """Make packs for about so long, and return how many; fewer if nothing is left to do, or another process does it."""
    until, made = clock() + seconds, 0
    for tier in PACKED:
        while clock() < until:
            with transaction.atomic():
                packed = _pack_next(tier, timezone.now())
            if packed is None:
                break
            made += packed
    return made


def _pack_next(tier: Tier, now: datetime) -> int | None:
    """Make the next packs of a tier. None: nothing is to be done now."""
    row = _claim(tier, now)
    if row is None:
        return None
    end = row.until + timedelta(seconds=tier.span_s)
    if end + timedelta(seconds=tier.late_s) > now or not _is_made(_finer(tier), end):
        return None
    finer, keys = _finer(tier), Keys(after=(row.kind, row.subject, row.card), most=AT_ONCE)
    blocks = read_blocks(finer, keys, row.until, end)
    write_blocks(tier, {key: block.coarsen(tier.step_s // finer.step_s) for key, block in blocks.items()}, row.until)
    if blocks:
        last = max(blocks)
        row.kind, row.subject, row.card = last.kind, last.subject, last.card
    else:
        row.until, row.kind, row.subject, row.card = end, 0, 0, 0
    row.save()
    return len(blocks)


def _claim(tier: Tier, now: datetime) -> PackedUntil | None:
    """Lock how far a tier is made. None if there is nothing of it yet, or another process is at it."""
    if not PackedUntil.objects.filter(tier=tier.name).exists():
        first = _find_first(_finer(tier))
        if first is None:
            return None
        PackedUntil.objects.get_or_create(tier=tier.name, defaults={"until": floor_time(first, tier.span_s)})
    return PackedUntil.objects.select_for_update(skip_locked=True).filter(tier=tier.name).first()


def _is_made(tier: Tier, end: datetime) -> bool:
    return not tier.span_s or PackedUntil.objects.filter(tier=tier.name, until__gte=end).exists()


def _find_first(tier: Tier) -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT min({tier.column}) FROM {tier.table}")
        return cursor.fetchone()[0]


def _finer(tier: Tier) -> Tier:
    return TIERS[TIERS.index(tier) - 1]
