"""Limits of time: of a run, of which one is warned, of a wait that is cancelled, and moments that are waited for."""

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from common.errors import InvalidInput
from events.models import Event, Notice
from jobs.changing import change_job
from jobs.control import retry_job, stop_job
from jobs.models import Job
from jobs.states import JobState, TaskState
from jobs.time_limits import give_up_waits, warn_of_ends
from portal.wording.notices import view_notice
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


def running(person, *, max_time: str, since: timedelta, **spec) -> Job:
    job = make.job(person, pool="dev", max_time=max_time, **spec)
    make.start(job)
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - since)
    return job


def test_a_job_is_warned_of_once_with_the_time_of_its_end(cast):
    job = running(cast.ada, max_time="2h", since=timedelta(minutes=110), name="train")
    for _ in range(2):
        warn_of_ends()
    notice = Notice.objects.get(kind="about_to_end")
    shown = view_notice(notice)
    assert (notice.user_id, shown.title) == (cast.ada.pk, f"train ({job.public_id}) is about to end")
    assert shown.text.startswith("The job reaches its time limit at ") and shown.path == f"/j/{job.public_id}/"
    assert Event.objects.get(verb="about_to_end").type == "job.about_to_end"


@pytest.mark.parametrize(
    ("max_time", "minutes"),
    [("2h", 100), ("2h", 121), ("20m", 10)],
    ids=["there is time", "it is over", "its whole time is short"],
)
def test_there_is_no_warning_too_early_too_late_or_for_the_short(cast, max_time, minutes):
    running(cast.ada, max_time=max_time, since=timedelta(minutes=minutes))
    warn_of_ends()
    assert not Notice.objects.filter(kind="about_to_end").exists()


def test_one_that_is_being_stopped_is_not_warned_of(cast):
    job = running(cast.ada, max_time="2h", since=timedelta(minutes=110))
    stop_job(actor=cast.ada, job=job)
    warn_of_ends()
    assert not Notice.objects.filter(kind="about_to_end").exists()


def test_the_next_attempt_is_warned_of_again(cast):
    job = running(cast.ada, max_time="2h", since=timedelta(minutes=110))
    warn_of_ends()
    Event.objects.filter(verb="about_to_end").update(at=job.submitted_at - timedelta(hours=2))  # before this start
    warn_of_ends()
    assert Notice.objects.filter(kind="about_to_end").count() == 2


def late(person, *, wait_max: str = "1h", **spec) -> Job:
    """A job that has waited longer than it may."""
    job = make.job(person, pool="dev", wait_max=wait_max, **spec)
    Job.objects.filter(pk=job.pk).update(give_up_at=timezone.now() - timedelta(seconds=1))
    return job


def test_who_waited_too_long_is_cancelled_and_told_why(cast):
    job, patient = late(cast.ada), make.job(cast.ada, pool="dev", wait_max="1h")
    give_up_waits()
    job.refresh_from_db()
    assert (job.state, job.reason) == (JobState.CANCELLED, "waited_too_long")
    assert Job.objects.get(pk=patient.pk).state == JobState.QUEUED
    assert patient.give_up_at is None and Job.objects.get(pk=patient.pk).give_up_at > timezone.now()


def test_who_has_started_once_is_never_given_up(cast):
    job = make.job(cast.ada, pool="dev", wait_max="1h")
    (task,) = make.start(job)
    job.refresh_from_db()
    assert job.give_up_at is None
    make.move(task, TaskState.STOPPING, "preempted")
    make.move(task, TaskState.STOPPED, "preempted")
    give_up_waits()
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_a_retry_waits_as_long_again(cast):
    job = late(cast.ada)
    give_up_waits()
    retry_job(actor=cast.ada, job=Job.objects.get(pk=job.pk))
    job.refresh_from_db()
    assert timedelta(minutes=59) < job.give_up_at - timezone.now() <= timedelta(hours=1)


def test_the_wait_is_counted_from_the_start_that_was_asked_for(cast):
    tonight = (timezone.now() + timedelta(hours=8)).replace(microsecond=0)
    job = make.job(cast.ada, pool="dev", start_at=tonight.isoformat(), wait_max="1h")
    job.refresh_from_db()
    assert (job.eligible_at, job.not_before) == (tonight, tonight)
    assert job.give_up_at == tonight + timedelta(hours=1)


def test_a_start_that_has_passed_keeps_nobody(cast):
    job = make.job(cast.ada, pool="dev", start_at="2020-01-01T22:00+08:00")
    job.refresh_from_db()
    assert (job.not_before, job.eligible_at) == (None, job.submitted_at)


def test_a_start_more_than_a_year_ahead_is_refused(cast):
    far = (timezone.now() + timedelta(days=400)).isoformat(timespec="seconds")
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", start_at=far)
    assert [(error.pointer, error.code) for error in refused.value.errors] == [("/start_at", "start_too_far")]


def test_a_changed_start_moves_the_wait_and_nothing_else_does(cast):
    job = make.job(cast.ada, pool="dev", wait_max="2h")
    tonight = (timezone.now() + timedelta(hours=8)).replace(microsecond=0)
    change = partial(change_job, actor=cast.ada, check=lambda draft: None, containers=False)
    change(job=Job.objects.get(pk=job.pk), changes={"start_at": tonight.isoformat()})
    moved = Job.objects.get(pk=job.pk)
    assert (moved.not_before, moved.give_up_at) == (tonight, tonight + timedelta(hours=2))
    change(job=moved, changes={"time": "1h"})
    assert Job.objects.get(pk=job.pk).not_before == tonight
    change(job=Job.objects.get(pk=job.pk), changes={"start_at": None})
    moved = Job.objects.get(pk=job.pk)
    assert (moved.not_before, moved.eligible_at) == (None, moved.submitted_at)
