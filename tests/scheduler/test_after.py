"""The loops and the forecast with jobs that start after others."""

from datetime import timedelta

import pytest

from jobs.arrays.making import make_due_elements
from jobs.jobfile.parse import parse_spec
from jobs.models import Job
from jobs.states import JobState
from scheduler import tasks
from scheduler.models import Forecast
from scheduler.preview.forecast_recorder import record_forecasts
from scheduler.preview.preview import forecast_job, plan_job
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


def state_of(job: Job) -> str:
    return Job.objects.get(pk=job.pk).state


def test_it_starts_once_those_have_ended_and_holds_up_nobody(bob):
    first = make.job(bob, pool="train", gpu=1, name="first")
    then = make.job(bob, pool="train", gpu=4, nodes=8, after="first")
    other = make.job(bob, pool="train", gpu=1)
    tasks.cycle()
    assert [state_of(job) for job in (first, then, other)] == [JobState.STARTING, JobState.QUEUED, JobState.STARTING]
    assert Job.objects.get(pk=then.pk).wait_reasons == [{"code": "dependency", "params": {"jobs": [first.public_id]}}]
    make.end(first)
    make.end(other)
    tasks.cycle()
    assert state_of(then) == JobState.STARTING


def test_the_forecast_is_chained(bob):
    make.job(bob, pool="train", gpu=4, nodes=8, name="first", time="2h", max_time="2h")
    then = make.job(bob, pool="train", gpu=1, after="first", name="second", time="3h", max_time="3h")
    make.job(bob, pool="train", gpu=1, after="second", name="third")
    tasks.cycle()
    answer = plan_job(bob, parse_spec({"run": "true", "name": "plan", "pool": "train", "gpu": 1, "after": "second"}))
    assert answer.outcome == "waits" and answer.reasons[0]["code"] == "dependency"
    assert answer.reasons[0]["params"]["jobs"] == [then.public_id]
    record_forecasts()
    told = Forecast.objects.get(job=then)
    begun = Job.objects.get(name="first").submitted_at
    assert timedelta(hours=1) < told.p50 - begun < timedelta(hours=3)
    assert timedelta(hours=3) < answer.outlook.start.p50 - begun < timedelta(hours=7)


def test_the_forecast_is_chained_through_an_array(bob):
    asks = {"pool": "train", "gpu": 4, "nodes": 8, "time": "2h", "max_time": "2h"}
    array = make.array(bob, {"lr": ["1", "2"]}, name="sweep", **asks)
    make_due_elements(lambda draft: None, True)
    then = make.job(bob, pool="train", gpu=1, after="sweep")
    tasks.cycle()
    then = Job.objects.get(pk=then.pk)
    assert then.wait_reasons == [{"code": "dependency", "params": {"jobs": [array.public_id]}}]
    record_forecasts()
    waits = Forecast.objects.get(job=then).p50 - then.submitted_at
    assert timedelta(hours=2, minutes=30) < waits < timedelta(hours=5)  # one element after the other
    answer = plan_job(bob, parse_spec({"run": "true", "name": "plan", "pool": "train", "gpu": 1, "after": "sweep"}))
    assert answer.outlook.start.p50 - then.submitted_at > timedelta(hours=2, minutes=30)


@pytest.mark.parametrize("pool", ["train", None])
def test_no_change_of_it_starts_it_before_them(bob, pool):
    first = make.job(bob, pool="train", gpu=1, name="first", time="2h", max_time="2h")
    then = make.job(bob, pool=pool, gpu=4, nodes=2, after="first")
    tasks.cycle()
    assert state_of(first) == JobState.STARTING
    assert forecast_job(Job.objects.get(pk=then.pk)).sooner == ()
