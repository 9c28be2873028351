"""Make the elements of arrays, and the trials of sweeps, as there is room for them: each once, whatever is killed when.

One transaction, under the array's lock, makes a few elements and counts them as made. What a killed worker leaves
behind is an array of which these are to be made still.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from django.db import DatabaseError, transaction
from django.db.models import Count

from common.errors import BudgetSpent, PlatformError, QuotaExceeded, StaleState, describe_as_json
from common.locks import database_now, lock_rows
from events.notices import notify_all
from events.record_and_publish import SYSTEM, publish_row, record
from jobs.arrays.models import IS_PRUNED, ElementCounts, JobArray
from jobs.arrays.steps import Step, choose_step
from jobs.control import retry_job
from jobs.jobfile.spec import JobSpec, from_json
from jobs.models import Job, JobQuerySet
from jobs.notices.recipients import list_recipients
from jobs.states import JOB_ACTIVE, JobState
from jobs.submit import Check, Origin, PoolChooser, submit_job

log = logging.getLogger("tessera.arrays")

MAKE_S = 5.0
"""How long one call makes elements; the next one goes on."""
AT_A_TIME = 10
"""Elements that one transaction makes at most: its locks of the array and of the person's limits are held so long."""
TRY_AGAIN = timedelta(seconds=30)
Draw = Callable[[JobArray, JobSpec], dict[str, str]]
"""Returns the values of the next element of a locked array, whose file is this."""
TRANSIENT = (QuotaExceeded, BudgetSpent, StaleState)
"""Refusals that pass by themselves: a limit of counts has room again, a budget refills."""


def read_values(array: JobArray, spec: JobSpec) -> dict[str, str]:
    """Return the next element's values where they do not depend on what others have reported."""
    assert spec.elements is not None
    return spec.elements.values_at(array.made)


def make_due_elements(check: Check, containers: bool, draw: Draw = read_values) -> int:
    """Take the next steps of all open arrays in turn, for MAKE_S at most; return how many elements were made or queued
    again. check, containers: as jobs.submit has them.
    """
    made, until = 0, time.monotonic() + MAKE_S
    going = list(JobArray.objects.open().order_by("pk").values_list("pk", flat=True))
    while going and time.monotonic() < until:
        steps = {pk: take_step(pk, check, containers, draw) for pk in going}
        going = [pk for pk, done in steps.items() if done]
        made += sum(steps.values())
    return made


@transaction.atomic
def take_step(pk: int, check: Check, containers: bool, draw: Draw = read_values) -> int:
    """Do what is next for an array and count its elements anew; return how many were made, queued again or given up."""
    array, done = lock_array(pk), 0
    counts = count_elements(array)
    again = _find_retried(array).order_by("array_index").first()
    step = choose_step(array, counts, again is not None, database_now())
    if step == Step.MAKE:
        make = partial(make_element, array, check, containers, draw, PoolChooser(array.user, check, containers))
        room = min(AT_A_TIME, array.at_once - counts.open, array.total - array.made)
        while done < room and array.halted_at is None and _try(array, make):
            done += 1
    elif again is not None and step == Step.RETRY:
        done = int(_try(array, partial(_retry, array, again)))
    elif step == Step.END:
        _end(array, counts)
    store_counts(array)
    return done


def lock_array(pk: int) -> JobArray:
    """Lock an array, before all that its elements need locks of."""
    (array,) = lock_rows(JobArray.objects.with_names().filter(pk=pk))
    return array


def count_elements(array: JobArray) -> ElementCounts:
    elements = Job.objects.filter(array=array.pk).order_by()
    states = dict(elements.values_list("state").annotate(n=Count("pk")))
    pruned = elements.filter(IS_PRUNED).count() if states.get(JobState.CANCELLED) else 0
    return ElementCounts(
        waiting=states.get(JobState.QUEUED, 0),
        running=sum(states.get(state, 0) for state in JOB_ACTIVE),
        succeeded=states.get(JobState.SUCCEEDED, 0) + pruned,
        failed=states.get(JobState.FAILED, 0),
        cancelled=states.get(JobState.CANCELLED, 0) - pruned,
    )


def store_counts(array: JobArray) -> None:
    """Count the elements of a locked array anew, and tell pages if anything of it changed."""
    before, array.counts = array.counts, count_elements(array)
    array.save()
    if array.counts != before or array.has_ended:
        publish_row(array)


def make_element(
    array: JobArray, check: Check, containers: bool, draw: Draw = read_values, chooser: PoolChooser | None = None
) -> Job:
    """Submit the next element of a locked array. Raises what submit_job raises."""
    index, spec = array.made, from_json(array.spec)
    job = submit_job(
        user=array.user,
        spec=build_element_spec(spec, index, draw(array, spec)),
        check=check,
        containers=containers,
        origin=Origin(array=array, index=index),
        chooser=chooser,
    )
    array.made += 1
    return job


def build_element_spec(spec: JobSpec, index: int, values: dict[str, str]) -> JobSpec:
    """Return an element's own file: of one job, with its values as variables, and its index in its name."""
    ending = f".{index}"
    name = f"{spec.name[: 64 - len(ending)]}{ending}"
    return replace(spec, array=None, search=None, name=name, env={**spec.env, **values})


def _find_retried(array: JobArray) -> JobQuerySet:
    """Return the ended elements that somebody asked to be queued again, and that have not been since."""
    if array.retry_asked_at is None:
        return Job.objects.none()
    states = [JobState.FAILED, *([JobState.CANCELLED] if array.retry_all else [])]
    ended = Job.objects.with_names().filter(array=array.pk, state__in=states, ended_at__lt=array.retry_asked_at)
    return ended.exclude(IS_PRUNED)


def _retry(array: JobArray, job: Job) -> Job:
    assert array.retry_by is not None
    return retry_job(actor=array.retry_by, job=job)


def _try(array: JobArray, act: Callable[[], object]) -> bool:
    """Make an element, or queue one again; return whether that is done, or given up for good.

    What refuses it now is kept in words, and tried again if it may pass.
    """
    before = array.made
    try:
        with transaction.atomic():
            act()
    except DatabaseError:
        raise
    except Exception as failed:
        array.made = before
        _refuse(array, failed)
    else:
        array.try_at, array.why = None, None
    return array.try_at is None


def _refuse(array: JobArray, failed: Exception) -> None:
    error = failed if isinstance(failed, PlatformError) else PlatformError()
    if error is not failed:
        log.exception("no element of %s was made", array)
    array.why = describe_as_json(error)
    if error.status >= 500 or isinstance(error, TRANSIENT):
        array.try_at = database_now() + TRY_AGAIN
        return
    array.halted_at, array.retry_asked_at, array.try_at = database_now(), None, None
    record(array, "halted", actor=SYSTEM, reason=error.code[:40])


def _end(array: JobArray, counts: ElementCounts) -> None:
    """Mark an array as ended, and tell the people of it once."""
    array.ended_at, array.retry_asked_at, array.counts = database_now(), None, counts
    record(array, "ended", actor=SYSTEM, params=_tell(array))
    kinds = {JobState.SUCCEEDED: ("job_succeeded", "success"), JobState.FAILED: ("job_failed", "failure")}
    if array.state in kinds:
        kind, word = kinds[JobState(array.state)]
        notify_all(
            kind, [replace(one, params={**one.params, **_tell(array)}) for one in list_recipients([array], word)]
        )


def _tell(array: JobArray) -> dict[str, int]:
    return {"succeeded": array.succeeded, "failed": array.failed, "cancelled": array.cancelled, "total": array.total}
