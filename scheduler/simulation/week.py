"""Days, nights and weekends of a simulated time whose second 0 is Monday 00:00."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.types import Window

HOUR, DAY, WEEK = 3600, 86_400, 604_800
WORKING_DAYS = 5


@dataclass(frozen=True)
class WorkingDay:
    """Seconds after midnight; Monday to Friday."""

    begins: int = 8 * HOUR
    ends: int = 20 * HOUR

    def nights(self, until: float) -> list[tuple[int, int]]:
        """[(begin, end)] of all that is outside of working hours until then; a weekend is one long night."""
        edges = [(self.ends - DAY, self.begins)]
        day = 0
        while edges[-1][1] < until:
            edges.append((day * DAY + self.ends, _next_working_day(day) * DAY + self.begins))
            day = _next_working_day(day)
        return edges


def lend(gpus: tuple[int, ...], pool: int, nights: Iterable[tuple[int, int]]) -> tuple[Window, ...]:
    """The pool may use these cards by night, for jobs that end before the day begins."""
    return tuple(Window(gpus, pool, begins, ends) for begins, ends in nights)


def _next_working_day(day: int) -> int:
    return day + 1 if (day + 1) % 7 < WORKING_DAYS else day + 7 - day % 7
