"""What a service answered in the last minutes, in figures: for its page and its API."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from services.models import Service
from services.traffic import SLOT_S, Slot, Traffic, sum_slots
from services.traffic_counts import read_slots

WINDOW_S = 300
POINT_SLOTS = 2
"""Slots of one point of a curve."""


@dataclass(frozen=True)
class Figures:
    """Requests of a span. Times in milliseconds; None without requests."""

    requests: int
    per_s: float
    error_percent: float | None
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True)
class ServiceFigures:
    """all, revisions: of the last WINDOW_S, the latter by number. curve: requests per second, oldest first."""

    all: Figures
    revisions: dict[int, Figures]
    curve: Sequence[float]

    @property
    def curve_top(self) -> float:
        return max(*self.curve, 1.0)


def load_figures(service: Service, now: datetime) -> ServiceFigures | None:
    """Return the figures of a service; None if they are not known."""
    slots = read_slots(service.pk, now.timestamp() - WINDOW_S, now.timestamp())
    if slots is None:
        return None
    answered = {pk for slot in slots for pk in slot.traffic}
    numbers = dict(service.revisions.filter(pk__in=answered).order_by("-number").values_list("pk", "number"))
    revisions = {number: measure(sum_slots(slots, 0, pk)) for pk, number in numbers.items()}
    return ServiceFigures(measure(sum_slots(slots, 0)), revisions, _draw_curve(slots))


def measure(traffic: Traffic, seconds: float = WINDOW_S) -> Figures:
    share = traffic.error_share
    return Figures(
        requests=traffic.requests,
        per_s=round(traffic.requests / seconds, 2),
        error_percent=None if share is None else round(100 * share, 2),
        p50_ms=_round(traffic.find_quantile_ms(0.5)),
        p95_ms=_round(traffic.find_quantile_ms(0.95)),
    )


def _round(ms: float | None) -> float | None:
    """Keep two digits of what is below 10 ms; a bucket of times is 19 % wide."""
    return None if ms is None else round(ms, 1) if ms < 10 else round(ms)


def _draw_curve(slots: Sequence[Slot]) -> list[float]:
    """Return requests per second, without the slot that still fills."""
    full = slots[:-1]
    full = full[len(full) % POINT_SLOTS :]
    points = [full[at : at + POINT_SLOTS] for at in range(0, len(full), POINT_SLOTS)]
    return [sum_slots(point, 0).requests / (SLOT_S * POINT_SLOTS) for point in points]
