"""People hear of what they chose to hear of, once, and mark it read."""

import pytest

from common.errors import InvalidInput
from events.models import Notice
from events.notices import KINDS, Channels, choose_channels, count_unread, load_choices, mark_read, notify
from jobs.states import TaskState
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


def test_a_job_that_starts_and_fails_is_told_to_its_owner_alone(cast):
    job = make.job(cast.ada, pool="dev", name="train")
    make.start(job)
    make.end(job, TaskState.FAILED, "out_of_memory", exit_code=None)
    kinds = [(notice.kind, notice.user_id, notice.label) for notice in Notice.objects.order_by("pk")]
    assert kinds == [("job_started", cast.ada.pk, job.public_id), ("job_failed", cast.ada.pk, job.public_id)]
    failed = Notice.objects.get(kind="job_failed")
    assert failed.params == {"name": "train", "reason": "out_of_memory"} and failed.due_at is not None


def test_success_is_told_only_to_those_who_chose_it(cast):
    for person, told in ((cast.ada, False), (cast.bob, True)):
        if told:
            choose_channels(user_id=person.pk, choices={"job_succeeded": Channels(portal=True, mail=False)})
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
