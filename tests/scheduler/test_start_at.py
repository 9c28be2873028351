"""Jobs that ask for a moment: they wait for it, hold up nobody until then, and are no older for it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.jobfile.parse import parse_spec
from jobs.models import Job
from jobs.states import JobState
from scheduler import tasks
from scheduler.preview.preview import plan_job
from tests import make
from tests.one_cycle import decide

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tonight() -> str:
    return (timezone.now() + timedelta(hours=8)).isoformat(timespec="seconds")


def test_it_starts_once_its_moment_has_come(bob, tonight):
    job = make.job(bob, pool="train", gpu=4, start_at=tonight)
    other = make.job(bob, pool="train", gpu=4, nodes=8)
    tasks.cycle()
    job.refresh_from_db()
    assert [reason["code"] for reason in job.wait_reasons] == ["start_after"]
    assert Job.objects.get(pk=other.pk).state == JobState.STARTING
    make.end(other)
    Job.objects.filter(pk=job.pk).update(not_before=timezone.now() - timedelta(seconds=1))
    tasks.cycle()
    assert Job.objects.get(pk=job.pk).state == JobState.STARTING


def test_who_was_submitted_a_month_ahead_is_as_old_as_its_moment(bob):
    early, usual = (make.job(bob, pool="train", gpu=4, nodes=8) for _ in range(2))
    month, hour = (timezone.now() - timedelta(**ago) for ago in ({"days": 30}, {"hours": 1}))
    Job.objects.filter(pk=early.pk).update(submitted_at=month, eligible_at=timezone.now())
    Job.objects.filter(pk=usual.pk).update(submitted_at=hour, eligible_at=hour)
    first = decide(now=timezone.now().timestamp())[0]
    assert first.job_id == usual.pk


def test_a_draft_is_told_that_moment(bob, tonight):
    answer = plan_job(
        bob, parse_spec({"run": "true", "name": "a plan", "pool": "train", "gpu": 1, "start_at": tonight})
    )
    assert answer.outcome == "waits" and answer.reasons[0]["code"] == "start_after"
    assert abs(answer.outlook.start.p50 - timezone.now() - timedelta(hours=8)) < timedelta(minutes=2)


def test_who_waits_too_long_is_cancelled_by_the_beat(bob):
    job = make.job(bob, pool="train", gpu=4, nodes=9, wait_max="1h")
    Job.objects.filter(pk=job.pk).update(give_up_at=timezone.now() - timedelta(seconds=1))
    tasks.cancel_late_jobs()
    assert Job.objects.get(pk=job.pk).state == JobState.CANCELLED
