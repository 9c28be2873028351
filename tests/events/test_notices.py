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


def end_quickly(person, step=TaskState.SUCCEEDED, **spec) -> list[tuple[str, int, bool]]:
    """(kind, person, whether by mail) of what is told of a job that starts at once and ends."""
    job = make.job(person, pool="dev", **spec)
    make.start(job)
    make.end(job, step, "" if step == TaskState.SUCCEEDED else "exit_nonzero")
    told = Notice.objects.filter(object_id=job.pk).order_by("kind", "user_id")
    return [(notice.kind, notice.user_id, notice.due_at is not None) for notice in told]


def test_who_asked_in_the_job_file_is_told_by_mail_too_whatever_they_chose(cast):
    choose_channels(user_id=cast.ada.pk, choices={"job_succeeded": Channels(False, False)})
    assert end_quickly(cast.ada) == []
    assert end_quickly(cast.ada, notify="success") == [("job_succeeded", cast.ada.pk, True)]
    started = [("job_started", cast.ada.pk, True)]
    assert end_quickly(cast.ada, notify="start") == started
    assert end_quickly(cast.ada, TaskState.FAILED, notify="start") == [("job_failed", cast.ada.pk, True), *started]


def test_others_are_told_as_they_chose_and_not_once_they_left(cast):
    others = {"notify": {"when": "failure", "to": ["bob", "ada", "bob"]}}
    both = [("job_failed", cast.ada.pk, True), ("job_failed", cast.bob.pk, True)]
    assert end_quickly(cast.ada, TaskState.FAILED, **others) == both
    assert end_quickly(cast.ada, **others) == [("job_succeeded", cast.ada.pk, False)]
    choose_channels(user_id=cast.bob.pk, choices={"job_failed": Channels(False, False)})
    assert end_quickly(cast.ada, TaskState.FAILED, **others) == both[:1]
    choose_channels(user_id=cast.bob.pk, choices={"job_failed": Channels(True, True)})
    job = make.job(cast.ada, pool="dev", **others)
    cast.bob.memberships.all().delete()
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero")
    assert not Notice.objects.filter(object_id=job.pk, user_id=cast.bob.pk).exists()


def test_whom_a_job_file_names_is_of_the_team(cast):
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", notify={"to": ["bob", "eve", "nobody"]})
    assert [(error.pointer, error.code) for error in refused.value.errors] == [
        ("/notify/to/1", "not_in_team"),
        ("/notify/to/2", "not_in_team"),
    ]


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
