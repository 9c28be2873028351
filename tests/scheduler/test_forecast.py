"""What is foretold is kept, and measured against what came."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Job
from jobs.states import TaskState
from scheduler.models import Forecast
from scheduler.preview import stored_forecasts
from scheduler.preview.forecast_recorder import record_forecasts
from scheduler.preview.preview import forecast_job
from scheduler.preview.stored_forecasts import (
    Coverage,
    lacks_run_times,
    load_forecasts,
    load_run_times,
    measure_coverage,
)
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting():
    """One card, taken for an hour by a job that says so, and one that waits for it."""
    nlp, train = make.team("nlp"), make.pool("train")
    make.quota(nlp, train)
    card = make.gpu(make.node("n1", pool=train))
    ada = make.user("ada", nlp)
    make.start(make.job(ada, gpu="1", pool="train", time="1h"), card)
    job = make.job(ada, gpu="1", pool="train", time="2h")
    Job.objects.filter(pk=job.pk).update(wait_position=1, wait_of=1)
    job.refresh_from_db()
    return job


def test_a_job_starts_when_the_one_before_it_says_that_it_ends(waiting):
    record_forecasts()
    told = load_forecasts([waiting])[waiting.pk]
    assert abs(told.p50 - timezone.now() - timedelta(hours=1)) < timedelta(seconds=30)
    row = Forecast.objects.get()
    assert row.first_p10 == row.p10 == told.p10 and row.first_p50 == told.p50


def test_what_was_first_told_stays_and_the_rest_follows(waiting):
    record_forecasts()
    first = Forecast.objects.get()
    Job.objects.filter(state="RUNNING").update(time_s=7200)
    record_forecasts()
    later = Forecast.objects.get()
    assert later.first_p10 == first.first_p10 and later.p10 - first.p10 > timedelta(minutes=30)


def test_what_was_told_stays_while_it_holds(waiting):
    record_forecasts()
    [told] = load_forecasts([waiting]).values()
    Job.objects.filter(state="RUNNING").update(time_s=3700)
    record_forecasts()
    [again] = load_forecasts([waiting]).values()
    assert (again.p10, again.p90) == (told.p10, told.p90) and again.p50 > told.p50


def test_a_passed_range_that_nothing_revises_is_told_no_more(waiting):
    record_forecasts()
    Forecast.objects.update(p90=timezone.now() - timedelta(minutes=2))
    assert not load_forecasts([waiting])


def test_a_held_job_is_told_no_start(waiting):
    record_forecasts()
    Job.objects.filter(pk=waiting.pk).update(held_at=timezone.now())
    assert not load_forecasts([waiting])


def test_the_page_and_the_suggestions_tell_the_same_start(waiting):
    record_forecasts()
    Forecast.objects.update(p10=timezone.now() + timedelta(hours=3))
    [told] = load_forecasts([waiting]).values()
    assert forecast_job(waiting).start == told


def test_without_a_history_nobody_is_told_when_a_job_of_unknown_length_ends(waiting, client):
    Job.objects.filter(state="RUNNING").update(time_s=None)
    for number in range(20):
        record_forecasts()
        assert not Forecast.objects.exclude(p10=None).exists() and lacks_run_times(waiting.pool_id)
        job = make.job(waiting.user, name=f"short {number}")
        ended = {"started_at": timezone.now() - timedelta(minutes=90), "ended_at": timezone.now()}
        Job.objects.filter(pk=job.pk).update(state="SUCCEEDED", **ended)
    client.force_login(waiting.user)
    Job.objects.filter(pk=job.pk).update(state="CANCELLED")
    assert "not known yet" in client.get(f"/j/{waiting.public_id}/").content.decode().lower()
    Job.objects.filter(pk=job.pk).update(state="SUCCEEDED")
    record_forecasts()
    assert Forecast.objects.get().p10 is not None and not lacks_run_times(waiting.pool_id)


@pytest.fixture
def one_is_enough(monkeypatch):
    monkeypatch.setattr(stored_forecasts, "LEAST_STARTS", 1)


def test_few_starts_are_no_score(waiting):
    record_forecasts()
    Forecast.objects.update(first_p90=timezone.now() - timedelta(minutes=1))
    assert measure_coverage() is None


def test_a_start_inside_the_range_counts_and_one_outside_does_not(waiting, one_is_enough):
    assert measure_coverage() is None
    record_forecasts()
    now = timezone.now()
    Forecast.objects.update(first_p10=now - timedelta(minutes=1), first_p90=now + timedelta(minutes=1))
    make.move(waiting.newest_tasks.get(), TaskState.ASSIGNED, assigned_at=now)
    record_forecasts()
    assert measure_coverage() == Coverage(1, 100)
    Forecast.objects.update(first_p90=now - timedelta(seconds=30))
    assert measure_coverage() == Coverage(1, 0)


def test_who_waits_beyond_its_range_is_counted_already(waiting, one_is_enough):
    record_forecasts()
    Forecast.objects.update(first_p90=timezone.now() - timedelta(minutes=1))
    assert measure_coverage() == Coverage(1, 0)


def test_ranges_are_wider_where_starts_of_the_past_were_later_than_theirs(waiting):
    """Of 30 jobs each started an hour after its range of 10 minutes."""
    begun = timezone.now() - timedelta(days=1)
    for number in range(30):
        made = begun + timedelta(minutes=10 * number)
        told = {"raw_p10": made, "raw_p90": made + timedelta(minutes=10), "started_at": made + timedelta(minutes=70)}
        Forecast.objects.create(job=waiting, attempt=100 + number, made_at=made, told_at=made, **told)
    record_forecasts()
    row = Forecast.objects.get(attempt=waiting.attempt)
    assert row.raw_p90 - timezone.now() < timedelta(minutes=61)
    assert row.first_p90 - timezone.now() > timedelta(hours=5)


def test_a_job_that_is_held_is_not_foretold(waiting):
    Job.objects.filter(pk=waiting.pk).update(held_at=timezone.now())
    record_forecasts()
    assert not Forecast.objects.exists()


def test_who_was_cancelled_while_waiting_is_forgotten(waiting):
    record_forecasts()
    make.end(waiting, TaskState.STOPPED, "stopped_by_user", None)
    record_forecasts()
    assert not Forecast.objects.exists()


def test_the_past_tells_how_long_jobs_run(waiting):
    assert load_run_times().ratios == (1.0,)
    before = Job.objects.get(state="RUNNING")
    make.end(before)
    now = timezone.now()
    Job.objects.filter(pk=before.pk).update(started_at=now - timedelta(minutes=30), ended_at=now)
    assert load_run_times().ratios == (0.5,)


def test_many_jobs_with_a_time_crowd_out_none_without(waiting, monkeypatch):
    monkeypatch.setattr(stored_forecasts, "PAST", 20)
    now = timezone.now()
    ended = {"state": "SUCCEEDED", "started_at": now - timedelta(minutes=30), "ended_at": now}
    for time in (None, "1h"):
        for _ in range(20):
            Job.objects.filter(pk=make.job(waiting.user, pool="train", time=time).pk).update(**ended)
    found = load_run_times()
    assert found.seconds == (1800.0,) * 20 and found.ratios == (0.5,) * 20
    Job.objects.filter(state="RUNNING").update(time_s=None)
    assert not lacks_run_times(waiting.pool_id)
