"""The parts of a service's cold starts in words and bars: for its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.resources import show_duration
from services.cold_starts import PARTS, ColdStarts, StartParts
from services.models import ColdStart

SHOWN = 4
NAMES: dict[str, Promise] = {
    "queue": gettext_lazy("queue"),
    "data": gettext_lazy("code and data"),
    "image": gettext_lazy("image"),
    "program": gettext_lazy("program"),
}
TONES = {"queue": "quiet", "data": "k2", "image": "k5", "program": "work"}


@dataclass(frozen=True)
class StartBar:
    """A start, or the median of several. parts: (tone, percent of the longest one). at, job: of one start."""

    parts: list[tuple[str, float]]
    total: str
    words: str
    at: datetime | None = None
    job: str = ""


@dataclass(frozen=True)
class ColdStartCard:
    """median_name: what the first bar is of. legend: (tone, name, its median)."""

    median_name: str
    bars: Sequence[StartBar]
    legend: Sequence[tuple[str, Promise, str]]


def view_cold_starts(starts: ColdStarts) -> ColdStartCard | None:
    """Return what is drawn; None where there was no start yet."""
    if starts.median is None:
        return None
    shown = starts.last[:SHOWN]
    longest = max(sum_up(one) for one in (starts.median, *shown))
    count = len(starts.last)
    return ColdStartCard(
        median_name=ngettext("Median of %(n)s start", "Median of %(n)s starts", count) % {"n": count},
        bars=[_draw(one, longest) for one in (starts.median, *shown)],
        legend=[(TONES[part], NAMES[part], show_seconds(getattr(starts.median, f"{part}_s"))) for part in PARTS],
    )


def sum_up(start: StartParts | ColdStart) -> float:
    return sum(getattr(start, f"{part}_s") for part in PARTS)


def show_seconds(seconds: float) -> str:
    """Return a short time with a decimal, and a long one as durations are written."""
    return show_duration(round(seconds)) if seconds >= 120 else _("%(s)s s") % {"s": f"{seconds:.1f}"}


def _draw(start: StartParts | ColdStart, longest: float) -> StartBar:
    said = [(part, getattr(start, f"{part}_s")) for part in PARTS]
    return StartBar(
        parts=[(TONES[part], 100 * seconds / (longest or 1)) for part, seconds in said if seconds],
        total=show_seconds(sum_up(start)),
        words=", ".join(f"{NAMES[part]} {show_seconds(seconds)}" for part, seconds in said),
        at=start.at if isinstance(start, ColdStart) else None,
        job=start.job.public_id if isinstance(start, ColdStart) else "",
    )
