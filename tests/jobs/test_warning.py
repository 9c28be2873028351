"""Before its time limit a job is warned of: once for each attempt, and not when it has just begun."""

from datetime import timedelta

import pytest
from django.utils import timezone

from events.models import Event, Notice
from jobs.control import stop_job
from jobs.models import Job
from jobs.time_limit_warning import warn_of_ends
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
