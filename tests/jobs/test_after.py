"""Jobs that start after others."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from common.errors import Conflict, InvalidInput
from events.models import Event
from jobs.arrays.making import make_due_elements
from jobs.arrays.models import JobArray
from jobs.arrays.services import retry_array
from jobs.control import hold_job, retry_job, stop_job
from jobs.dependencies import settling
from jobs.dependencies.settling import Waiting, compare
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.spec import from_json
from jobs.models import Job
from jobs.states import JobState, TaskState
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def prepare(cast) -> Job:
    return make.job(cast.ada, name="prepare", pool="dev")


def settle_dependencies() -> bool:
    return settling.settle_dependencies(lambda: None)


def settled(job: Job) -> Job:
    settle_dependencies()
    return Job.objects.get(pk=job.pk)


def fail(job: Job) -> None:
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero", 1)


def succeed(job: Job) -> None:
    make.start(job)
    make.end(job)


@pytest.mark.parametrize("said", ["prepare", ["prepare"], {"prepare": "success"}, " prepare , ", "prepare: success"])
def test_names_become_ids_whatever_way_they_are_said(cast, prepare, said):
    job = make.job(cast.ada, pool="dev", after=said)
    assert job.spec["after"] == {prepare.public_id: "success"}
    assert settled(job).waits_for == [prepare.pk]
    assert f"after:\n  {prepare.public_id}: success\n" in dump_yaml(from_json(job.spec))


def test_the_newest_of_a_name_is_meant_and_ids_are_of_any_colleague(cast, prepare):
    newer, other = make.job(cast.ada, name="prepare", pool="dev"), make.job(cast.bob, pool="dev")
    job = make.job(cast.ada, pool="dev", after=f"prepare, {other.public_id}: any")
    assert job.spec["after"] == {newer.public_id: "success", other.public_id: "any"}


@pytest.mark.parametrize(
    ("condition", "ends", "goes_on"),
    [
        ("success", succeed, True), ("success", fail, False),
        ("failure", fail, True), ("failure", succeed, False),
        ("any", succeed, True), ("any", fail, True),
    ],
)  # fmt: skip
def test_what_comes_of_each_end(cast, prepare, condition, ends, goes_on):
    job = make.job(cast.ada, pool="dev", after={"prepare": condition})
    assert settled(job).waits_for
    ends(prepare)
    job = settled(job)
    if goes_on:
        assert (job.state, job.waits_for) == (JobState.QUEUED, [])
        assert Event.objects.get(kind="job", object_id=job.pk, verb="dependencies_met")
    else:
        assert (job.state, job.reason) == (JobState.CANCELLED, "dependency_failed")


def test_a_chain_is_cancelled_whole(cast, prepare):
    second = make.job(cast.ada, name="second", pool="dev", after="prepare")
    third, mourner = (make.job(cast.ada, pool="dev", after={"second": end}) for end in ("success", "failure"))
    stop_job(actor=cast.ada, job=prepare)
    settle_dependencies()  # mourner names the failure of one that is cancelled in the same round
    settle_dependencies()
    states = [Job.objects.get(pk=job.pk).state for job in (second, third, mourner)]
    assert states == [JobState.CANCELLED, JobState.CANCELLED, JobState.QUEUED]
    assert Job.objects.get(pk=mourner.pk).waits_for == []


def test_of_several_all_must_end(cast, prepare):
    other = make.job(cast.ada, pool="dev")
    job = make.job(cast.ada, pool="dev", after=["prepare", other.public_id])
    succeed(prepare)
    assert settled(job).waits_for == [other.pk]
    succeed(other)
    assert settled(job).waits_for == []


def test_its_age_and_its_longest_wait_count_from_then(cast, prepare):
    job = make.job(cast.ada, pool="dev", after="prepare", wait_max="1h")
    long_ago = timezone.now() - timedelta(days=2)
    Job.objects.filter(pk=job.pk).update(submitted_at=long_ago, eligible_at=long_ago, queued_at=long_ago)
    assert settled(job).give_up_at is None
    succeed(prepare)
    job = settled(job)
    assert timezone.now() - job.waits_from < timedelta(minutes=1)
    assert timedelta(minutes=59) < job.give_up_at - timezone.now() <= timedelta(hours=1)


def test_one_that_has_succeeded_already_keeps_it_from_nothing(cast, prepare):
    succeed(prepare)
    assert settled(make.job(cast.ada, pool="dev", after="prepare")).waits_for == []


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ("nothing", "unknown_dependency"), ("job-999999", "unknown_dependency"),
        ({"prepare": "success", "job-%d": "any"}, "dependency_twice"),
        ({"prepare": "success"}, "dependency_ended"), ({"prepare": "soon"}, "unknown_value"), (3, "wrong_type"),
    ],
)  # fmt: skip
def test_what_is_refused(cast, prepare, after, code):
    if code == "dependency_twice":
        after = {name.replace("%d", str(prepare.pk)): end for name, end in after.items()}
    if code == "dependency_ended":
        fail(prepare)
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", after=after)
    (error,) = refused.value.errors
    assert error.code == code and error.pointer.startswith("/after")


def test_what_a_stranger_runs_is_not_known(cast, prepare):
    others = make.team("others")
    make.quota(others, make.pool("dev"))
    stranger = make.user("mallory", others)
    with pytest.raises(InvalidInput):
        make.job(stranger, pool="dev", after=prepare.public_id)


def test_a_retry_is_refused_while_that_job_has_failed_and_waits_while_it_is_tried_again(cast, prepare):
    job = make.job(cast.ada, pool="dev", after="prepare")
    fail(prepare)
    job = settled(job)
    with pytest.raises(Conflict):
        retry_job(actor=cast.ada, job=job)
    retry_job(actor=cast.ada, job=Job.objects.get(pk=prepare.pk))
    assert settled(retry_job(actor=cast.ada, job=job)).waits_for == [prepare.pk]


def test_a_held_one_is_held_after_them_too(cast, prepare):
    job = make.job(cast.ada, pool="dev", after="prepare")
    hold_job(actor=cast.ada, job=job)
    succeed(prepare)
    job = settled(job)
    assert job.waits_for == [] and job.held_at is not None


def test_a_long_chain_is_looked_at_in_two_statements_and_cancelled_at_once(cast, prepare, django_assert_num_queries):
    name = "prepare"
    for number in range(30):
        name = make.job(cast.ada, pool="dev", name=f"link {number}", after=name).name
    with django_assert_num_queries(2):
        assert not settle_dependencies()
    fail(prepare)
    assert settle_dependencies()
    assert set(Job.objects.exclude(pk=prepare.pk).values_list("state", "reason")) == {
        ("CANCELLED", "dependency_failed")
    }


def test_ten_thousand_in_a_chain_are_compared_at_once():
    waiting = {pk: Waiting([pk - 1], {pk - 1: "success"}) for pk in range(2, 10_001)}
    running = dict.fromkeys(range(1, 10_001), JobState.QUEUED.value)
    assert compare(waiting, running) == ({}, [])
    assert compare(waiting, {**running, 1: "SUCCEEDED"}) == ({2: []}, [])
    assert compare(waiting, {**running, 1: "FAILED"}) == ({}, list(range(2, 10_001)))


def end_elements(array: JobArray, end: Callable[[Job], None]) -> None:
    for job in Job.objects.filter(array=array.pk, state=JobState.QUEUED):
        end(job)
    make_due_elements(lambda draft: None, True)


@pytest.mark.parametrize(
    ("condition", "ends", "state"),
    [
        ("success", (succeed, succeed), JobState.QUEUED),
        ("success", (succeed, fail), JobState.CANCELLED),
        ("failure", (succeed, fail), JobState.QUEUED),
        ("any", (fail, fail), JobState.QUEUED),
    ],
)
def test_a_whole_array_is_waited_for(cast, condition, ends, state):
    array = make.array(cast.ada, {"lr": ["1", "2"], "at_once": 1}, name="sweep", pool="dev")
    job = make.job(cast.ada, pool="dev", after={"sweep": condition})
    assert job.spec["after"] == {array.public_id: condition}
    for end in ends:  # the second element is made once the first has ended
        assert settled(job).waits_for == [-array.pk]
        end_elements(array, end)
    job = settled(job)
    assert (job.state, job.waits_for) == (state, [-array.pk] if state == JobState.CANCELLED else [])


def test_each_element_of_an_array_starts_after_the_same_job(cast, prepare):
    array = make.array(cast.ada, {"lr": ["1", "2", "3"], "at_once": 2}, name="sweep", pool="dev", after="prepare")
    make_due_elements(lambda draft: None, True)
    first, second = Job.objects.filter(array=array.pk).order_by("pk")
    assert [settled(job).waits_for for job in (first, second)] == [[prepare.pk]] * 2
    succeed(prepare)
    assert [settled(job).waits_for for job in (first, second)] == [[], []]
    end_elements(array, succeed)
    assert Job.objects.get(array=array.pk, array_index=2).waits_for == []


def test_an_array_after_what_has_failed_makes_no_more_and_says_why(cast, prepare):
    array = make.array(cast.ada, {"lr": ["1", "2"], "at_once": 1}, name="sweep", pool="dev", after="prepare")
    fail(prepare)
    settle_dependencies()
    make_due_elements(lambda draft: None, True)
    array = JobArray.objects.get(pk=array.pk)
    assert (array.state, array.why["errors"][0]["code"]) == (JobState.FAILED, "dependency_ended")
    retry_job(actor=cast.ada, job=Job.objects.get(pk=prepare.pk))
    retry_array(actor=cast.ada, array=array, only_failed=False)
    make_due_elements(lambda draft: None, True)
    assert [job.waits_for for job in Job.objects.filter(array=array.pk)] == [[prepare.pk]]


def test_the_newest_of_a_name_is_meant_be_it_a_job_or_an_array(cast, prepare):
    array = make.array(cast.ada, 2, name="prepare", pool="dev")
    assert make.job(cast.ada, pool="dev", after="prepare").spec["after"] == {array.public_id: "success"}
    newest = make.job(cast.ada, name="prepare", pool="dev")
    assert make.job(cast.ada, pool="dev", after="prepare").spec["after"] == {newest.public_id: "success"}
    outsider = make.user("mallory", make.team("others"))
    make.quota(outsider.teams.get(), make.pool("dev"))
    with pytest.raises(InvalidInput):
        make.job(outsider, pool="dev", after=array.public_id)
