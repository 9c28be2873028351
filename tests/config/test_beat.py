"""The beat goes by the monotonic clock: one that is set back by a day does not stop it for a day."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import time_machine
from celery.beat import ScheduleEntry

from common import steady_clock
from config.celery import app
from config.heartbeat import AliveBeat
from monitoring.models import ProcessNow
from tests.runtimes.worlds import wait_for


@pytest.mark.parametrize("hours", [1, -1, 24, -24])
def test_what_is_due_each_second_stays_due_when_the_clock_jumps(hours, monkeypatch):
    monotonic = [100.0]
    monkeypatch.setattr(steady_clock, "time", SimpleNamespace(monotonic=lambda: monotonic[0]))
    entry = ScheduleEntry("cycle", app=app, **app.conf.beat_schedule["cycle"])
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
        assert not entry.is_due()[0]
        monotonic[0] += 1.1
        assert entry.is_due()[0]
        again = entry.next()
        assert not again.is_due()[0] and again.is_due()[1] <= 1


def test_every_period_is_measured_so():
    for one in app.conf.beat_schedule.values():
        assert one["schedule"].nowfun is steady_clock.unbroken_now and one["schedule"].run_every > timedelta(0)


@pytest.mark.django_db(transaction=True)
def test_a_beat_that_ends_as_it_should_is_not_missed():
    beat = AliveBeat(app, lazy=False)
    wait_for(lambda: ProcessNow.objects.filter(role="beat").exists())
    beat.close()
    assert not ProcessNow.objects.filter(role="beat").exists()
