"""Who waits for a job or an array, and which elements of an array are waited for."""

from collections.abc import Iterable

from accounts.models import User
from jobs.arrays.models import show_element_id
from jobs.models import Job
from jobs.states import JobState

MOST_NAMED = 20


def list_dependents(user: User, number: int) -> list[str]:
    """Return the first jobs that wait for the end of a job, or of an array by its negative number, as ids."""
    waiting = Job.objects.visible_to(user).filter(state=JobState.QUEUED, waits_for__contains=[number])
    return [job.public_id for job in waiting.order_by("pk").only("pk")[:MOST_NAMED]]


def list_open_elements(numbers: Iterable[int]) -> list[str]:
    """Return the first elements that are open of the arrays among what a job waits for: "arr-9.17"."""
    arrays = [-number for number in numbers if number < 0]
    if not arrays:
        return []
    rows = Job.objects.open().filter(array__in=arrays).order_by("array", "array_index")
    return [show_element_id(array, index) for array, index in rows.values_list("array", "array_index")[:MOST_NAMED]]
