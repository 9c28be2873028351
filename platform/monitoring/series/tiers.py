"""The steps in which series are kept, from raw samples to hours, and which one answers a question. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

HOUR_S, DAY_S = 3600, 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Tier:
    """step_s: of a value. span_s: of a pack, 0 where rows are raw. part_s: of a partition. late_s: how long after its
    end a span may still change. setting, unit_s: how long it is kept.
    """

    name: str
    step_s: int
    span_s: int
    part_s: int
    late_s: int
    setting: str
    unit_s: int

    @property
    def table(self) -> str:
        return "monitoring_sample" if not self.span_s else f"monitoring_{self.name}pack"

    @property
    def column(self) -> str:
        return "start" if self.span_s else "at"


RAW = Tier("raw", 10, 0, HOUR_S, 0, "TESSERA_KEEP_RAW_H", HOUR_S)
FINE = Tier("fine", 10, HOUR_S, DAY_S, 35 * 60, "TESSERA_KEEP_FINE_D", DAY_S)
MINUTES = Tier("minute", 60, DAY_S, 10 * DAY_S, 0, "TESSERA_KEEP_MINUTES_D", DAY_S)
HOURS = Tier("hour", HOUR_S, 30 * DAY_S, 120 * DAY_S, 0, "TESSERA_KEEP_HOURS_D", DAY_S)
TIERS = (RAW, FINE, MINUTES, HOURS)
PACKED = TIERS[1:]
"""Each is made of the one before it. An agent's samples may come half an hour late."""


@dataclass(frozen=True)
class Part:
    """What one tier tells of a question."""

    tier: Tier
    start: datetime
    end: datetime


def choose_tier(start: datetime, step_s: int, kept: Mapping[Tier, timedelta], now: datetime) -> Tier:
    """Return the coarsest packed tier that has the step, or a coarser one where only that reaches back so far."""
    fitting = [tier for tier in PACKED if tier.step_s <= step_s] or [FINE]
    reaching = [tier for tier in PACKED if tier.step_s >= fitting[-1].step_s and now - kept[tier] <= start]
    return reaching[0] if reaching else HOURS


def choose_step(tier: Tier, step_s: int) -> int:
    """Return the step asked for, rounded up to a multiple of the tier's."""
    return tier.step_s * max(ceil(step_s / tier.step_s), 1)


def split(tier: Tier, start: datetime, end: datetime, until: Mapping[str, datetime]) -> list[Part]:
    """Return which tier tells what from start to end: the tier as far as it is made, then finer ones.

    until: how far each packed tier is made, by its name.
    """
    parts, at = [], start
    for one in reversed(TIERS[: TIERS.index(tier) + 1]):
        upto = end if one is RAW else min(end, until.get(one.name, start))
        if upto > at:
            parts.append(Part(one, at, upto))
            at = upto
    return parts


def floor_time(at: datetime, seconds: int) -> datetime:
    """Return the begin of the span of so many seconds in which `at` lies, counted from 1970."""
    return EPOCH + timedelta(seconds=(at - EPOCH) // timedelta(seconds=seconds) * seconds)
