"""Cards lent for a while, by the real cycle on the real database: who gets them, and who gets them back."""

import time
from datetime import UTC, datetime
from datetime import time as hour
from math import inf

import pytest
import time_machine

from cluster.models import Gpu
from jobs.states import JobState
from scheduler.core.model.lending import find_reach_at
from scheduler.core.model.requests import OWN_POOL, list_windows
from scheduler.loading.lending_and_maintenance import is_lent
from scheduler.loading.snapshots import load_world
from tests import make
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)
CARD = {"gpu": "1", "run": "sleep 60"}


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def night(local):
    """dev lends its card to train around the clock, until a test closes the window."""
    dev, train = make.pool("dev"), make.pool("train")
    cards = Gpu.objects.order_by("index")
    Gpu.objects.filter(pk=cards[0].pk).update(pool=dev)
    Gpu.objects.filter(pk=cards[1].pk).update(pool=train)
    return make.window(dev, train)


def test_a_borrower_runs_on_a_lent_card_and_leaves_it_when_the_window_has_closed(night, ada):
    first, second = (drive(make.job(ada, pool="train", preemptible=True, **CARD), JobState.RUNNING) for _ in range(2))
    cards = {job.tasks.get().cards[0]["index"] for job in (first, second)}
    assert cards == {0, 1}
    night.delete()
    owner = drive(make.job(ada, pool="dev", **CARD), JobState.RUNNING)
    assert owner.tasks.get().cards[0]["index"] == Gpu.objects.get(pool__name="dev").index
    ended = [job.tasks.get(attempt=1) for job in (first, second)]
    assert sorted(task.reason for task in ended) == ["", "window_closed"]


def test_the_allocating_transaction_believes_no_window_that_has_closed_meanwhile(night, ada, monkeypatch):
    drive(make.job(ada, pool="train", **CARD), JobState.RUNNING)
    monkeypatch.setattr("scheduler.commit.starting.is_lent", lambda *_: False)
    late = make.job(ada, pool="train", preemptible=True, **CARD)
    with pytest.raises(AssertionError, match="QUEUED"):
        drive(late, JobState.RUNNING, seconds=1)


@pytest.mark.parametrize(
    ("said", "lent"),
    [({"time": "1h"}, True), ({"time": "3h"}, False), ({}, False), ({"preemptible": True}, True)],
)
def test_who_ends_in_time_or_may_be_stopped_may_use_what_is_lent(cast, said, lent):
    make.window(cast.dev, cast.train, weekdays="1", begins=hour(20), ends=hour(22))
    with time_machine.travel(datetime(2026, 11, 23, 20, 30, tzinfo=UTC), tick=False):
        make.job(cast.ada, pool="train", gpu="1", run="true", **said)
        world = load_world()
        [job] = world.snapshot.waiting
        open_now = [number for number, window in enumerate(world.snapshot.windows) if window.begins_at <= time.time()]
        reach = find_reach_at(world.snapshot, job, time.time())
    assert [world.snapshot.windows[number].gpus for number in open_now] == [(0,)]  # of its two cards the one in dev
    assert list_windows(reach) == (open_now if lent else [])


@pytest.mark.parametrize(
    ("at", "for_s", "lent"), [(20, 7200, True), (21, 3601, False), (21, inf, False), (22, 0, False)]
)
def test_a_start_asks_whether_a_card_is_lent_for_as_long_as_its_job_stays(cast, at, for_s, lent):
    make.window(cast.dev, cast.train, weekdays="1", begins=hour(20), ends=hour(22))
    assert is_lent(cast.dev.pk, cast.train.pk, datetime(2026, 11, 23, at, tzinfo=UTC), for_s) is lent


def test_outside_of_the_hours_nothing_is_lent(cast):
    make.window(cast.dev, cast.train, weekdays="1", begins=hour(20), ends=hour(22))
    with time_machine.travel(datetime(2026, 11, 23, 22, 0, tzinfo=UTC), tick=False):
        make.job(cast.ada, pool="train", gpu="1", run="true", preemptible=True)
        world = load_world()
        assert find_reach_at(world.snapshot, world.snapshot.waiting[0], time.time()) == OWN_POOL
    assert [datetime.fromtimestamp(window.begins_at, UTC).day for window in world.snapshot.windows] == [30, 7]
