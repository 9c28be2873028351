"""Working hours, nights and weekends; second 0 is Monday 00:00."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.model.types import LendingWindow

HOUR_S, DAY_S, WEEK_S = 3600, 86_400, 604_800
WORKING_DAYS = 5


@dataclass(frozen=True)
class WorkingDay:
    """Working hours in seconds after midnight, Monday to Friday."""

    begins: int = 8 * HOUR_S
    ends: int = 20 * HOUR_S

    def list_nights(self, until: float) -> list[tuple[int, int]]:
        """Return [(begin, end)] outside of working hours; a weekend is one night."""
        edges = [(self.ends - DAY_S, self.begins)]
        day = 0
        while edges[-1][1] < until:
            edges.append((day * DAY_S + self.ends, _next_working_day(day) * DAY_S + self.begins))
            day = _next_working_day(day)
        return edges


def build_lending_windows(
    gpus: tuple[int, ...], pool: int, nights: Iterable[tuple[int, int]]
) -> tuple[LendingWindow, ...]:
    """Return windows in which the pool may use these cards at night."""
    return tuple(LendingWindow(gpus, pool, begins, ends) for begins, ends in nights)


def _next_working_day(day: int) -> int:
    return day + 1 if (day + 1) % 7 < WORKING_DAYS else day + 7 - day % 7
