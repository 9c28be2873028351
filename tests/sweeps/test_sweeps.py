"""Sweeps in the database: trials are drawn of those before them, each once, and who falls behind is stopped."""

from itertools import count

import pytest
from django.db import connection

from jobs.arrays.making import make_due_elements
from jobs.arrays.models import JobArray
from jobs.arrays.services import retry_array
from jobs.jobfile.spec import from_json
from jobs.models import Job
from jobs.states import JobState, TaskState
from sweeps.drawing import RANDOM_FIRST, draw, draw_values
from sweeps.pruning import prune_open_sweeps
from sweeps.trials import load_trials, rank_trials
from tests import make

pytestmark = pytest.mark.django_db
SEARCH = {"metric": "loss", "trials": 14, "at_once": 3, "space": {"x": "-5.0..10.0", "kind": ["a", "b"]}}


def submit(person, **search) -> JobArray:
    return make.array(person, search={**SEARCH, **search})


def made(array: JobArray) -> JobArray:
    while make_due_elements(lambda draft: None, True, draw_values):
        pass  # one call ends after a while
    return JobArray.objects.get(pk=array.pk)


def elements(array: JobArray, *states: str) -> list[Job]:
    found = Job.objects.filter(array=array.pk).order_by("array_index")
    return list(found.filter(state__in=states) if states else found)


def finish(job: Job, loss: float) -> None:
    (task,) = make.start(job)
    make.numbers(task, "loss", (1, loss))
    make.end(job)


def run_all(array: JobArray) -> JobArray:
    array = made(array)
    while not array.has_ended:
        for job in elements(array, JobState.QUEUED):
            finish(job, abs(float(job.spec["env"]["x"]) - 2))
        array = made(array)
    return array


def test_trials_are_drawn_as_there_is_room_and_the_best_is_told():
    array = run_all(submit(make.cast().ada))
    jobs, wish = elements(array), from_json(array.spec).search
    assert (array.state, array.total, len(jobs)) == (JobState.SUCCEEDED, 14, 14)
    assert [job.spec["env"] for job in jobs[:RANDOM_FIRST]] == [wish.values_at(at) for at in range(RANDOM_FIRST)]
    learned = [job.spec["env"] for job in jobs[RANDOM_FIRST:]]
    assert learned != [wish.values_at(at) for at in range(RANDOM_FIRST, 14)]
    ranked = rank_trials(load_trials(array, wish), wish)
    assert ranked[0].score == min(abs(float(job.spec["env"]["x"]) - 2) for job in jobs)
    assert not any("search" in job.spec for job in jobs)


class Killed(BaseException):
    pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("killed_at", range(1, 90, 29))
def test_a_worker_that_is_killed_at_any_statement_draws_what_it_would_have(killed_at):
    array = made(submit(make.cast().ada))
    while array.made < RANDOM_FIRST:
        finish(elements(array, JobState.QUEUED)[0], 1.0 / (1 + array.made))
        array = made(array)
    finish(elements(array, JobState.QUEUED)[0], 0.5)
    finish(elements(array, JobState.QUEUED)[0], 0.4)
    statements = count(1)

    def kill(execute, sql, params, many, context):
        if next(statements) == killed_at:
            raise Killed
        return execute(sql, params, many, context)

    with connection.execute_wrapper(kill):
        try:
            made(array)
        except Killed:
            pass
    array, wish = made(array), from_json(array.spec).search
    trials = load_trials(array, wish)
    assert [trial.index for trial in trials] == list(range(12))
    for trial in trials[RANDOM_FIRST:]:
        assert trial.values == draw(wish, trials[: trial.index], trial.index)


def test_who_falls_behind_is_stopped_saved_and_counts_as_done():
    cast = make.cast()
    array = made(submit(cast.ada, method="asha", trials=3, rungs=[2, 4]))
    good, bad, early = elements(array)
    for job, losses in ((good, (0.9, 0.2, 0.15)), (bad, (0.3, 0.8)), (early, (0.1,))):
        (task,) = make.start(job)
        make.numbers(task, "loss", *enumerate(losses, 1))
    array = made(array)
    assert prune_open_sweeps() == 1 and prune_open_sweeps() == 0
    bad.refresh_from_db()
    assert (bad.stop_reason, bad.stop_requested_by) == ("pruned", "system")
    make.end(bad, TaskState.STOPPED, "pruned", None)
    bad.refresh_from_db()
    assert (bad.state, bad.reason, bad.attempt) == (JobState.CANCELLED, "pruned", 1)
    make.end(good), make.end(early)
    array = made(array)
    assert (array.state, array.succeeded, array.cancelled) == (JobState.SUCCEEDED, 3, 0)
    with pytest.raises(Exception, match="array_nothing_to_retry"):
        retry_array(actor=cast.ada, array=array, only_failed=False)
