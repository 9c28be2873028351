"""The worker dies at any statement, and at any moment, while the ladder is climbed on an accelerated clock."""

import os
import random
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing import get_context

import pytest
from django.db import connection, transaction

from events.models import Event, Notice
from jobs.models import Job
from monitoring.idle.telling import mark_shown
from monitoring.idle.watching import follow_idle
from monitoring.models import IdleRule, IdleTold, IdleWatch
from tests import make
from tests.monitoring.idle.world import pass_time, run_for, sample
from tests.whole import WHOLE

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
ROUNDS, DEATHS_A_ROUND, MOST_STATEMENTS = 10, 4, 45
DEAD_WITHIN_S = 10
KILLED_ROUNDS, LONGEST_S = 4, 0.4
KILLED = "killed"
"""What the connection of a process that is to be killed calls itself: other tests' processes may connect as well."""
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


@pytest.mark.parametrize("seed", [1, 2] if WHOLE else [1])
def test_no_rung_twice_none_skipped_and_none_without_its_notice(seed):
    dice = random.Random(seed)
    assert climb(dice, lambda: look_and_die(dice.randrange(MOST_STATEMENTS))) > ROUNDS * 8


@pytest.mark.django_db(transaction=True)
def test_a_process_killed_at_any_moment_climbs_the_same_ladder():
    dice, climbed, longest_s = random.Random(3), [], max(LONGEST_S, 2 * measure_look_s())

    def die() -> bool:
        before, killed = count_rungs(), look_until_killed(dice.uniform(0, longest_s))
        climbed.append(count_rungs() - before)
        return killed

    assert climb(dice, die, KILLED_ROUNDS) == KILLED_ROUNDS * 5 * DEATHS_A_ROUND
    assert any(climbed)  # so they were killed around rungs, not only before the first statement


def count_rungs() -> int:
    return Event.objects.filter(kind="job", verb__in=CLIMB).count()


def measure_look_s() -> float:
    """Return how long a process takes from its start through one look, on a machine as busy as this one is."""
    began, worker = time.monotonic(), get_context("fork").Process(target=look_once)
    worker.start()
    worker.join()
    return time.monotonic() - began


def look_until_killed(after_s: float) -> bool:
    """Look again and again in a process of its own, and kill it with SIGKILL; return whether it was at it."""
    worker = get_context("fork").Process(target=look_for_ever)
    worker.start()
    worker.join(after_s)
    worker.kill()
    worker.join()
    until = time.monotonic() + DEAD_WITHIN_S
    while is_there() and time.monotonic() < until:  # the server ends what it was asked, and then sees it
        time.sleep(0.002)
    return worker.exitcode == -signal.SIGKILL


def look_once() -> None:
    os.environ["PGAPPNAME"] = KILLED
    connection.connection = None  # is the parent's: psycopg closes it in the process that opened it, and nowhere else
    follow_idle()


def look_for_ever() -> None:
    look_once()
    while True:
        follow_idle()


def is_there() -> bool:
    """Whether the server still works for a process that was killed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_stat_activity WHERE application_name = %s", [KILLED])
        return cursor.rowcount > 0


def climb(dice: random.Random, die: Callable[[], bool], rounds: int = ROUNDS) -> int:
    """Climb the whole ladder so many times, dying before each rung; return how many deaths there were."""
    cast, deaths = make.cast(), 0
    minutes = {"note_min": 30, "remind_min": 40, "warn_min": 50, "act_min": 60, "then": "stop"}
    IdleRule.objects.create(kind="batch", changed_at="2020-01-01T00:00Z", **minutes)
    for round_no in range(rounds):
        job = make.job(cast.ada, gpu="1/8", pool="dev")
        make.start(job, cast.gpus[0])
        sample(run_for(job, 120), 31)
        for _ in range(len(CLIMB) + 1):
            for _ in range(DEATHS_A_ROUND):
                deaths += die()
            follow_idle()
            assert_climbed_in_order(job)
            if dice.random() < 0.8:
                mark_shown(cast.ada.pk)
            pass_time(job, 10.5)
        for _ in range(4):  # whatever was not seen at once
            mark_shown(cast.ada.pk)
            follow_idle()
            pass_time(job, 10.5)
        assert list_verbs(job) == CLIMB, round_no
        assert Job.objects.get(pk=job.pk).stop_reason == "idle"
        make.end(job, "STOPPED", "idle", None)
    return deaths


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
