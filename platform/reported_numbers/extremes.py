"""The smallest and the largest of each number that the elements of an array reported."""

from dataclasses import dataclass

from reported_numbers.curves import Value
from reported_numbers.models import Series


@dataclass(frozen=True)
class Extreme:
    """A number, and the index of the element that reported it."""

    index: int
    value: Value


@dataclass(frozen=True)
class Extremes:
    name: str
    smallest: Extreme
    largest: Extreme


def load_extremes(array: int, most: int) -> list[Extremes]:
    """Return those of the first `most` names, over all elements, tasks and attempts."""
    of_array = Series.objects.filter(task__job__array=array).select_related("task__job").defer("points", "tail")
    low = list(of_array.order_by("name", "smallest", "pk").distinct("name")[:most])
    high = list(of_array.order_by("name", "-largest", "pk").distinct("name")[:most])
    return [
        Extremes(
            lowest.name,
            _build(lowest, Value(lowest.smallest, lowest.smallest_step)),
            _build(highest, Value(highest.largest, highest.largest_step)),
        )
        for lowest, highest in zip(low, high, strict=True)
    ]


def _build(series: Series, value: Value) -> Extreme:
    return Extreme(series.task.job.array_index or 0, value)
