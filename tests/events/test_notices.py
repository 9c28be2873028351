"""People hear of what they chose to hear of, once, and mark it read."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from common.errors import InvalidInput
from events.models import Notice
from events.notices import KINDS, Channels, choose_channels, count_unread, load_choices, mark_read, notify
from jobs.control import retry_job
from jobs.models import Job
from jobs.states import TaskState
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


def wait(job: Job, seconds: int) -> Job:
    """Let a job have waited in the queue for so long."""
    since = Now() - timedelta(seconds=seconds)
    Job.objects.filter(pk=job.pk).update(queued_at=since, eligible_at=since)
    return job


def test_a_job_that_starts_and_fails_is_told_to_its_owner_alone(cast):
    job = wait(make.job(cast.ada, pool="dev", name="train"), 90)
    make.start(job)
    make.end(job, TaskState.FAILED, "out_of_memory", exit_code=None)
    kinds = [(notice.kind, notice.user_id, notice.label) for notice in Notice.objects.order_by("pk")]
    assert kinds == [("job_started", cast.ada.pk, job.public_id), ("job_failed", cast.ada.pk, job.public_id)]
    failed = Notice.objects.get(kind="job_failed")
    assert failed.params == {"name": "train", "reason": "out_of_memory"} and failed.due_at is not None


@pytest.mark.parametrize(("seconds", "told"), [(0, 0), (50, 0), (60, 1), (3600, 1)])
def test_a_start_is_told_only_after_a_wait(cast, seconds, told):
    make.start(wait(make.job(cast.ada, pool="dev"), seconds))
    assert Notice.objects.filter(kind="job_started").count() == told


def test_a_retry_that_starts_at_once_is_not_told_however_long_ago_it_was_submitted(cast):
    job = wait(make.job(cast.ada, pool="dev"), 90)
    Job.objects.filter(pk=job.pk).update(submitted_at=Now() - timedelta(days=2))
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero", exit_code=1)
    retry_job(actor=cast.ada, job=Job.objects.get(pk=job.pk))
    make.start(Job.objects.get(pk=job.pk))
    assert Notice.objects.filter(kind="job_started").count() == 1


def test_success_is_told_to_all_but_those_who_chose_it_away(cast):
    for person, told in ((cast.ada, True), (cast.bob, False)):
        if not told:
            choose_channels(user_id=person.pk, choices={"job_succeeded": Channels(portal=False, mail=False)})
        job = make.job(person, pool="dev")
        make.start(job)
        make.end(job)
        assert Notice.objects.filter(user_id=person.pk, kind="job_succeeded").exists() is told


def test_what_is_chosen_away_makes_no_row_and_only_mail_is_not_in_the_bell(cast):
    job = make.job(cast.ada, pool="dev")
    choose_channels(user_id=cast.ada.pk, choices={"job_failed": Channels(False, False)})
    assert notify(user_id=cast.ada.pk, kind="job_failed", about=job) is None
    choose_channels(user_id=cast.ada.pk, choices={"job_failed": Channels(portal=False, mail=True)})
    assert notify(user_id=cast.ada.pk, kind="job_failed", about=job).due_at is not None
    assert count_unread(cast.ada.pk) == 0


def test_reading_counts_down_and_never_touches_anothers(cast):
    job = make.job(cast.ada, pool="dev")
    first, _second = (notify(user_id=cast.ada.pk, kind="job_started", about=job) for _ in range(2))
    notify(user_id=cast.bob.pk, kind="job_started", about=job)
    assert mark_read(user_id=cast.bob.pk, ids=[first.pk]) == 0 and count_unread(cast.ada.pk) == 2
    assert mark_read(user_id=cast.ada.pk, ids=[first.pk]) == 1 and count_unread(cast.ada.pk) == 1
    assert mark_read(user_id=cast.ada.pk) == 1 and count_unread(cast.bob.pk) == 1


def test_choices_are_whole_and_a_kind_that_is_none_is_refused(cast):
    assert load_choices(cast.ada.pk) == KINDS
    with pytest.raises(InvalidInput):
        choose_channels(user_id=cast.ada.pk, choices={"job_flew": Channels(True, True)})
