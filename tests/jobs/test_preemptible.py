"""Whether a job may be stopped for others: its file says so, else its pool does, once, when it is submitted."""

import pytest
from django.db import connection

from cluster.models import Pool
from jobs.changing import change_job
from jobs.models import Job, may_be_stopped
from jobs.states import JobState, TaskState
from scheduler.inventory.nodes import make_first_pools
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    cast = make.cast()
    let(cast.train, True)
    return cast


def let(pool: Pool, says: bool) -> None:
    """Set what the pool says of batch jobs that do not say."""
    Pool.objects.filter(pk=pool.pk).update(batch_is_preemptible=says)


def change(person, job: Job, **changes) -> Job:
    return change_job(actor=person, job=job, changes=changes, check=lambda draft: None, containers=True)


@pytest.mark.parametrize(
    ("said", "pool", "may"),
    [({}, True, True), ({}, False, False)]
    + [({"preemptible": said}, pool, said) for said in (True, False) for pool in (True, False)],
)
def test_its_file_says_so_else_its_pool(cast, said, pool, may):
    let(cast.train, pool)
    job = make.job(cast.ada, gpu="1", pool="train", **said)
    assert (job.preemptible, may_be_stopped(job)) == (may, may)
    assert job.spec["preemptible"] == said.get("preemptible")


def test_a_pool_that_changes_its_mind_changes_no_job_that_was_accepted(cast):
    job = make.job(cast.ada, gpu="1", pool="train")
    let(cast.train, False)
    job.refresh_from_db()
    assert job.preemptible and not make.job(cast.ada, gpu="1", pool="train").preemptible
    assert change(cast.ada, job, time="2h").preemptible


def test_a_job_that_moves_is_what_its_new_pool_says(cast):
    job = make.job(cast.ada, gpu="1", pool="train")
    assert not change(cast.ada, job, pool="dev").preemptible
    assert change(cast.ada, Job.objects.get(pk=job.pk), preemptible=True).preemptible
    assert change(cast.ada, Job.objects.get(pk=job.pk), pool="train", preemptible=False).preemptible is False
    assert change(cast.ada, Job.objects.get(pk=job.pk), preemptible=None).preemptible


def test_of_several_pools_each_says_for_itself(cast):
    job = make.job(cast.ada, gpu="1")
    told = {choice["name"]: choice["preemptible"] for choice in job.choices}
    assert told == {"train": True, "dev": False}
    assert job.preemptible and job.enter_pool(cast.dev.pk) and not job.preemptible
    let(cast.train, False)
    narrowed = change(cast.ada, Job.objects.get(pk=job.pk), pool="train")
    assert narrowed.preemptible and not narrowed.choices


def test_a_job_of_the_previous_version_stays_what_it_is(cast):
    job = make.job(cast.ada, gpu="1", preemptible=False)
    job.choices = [{key: choice[key] for key in choice if key != "preemptible"} for choice in job.choices]
    assert job.enter_pool(cast.dev.pk) and not job.preemptible and not job.is_preemptible_in(cast.train.pk)


def test_new_pools_say_yes_and_those_from_before_no():
    make_first_pools(cards=2)
    assert set(Pool.objects.values_list("batch_is_preemptible", flat=True)) == {True}
    columns = [field.column for field in Pool._meta.fields if field.name not in ("id", "name", "batch_is_preemptible")]
    names = ", ".join(columns)
    with connection.cursor() as cursor:  # as the previous version does during an upgrade
        cursor.execute(f"INSERT INTO cluster_pool (name, {names}) SELECT 'old', {names} FROM cluster_pool LIMIT 1")
    assert Pool.objects.get(name="old").batch_is_preemptible is False


@pytest.mark.parametrize("reason", ["preempted", "reclaimed", "overtaken", "window_closed", "maintenance"])
def test_one_that_is_stopped_for_others_is_queued_again_and_has_not_failed(cast, reason):
    job = make.job(cast.ada, gpu="1", pool="train", retry=0)
    for stops in range(1, 6):  # more often than any rule of retries allows
        (task,) = make.start(Job.objects.get(pk=job.pk))
        make.move(task, TaskState.STOPPING, reason)
        make.move(task, TaskState.STOPPED, reason, exit_code=143)
        job.refresh_from_db()
        assert (job.state, job.reason, job.stops, job.not_before) == (JobState.QUEUED, reason, stops, None)
    assert job.preemptible and job.retries_left == 0
