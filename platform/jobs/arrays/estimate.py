"""When the last element of an array ends, from what is known of its length."""

from datetime import datetime, timedelta
from math import ceil

from django.db.models import Avg, F

from common.resources import parse_duration
from jobs.arrays.models import JobArray
from jobs.jobfile.array_values import ArrayWish
from jobs.jobfile.search.wish import SearchWish
from jobs.models import Job
from jobs.states import JobState

LOOKED_AT = 100
"""Of how many elements that succeeded the mean length is taken."""


def plan_duration_s(wish: ArrayWish | SearchWish, time_s: int | None) -> int | None:
    """Return how long all elements take that start as many at once as the file says; None where it does not say both
    how many and how long each takes.
    """
    if wish.at_once is None or time_s is None:
        return None
    return ceil(wish.count / wish.at_once) * time_s


def estimate_end(array: JobArray, now: datetime) -> datetime | None:
    """Return when the last element ends if all go on as now: as many run together, each as long as those that
    succeeded, else as long as the file says. None where nothing runs or no length is known.
    """
    if array.has_ended or array.stop_requested_at is not None or not array.running:
        return None
    each_s = _load_mean_s(array) or _read_time_s(array)
    if each_s is None:
        return None
    left = array.waiting + array.running + (array.total - array.made if array.makes_more else 0)
    return now + timedelta(seconds=each_s * left / array.running)


def _load_mean_s(array: JobArray) -> float | None:
    ended = Job.objects.filter(array=array.pk, state=JobState.SUCCEEDED, started_at__isnull=False)
    newest = ended.order_by("-array_index").values("ended_at", "started_at")[:LOOKED_AT]
    mean = newest.aggregate(mean=Avg(F("ended_at") - F("started_at")))["mean"]
    return mean.total_seconds() if mean else None


def _read_time_s(array: JobArray) -> int | None:
    said = array.spec.get("time")
    return parse_duration(said) if said else None
