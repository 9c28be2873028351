"""Arrays make each element once and as there is room, stop as one, and retry what failed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership
from common.errors import Conflict, InvalidInput, NotFound, NotPermitted
from events.models import Event, Notice
from jobs.arrays.making import make_due_elements
from jobs.arrays.models import JobArray, has_array_state
from jobs.arrays.services import find_array, retry_array, stop_array
from jobs.control import retry_job
from jobs.models import Job
from jobs.states import JobState, TaskState
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(db):
    return make.cast()


def made(array: JobArray) -> JobArray:
    while make_due_elements(lambda draft: None, True):
        pass  # one call ends after a while
    return JobArray.objects.get(pk=array.pk)


def elements(array: JobArray, *states: str) -> list[Job]:
    found = Job.objects.filter(array=array.pk).order_by("array_index")
    return list(found.filter(state__in=states) if states else found)


def end(job: Job, state: str = TaskState.SUCCEEDED, reason: str = "completed", code: int = 0) -> None:
    make.start(job)
    make.end(job, state, reason, code)


def fail(job: Job) -> None:
    end(job, TaskState.FAILED, "exit_nonzero", 1)


def run_all(array: JobArray) -> JobArray:
    array = made(array)
    while not array.has_ended:
        for job in elements(array, JobState.QUEUED):
            end(job)
        array = made(array)
    return array


def test_elements_are_jobs_with_their_values(cast):
    array = made(make.array(cast.ada, {"lr": ["1e-4", "3e-4"], "seed": "1..2"}, env={"A": "b"}))
    jobs = elements(array)
    assert [job.name for job in jobs] == ["sweep.0", "sweep.1", "sweep.2", "sweep.3"]
    assert [job.spec["env"] for job in jobs] == [
        {"A": "b", "lr": lr, "seed": seed} for lr in ("1e-4", "3e-4") for seed in ("1", "2")
    ]
    assert not any("array" in job.spec for job in jobs)
    make.start(jobs[3])
    spec = build_task_spec(jobs[3].newest_tasks.get())
    assert spec.platform_env["TESSERA_ARRAY_ID"] == array.public_id
    assert spec.platform_env["TESSERA_ARRAY_INDEX"] == "3" and spec.env["seed"] == "2"


def test_no_more_are_open_than_may_be(cast):
    array = made(make.array(cast.ada, {"n": "1..7", "at_once": 3}))
    assert len(elements(array)) == array.made == 3
    end(elements(array)[1])
    array = made(array)
    assert (array.made, array.counts) == (4, (3, 0, 1, 0, 0))
    make.start(elements(array)[0])
    assert made(array).counts == (2, 1, 1, 0, 0)
    array = run_all_but_running(array)
    assert array.state == JobState.RUNNING
    make.end(elements(array)[0])
    array = made(array)
    assert (array.state, array.counts) == (JobState.SUCCEEDED, (0, 0, 7, 0, 0))


def run_all_but_running(array: JobArray) -> JobArray:
    while waiting := elements(array, JobState.QUEUED):
        assert len(elements(array, JobState.QUEUED, JobState.RUNNING)) <= 3
        end(waiting[0])
        array = made(array)
    return array


def test_a_long_array_has_a_hundred_open_elements(cast):
    array = made(make.array(cast.ada, 10_000))
    assert (array.total, array.made, array.waiting) == (10_000, 100, 100)


def test_its_people_are_told_once_and_webhooks_of_the_array_alone(cast):
    make.webhook(cast.ada, None, "job", "array", "task")
    array = run_all(make.array(cast.ada, 3))
    assert [(one.kind, one.label) for one in Notice.objects.filter(user_id=cast.ada.pk)] == [
        ("job_succeeded", array.public_id)
    ]
    assert set(Delivery.objects.values_list("event__kind", flat=True)) <= {"array"}
    assert Event.objects.get(kind="array", object_id=array.pk, verb="ended").params["succeeded"] == 3


def test_a_stop_ends_what_is_open_and_makes_no_more(cast):
    array = made(make.array(cast.ada, {"n": "1..9", "at_once": 3}))
    end(elements(array)[0])
    make.start(elements(array)[1])
    array = stop_array(actor=cast.bob, array=array)
    assert (array.state, array.waiting) == (JobState.STOPPING, 0)
    make.end(elements(array)[1], TaskState.STOPPED, "stopped_by_user", None)
    array = made(array)
    assert (array.made, array.state, array.counts) == (3, JobState.CANCELLED, (0, 0, 1, 0, 2))
    assert stop_array(actor=cast.ada, array=array).ended_at == array.ended_at


def test_what_failed_is_retried_and_nothing_else(cast):
    array = made(make.array(cast.ada, {"n": "1..4", "at_once": 2}))
    for _ in range(2):
        first, second = elements(array, JobState.QUEUED)
        fail(first), end(second)
        array = made(array)
    assert (array.state, array.counts) == (JobState.FAILED, (0, 0, 2, 2, 0))
    assert Notice.objects.get(user_id=cast.ada.pk, kind="job_failed").params["failed"] == 2
    array = made(retry_array(actor=cast.ada, array=array))
    again = elements(array, JobState.QUEUED)
    assert [(job.array_index, job.attempt) for job in again] == [(0, 2), (2, 2)]
    fail(again[0]), end(again[1])
    array = made(array)
    assert (array.state, array.counts) == (JobState.FAILED, (0, 0, 3, 1, 0))  # what fails again is left alone
    assert elements(array)[0].attempt == 2


def test_a_retry_waits_for_room_like_all_elements(cast):
    array = made(make.array(cast.ada, {"n": "1..5", "at_once": 2}))
    for _ in range(5):
        fail(elements(array, JobState.QUEUED)[0])
        array = made(array)
    array = made(retry_array(actor=cast.ada, array=array))
    assert array.waiting == 2
    with pytest.raises(Conflict) as full:
        retry_job(actor=cast.ada, job=elements(array, JobState.FAILED)[0])
    assert full.value.code == "array_full"
    array = run_all(array)
    assert (array.state, array.succeeded) == (JobState.SUCCEEDED, 5)


def test_the_rest_of_a_stopped_array_is_run_when_asked(cast):
    array = made(make.array(cast.ada, {"n": "1..4", "at_once": 2}))
    array = made(stop_array(actor=cast.ada, array=array))
    assert (array.state, array.made) == (JobState.CANCELLED, 2)
    with pytest.raises(Conflict):
        retry_array(actor=cast.ada, array=array)
    array = run_all(retry_array(actor=cast.ada, array=array, only_failed=False))
    assert (array.state, array.counts) == (JobState.SUCCEEDED, (0, 0, 4, 0, 0))


def test_what_is_retried_after_a_stop_can_be_stopped_again(cast):
    array = made(make.array(cast.ada, {"n": "1..4", "at_once": 1}))
    fail(elements(array)[0])
    array = made(stop_array(actor=cast.ada, array=made(array)))
    array = made(retry_array(actor=cast.ada, array=array))
    assert (array.state, array.counts) == (JobState.QUEUED, (1, 0, 0, 0, 1))
    array = made(stop_array(actor=cast.ada, array=array))
    assert (array.state, array.made) == (JobState.CANCELLED, 2)


def test_one_element_that_is_retried_by_itself_opens_the_array(cast):
    array = made(make.array(cast.ada, 1))
    fail(elements(array)[0])
    assert made(array).state == JobState.FAILED
    retry_job(actor=cast.ada, job=elements(array)[0])
    assert not made(array).has_ended
    assert run_all(array).state == JobState.SUCCEEDED


def test_a_limit_of_waiting_jobs_puts_it_off_and_a_lasting_refusal_halts_it(cast):
    array = make.array(cast.ada, 4)
    make.limit(cast.ada, jobs_waiting=2)
    array = made(array)
    assert (array.made, array.why["code"], array.halted_at) == (2, "user_limit", None)
    make.limit(cast.ada, jobs_waiting=None)
    JobArray.objects.update(try_at=None)
    Membership.objects.filter(user=cast.ada).delete()
    array = made(array)
    assert (array.made, array.halted_at is not None) == (2, True)
    for job in elements(array):
        end(job)
    assert made(array).state == JobState.FAILED
    make.add_member(user=cast.ada, team=cast.nlp)
    array = run_all(retry_array(actor=cast.ada, array=array))
    assert (array.state, array.succeeded) == (JobState.SUCCEEDED, 4)


def test_a_submit_that_is_refused_leaves_nothing(cast):
    make.limit(cast.ada, jobs_waiting=0)
    with pytest.raises(Conflict):
        make.array(cast.ada, 4)
    assert not JobArray.objects.exists() and not Job.objects.exists()


def test_where_one_job_is_made_an_array_is_refused(cast):
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, team="nlp", pool="dev", array=3)
    assert [(error.pointer, error.code) for error in refused.value.errors] == [("/array", "array_not_here")]


def test_strangers_do_not_find_it_and_colleagues_do_not_stop_it(cast):
    array = make.array(cast.ada, 2)
    assert find_array(cast.bob, array.public_id) == array
    for name in (array.public_id, "arr-0", "arr-99", "job-1"):
        with pytest.raises(NotFound):
            find_array(cast.eve, name)
    colleague = make.user("cal", cast.nlp)
    for act in (stop_array, retry_array):
        with pytest.raises(NotPermitted):
            act(actor=colleague, array=array)


@pytest.mark.parametrize("state", JobState)
def test_the_database_knows_the_state_of_arrays(cast, state):
    rows = [
        {}, {"running": 1}, {"ended_at": "2027-01-01T00:00Z", "succeeded": 2}, {"ended_at": "2027-01-01T00:00Z"},
        {"ended_at": "2027-01-01T00:00Z", "succeeded": 1, "failed": 1},
        {"ended_at": "2027-01-01T00:00Z", "halted_at": "2027-01-01T00:00Z"},
    ]  # fmt: skip
    for row in rows:
        JobArray.objects.create(name="a", team=cast.nlp, user=cast.ada, spec={}, total=2, **row)
    found = set(JobArray.objects.filter(has_array_state([state])))
    wanted = {JobState.RUNNING} if state in (JobState.STARTING, JobState.STOPPING) else {state}
    assert found == {array for array in JobArray.objects.all() if array.state in wanted}


class Killed(BaseException):
    pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("killed_at", range(1, 120, 7))
def test_a_worker_that_is_killed_at_any_statement_loses_and_repeats_nothing(killed_at):
    cast = make.cast()
    array = make.array(cast.ada, {"n": "1..5", "at_once": 2})
    end(elements(array)[0])
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
    array = run_all(array)
    indexes = Counter(job.array_index for job in elements(array))
    assert indexes == Counter(range(5)) and array.succeeded == 5


def test_a_step_costs_no_more_with_a_long_array(cast):
    array = made(make.array(cast.ada, {"n": "1..2000", "at_once": 2}))

    def count_statements() -> int:
        end(elements(array, JobState.QUEUED)[0])
        with CaptureQueriesContext(connection) as queries:
            made(array)
        return len(queries)

    first = count_statements()
    for _ in range(10):
        end(elements(array, JobState.QUEUED)[0])
        made(array)
    assert count_statements() == first


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_make_each_once():
    cast = make.cast()
    arrays = [make.array(cast.ada, {"n": "1..6", "at_once": 4}) for _ in range(3)]
    begin = Barrier(3)

    def work() -> int:
        begin.wait()
        try:
            return make_due_elements(lambda draft: None, True)
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as workers:
        assert sum(one.result() for one in [workers.submit(work) for _ in range(3)]) == 9
    for array in arrays:
        assert [job.array_index for job in elements(array)] == [0, 1, 2, 3]
