"""The arrays after which jobs start, for the forecast."""

from collections import defaultdict
from collections.abc import Iterable

from common.locks import database_now
from jobs.arrays.estimate import estimate_end
from jobs.arrays.models import JobArray
from jobs.models import Job
from scheduler.core.model.types import WaitedArray, WaitingJob


def load_waited_arrays(waiting: Iterable[WaitingJob]) -> tuple[WaitedArray, ...]:
    """Load the arrays that these jobs wait for, with their elements that are open."""
    numbers = {number for job in waiting for number in job.after if number < 0}
    if not numbers:
        return ()
    arrays = [-number for number in numbers]
    elements = defaultdict[int, list[int]](list)
    for array, pk in Job.objects.open().filter(array__in=arrays).order_by("pk").values_list("array", "pk"):
        elements[array].append(pk)
    rows = JobArray.objects.filter(pk__in=arrays).order_by("pk")
    return tuple(WaitedArray(-row.pk, tuple(elements[row.pk]), _guess_last(row)) for row in rows)


def _guess_last(array: JobArray) -> float:
    at = estimate_end(array, database_now()) if array.makes_more else None
    return at.timestamp() if at else 0.0
