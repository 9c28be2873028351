"""The arrays after which jobs start, for the forecast."""

from collections import defaultdict
from collections.abc import Iterable

from common.locks import database_now
from jobs.arrays.estimate import estimate_end
from jobs.arrays.models import JobArray
from jobs.models import Job
from scheduler.core.model.types import WaitedArray, WaitingJob


def load_waited_arrays(waiting: Iterable[WaitingJob]) -> tuple[WaitedArray, ...]:
    """Load the arrays that these jobs wait for, with their elements that are open; none of which nobody can tell when
    its last element ends, as it has yet to be made.
    """
    numbers = {number for job in waiting for number in job.after if number < 0}
    if not numbers:
        return ()
    arrays = [-number for number in numbers]
    elements = defaultdict[int, list[int]](list)
    for array, pk in Job.objects.open().filter(array__in=arrays).order_by("pk").values_list("array", "pk"):
        elements[array].append(pk)
    now, found = database_now(), []
    for row in JobArray.objects.filter(pk__in=elements).order_by("pk"):
        last = estimate_end(row, now) if row.makes_more else None
        if last or not row.makes_more:
            found.append(WaitedArray(-row.pk, tuple(elements[row.pk]), last.timestamp() if last else 0.0))
    return tuple(found)
