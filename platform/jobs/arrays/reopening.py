"""Room in an array for an element that a person retries by itself."""

from common.errors import Conflict
from common.locks import lock_rows
from jobs.arrays.models import JobArray
from jobs.models import Job


def admit_element(job: Job) -> None:
    """Open its array again, unless as many of its elements are open as may be. Before all other locks of a retry.

    Raises Conflict.
    """
    if job.array_id is None:
        return
    (array,) = lock_rows(JobArray.objects.filter(pk=job.array_id))
    if Job.objects.open().filter(array=array.pk).count() >= array.at_once:
        raise Conflict("array_full", array=array.public_id, at_once=array.at_once)
    JobArray.objects.filter(pk=array.pk).update(ended_at=None)
