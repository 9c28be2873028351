"""Series of any kind over any time: from raw samples, and packs of the steps in which they are kept."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.conf import settings
from django.utils import timezone

from monitoring.models import PackedUntil
from monitoring.series.grid import Array
from monitoring.series.keys import COLUMNS, Key
from monitoring.series.store import Block, Keys, read_blocks
from monitoring.series.tiers import PACKED, Tier, choose_step, choose_tier, floor_time, split


@dataclass(frozen=True)
class Frame:
    """Values of series over equal slots. values: means, (columns, slots) each, NaN = not known; columns as COLUMNS has
    them. peaks: of each slot, the greatest mean that is kept. sources: how each came about (Source). A series of which
    nothing is known is not there.
    """

    start: datetime
    step_s: int
    slots: int
    values: dict[Key, Array]
    peaks: dict[Key, Array]
    sources: dict[Key, str]


def load_frame(keys: Iterable[Key], start: datetime, end: datetime, step_s: int) -> Frame:
    """Return series from start to end. step_s may come out larger than asked, and the start earlier: what is kept."""
    named, tier = tuple(keys), choose_tier(start, step_s, list_kept(), timezone.now())
    step_s = choose_step(tier, step_s)
    start = floor_time(start, step_s)
    slots = max(-((start - end) // timedelta(seconds=step_s)), 0)
    end = start + timedelta(seconds=slots * step_s)
    blocks = _load_blocks(tier, named, start, end) if named and slots else {}
    blocks = {key: block.coarsen(step_s // tier.step_s) for key, block in blocks.items()}
    return Frame(
        start,
        step_s,
        slots,
        {key: block.means for key, block in blocks.items()},
        {key: block.peaks for key, block in blocks.items()},
        {key: block.source for key, block in blocks.items()},
    )


def list_kept() -> dict[Tier, timedelta]:
    """Return how long each packed tier is kept."""
    return {tier: timedelta(seconds=getattr(settings, tier.setting) * tier.unit_s) for tier in PACKED}


def _load_blocks(tier: Tier, keys: tuple[Key, ...], start: datetime, end: datetime) -> dict[Key, Block]:
    """Return what is known in the tier's step, each part of the time from the tier that has it."""
    until = dict(PackedUntil.objects.values_list("tier", "until"))
    step = timedelta(seconds=tier.step_s)
    found: dict[Key, Block] = {}
    for part in split(tier, start, end, until):
        first, last = (part.start - start) // step, (part.end - start) // step
        for key, block in read_blocks(part.tier, Keys(keys), part.start, part.end).items():
            told = block.coarsen(tier.step_s // part.tier.step_s)
            known = found.get(key) or _build_empty(key, (end - start) // step, block.source)
            known.means[:, first:last], known.peaks[:, first:last] = told.means, told.peaks
            found[key] = known
    return found


def _build_empty(key: Key, slots: int, source: str) -> Block:
    means, peaks = np.full((2, len(COLUMNS[key.kind]), slots), np.nan)
    return Block(means, peaks, source)
