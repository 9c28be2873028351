"""What is to be done about an array next. Pure."""

from datetime import datetime
from enum import StrEnum

from jobs.arrays.models import ElementCounts, JobArray


class Step(StrEnum):
    MAKE = "make"
    RETRY = "retry"
    REST = "rest"
    END = "end"


def choose_step(array: JobArray, counts: ElementCounts, can_retry: bool, now: datetime) -> Step:
    """Return the one thing to be done now. can_retry: whether there is an element that is to be queued again.

    No more elements are open than may be: those that wait count, so that the queue and its cycle stay short.
    """
    if not can_retry and not array.makes_more:
        return Step.REST if counts.open else Step.END
    if counts.open >= array.at_once or (array.try_at is not None and array.try_at > now):
        return Step.REST
    return Step.RETRY if can_retry else Step.MAKE
