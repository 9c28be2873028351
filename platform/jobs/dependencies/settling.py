"""Let jobs go whose dependencies have ended as they had to, and cancel those whose never will."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from django.db import transaction

from common.locks import lock_rows
from common.steady_clock import steady_now
from events.record_and_publish import SYSTEM, record
from jobs.arrays.models import JobArray
from jobs.control import end_jobs
from jobs.dependencies.conditions import is_never, number_conditions
from jobs.dependencies.left_outputs import find_unkept, keep_left
from jobs.jobfile.spec import from_json
from jobs.models import Job
from jobs.states import JOB_FINAL, JobState
from jobs.submit import build_start_columns

MOST_AT_ONCE = 500
FAILED = "dependency_failed"


class Waiting(NamedTuple):
    """What a job waits for: the open ones of its conditions, {job or array by its number: condition}."""

    open: list[int]
    conditions: Mapping[int, str]


def settle_dependencies(check_leader: Callable[[], None]) -> bool:
    """Look at every job that waits for others; what the database says now decides, so nothing is missed. Return whether
    anything changed. check_leader: called before the first write, to raise StaleState where another leads by now.
    """
    queued = Job.objects.filter(state=JobState.QUEUED, stop_requested_at=None).exclude(waits_for=[])
    rows = queued.order_by("pk").values_list("pk", "waits_for", "spec")
    waiting = {pk: Waiting(open_, number_conditions(spec["after"])) for pk, open_, spec in rows}
    if not waiting:
        return False
    named = {other for one in waiting.values() for other in one.open}
    states = dict.fromkeys(named, JobState.CANCELLED.value)  # one whose records are gone cannot succeed
    states |= dict(Job.objects.filter(pk__in=named).values_list("pk", "state"))
    if arrays := [-number for number in named if number < 0]:
        states |= {-row.pk: row.state for row in JobArray.objects.filter(pk__in=arrays)}
    succeeded = [pk for pk, state in states.items() if state == JobState.SUCCEEDED]
    for pk in find_unkept(succeeded) if succeeded else ():
        del states[pk]  # what it leaves is not there yet
    left, never = compare(waiting, states)
    touched = [*never, *left][:MOST_AT_ONCE]  # first those whose end lets others go on
    if touched:
        with transaction.atomic():
            check_leader()
            jobs = lock_rows(queued.filter(pk__in=touched))
            for job in jobs:
                if job.pk in left:
                    _go_on(job, left[job.pk])
            end_jobs(by=SYSTEM, jobs=[job for job in jobs if job.pk in never], reason=FAILED)
    return bool(touched)


def compare(waiting: Mapping[int, Waiting], states: Mapping[int, str]) -> tuple[dict[int, list[int]], list[int]]:
    """Return ({job: the fewer that it still waits for}, the jobs that wait for what will never be), whole chains of
    them, the first before those after it. states: of all jobs that are named.
    """
    dependents: dict[int, list[int]] = {}
    for pk, one in waiting.items():
        for other in one.open:
            dependents.setdefault(other, []).append(pk)
    states, ended = dict(states), [pk for pk, state in states.items() if state in JOB_FINAL]
    left: dict[int, list[int]] = {}
    never: dict[int, None] = {}
    while ended:
        other = ended.pop()
        for pk in dependents.get(other, ()):
            if pk in never:
                continue
            if is_never(states[other], waiting[pk].conditions[other]):
                never[pk], states[pk] = None, JobState.CANCELLED
                ended.append(pk)
            else:
                left[pk] = [one for one in left.get(pk, waiting[pk].open) if one != other]
    return {pk: rest for pk, rest in left.items() if pk not in never}, list(never)


def _go_on(job: Job, left: list[int]) -> None:
    begins = {} if left else build_start_columns(from_json(job.spec), steady_now())
    Job.objects.filter(pk=job.pk).update(waits_for=left, **begins)
    if not left:
        keep_left(job)
        record(job, "dependencies_met", actor=SYSTEM, params={"jobs": list(job.spec["after"])})
