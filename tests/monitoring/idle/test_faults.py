"""The worker dies at any statement, again and again, while the ladder is climbed on an accelerated clock."""

import random
from itertools import pairwise

import pytest
from django.db import connection, transaction

from events.models import Event, Notice
from jobs.models import Job
from monitoring.idle.telling import mark_shown
from monitoring.idle.watching import follow_idle
from monitoring.models import IdleRule, IdleTold, IdleWatch
from tests import make
from tests.monitoring.idle.world import pass_time, run_for, sample

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
ROUNDS, DEATHS_A_ROUND, MOST_STATEMENTS = 10, 4, 45
CLIMB = ["idle_noticed", "idle_reminded", "idle_warned", "idle_acted"]


class Killed(BaseException):
    """As by kill -9: nobody catches it, and the open transaction is rolled back."""


class Death:
    """Lets so many statements pass."""

    def __init__(self, after: int):
        self.left = after

    def __call__(self, execute, sql, params, many, context):
        self.left -= 1
        if self.left < 0 and not sql.startswith(("ROLLBACK", "RELEASE", "SAVEPOINT")):
            raise Killed
        return execute(sql, params, many, context)


def look_and_die(after: int) -> bool:
    """Look once, and die at a statement. Returns whether it died."""
    try:
        with transaction.atomic(), connection.execute_wrapper(Death(after)):
            follow_idle()
    except Killed:
        return True
    return False


@pytest.mark.parametrize("seed", [1, 2])
def test_no_rung_twice_none_skipped_and_none_without_its_notice(seed):
    dice, cast, deaths = random.Random(seed), make.cast(), 0
    minutes = {"note_min": 30, "remind_min": 40, "warn_min": 50, "act_min": 60, "then": "stop"}
    IdleRule.objects.create(kind="batch", changed_at="2020-01-01T00:00Z", **minutes)
    for round_no in range(ROUNDS):
        job = make.job(cast.ada, gpu="1/8", pool="dev")
        make.start(job, cast.gpus[0])
        sample(run_for(job, 120), 31)
        for _ in range(len(CLIMB) + 1):
            for _ in range(DEATHS_A_ROUND):
                deaths += look_and_die(dice.randrange(MOST_STATEMENTS))
            follow_idle()
            assert_climbed_in_order(job)
            if dice.random() < 0.8:
                mark_shown(cast.ada.pk)
            pass_time(job, 10.5)
            follow_idle()
        for _ in range(4):  # whatever was not seen at once
            mark_shown(cast.ada.pk)
            follow_idle()
            pass_time(job, 10.5)
        assert list_verbs(job) == CLIMB, round_no
        assert Job.objects.get(pk=job.pk).stop_reason == "idle"
        make.end(job, "STOPPED", "idle", None)
    assert deaths > ROUNDS * 8


def list_verbs(job: Job) -> list[str]:
    events = Event.objects.filter(kind="job", object_id=job.pk, verb__in=CLIMB)
    return list(events.order_by("seq").values_list("verb", flat=True))


def assert_climbed_in_order(job: Job) -> None:
    verbs = list_verbs(job)
    assert verbs == CLIMB[: len(verbs)]
    told = list(IdleTold.objects.filter(watch=job.pk, user=job.user).order_by("rung").values_list("rung", "notice_id"))
    assert [rung for rung, _ in told] == list(range(1, len(verbs) + 1))
    assert Notice.objects.filter(pk__in=[notice for _, notice in told]).count() == len(verbs)
    times = list(Event.objects.filter(kind="job", object_id=job.pk, verb__in=CLIMB).order_by("seq").values_list("at"))
    assert all(before <= after for before, after in pairwise(times))
    watch = IdleWatch.objects.filter(pk=job.pk).first()
    assert (watch.rung if watch else 0) == len(verbs)
    assert (Job.objects.get(pk=job.pk).stop_requested_at is not None) == (len(verbs) == len(CLIMB))
