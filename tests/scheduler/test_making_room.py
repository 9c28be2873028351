"""Jobs that make room for others: stopped by the real cycle, queued again, and run once more when there is room."""

import make
import pytest

from jobs.control import stop_job
from jobs.models import Job
from jobs.states import JobState
from quotas.models import Quota
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)

CARD = {"gpu": "1", "run": "sleep 60", "pool": "train"}


def settle(job: Job, attempt: int) -> Job:
    """Until the job runs for the n-th time."""
    for _ in range(5):
        job = drive(job, JobState.RUNNING)
        if job.attempt == attempt:
            return job
    raise AssertionError(f"{job.public_id} is in attempt {job.attempt}")


def test_a_higher_class_stops_a_willing_job_which_runs_again_afterwards(local, ada):
    low = drive(make.job(ada, priority="low", preemptible=True, **CARD), JobState.RUNNING)
    high = drive(make.job(ada, priority="high", **CARD), JobState.RUNNING)
    low.refresh_from_db()
    assert (low.state, low.attempt) == (JobState.QUEUED, 2)
    first = low.tasks.get(attempt=1)
    assert (first.state, first.reason) == ("STOPPED", "preempted")
    stop_job(actor=ada, job=high)
    low = settle(low, attempt=2)
    assert low.retries_left == Job.objects.get(pk=high.pk).retries_left


def test_a_team_takes_back_its_guarantee_and_says_so_meanwhile(local, ada):
    vision = make.team("vision")
    make.quota(vision, make.Pool.objects.get(name="train"))
    eve = make.user("eve", vision)
    borrowed = drive(make.job(eve, preemptible=True, **CARD), JobState.RUNNING)
    Quota.objects.filter(team__name="nlp", pool__name="train").update(gpu_milli_guarantee=1000)
    mine = drive(make.job(ada, **CARD), JobState.RUNNING)
    borrowed.refresh_from_db()
    assert borrowed.tasks.get(attempt=1).reason == "reclaimed" and borrowed.state == JobState.QUEUED
    assert mine.attempt == 1


def test_a_job_that_was_not_asked_is_never_stopped(local, ada):
    low = drive(make.job(ada, priority="low", **CARD), JobState.RUNNING)
    urgent = make.job(ada, priority="high", **CARD)
    with pytest.raises(AssertionError, match="QUEUED"):
        drive(urgent, JobState.RUNNING, seconds=1)
    low.refresh_from_db()
    assert low.state == JobState.RUNNING and low.attempt == 1


def test_a_job_stopped_by_its_owner_while_it_makes_room_stays_stopped(local, ada):
    low = drive(make.job(ada, priority="low", preemptible=True, **CARD), JobState.RUNNING)
    drive(make.job(ada, priority="high", **CARD), JobState.STARTING, JobState.RUNNING)
    stop_job(actor=ada, job=Job.objects.get(pk=low.pk))
    low = drive(low, JobState.CANCELLED)
    assert low.reason == "stopped_by_user"
