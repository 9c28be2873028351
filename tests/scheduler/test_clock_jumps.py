"""The clock jumps while rows have deadlines: none of them passes, and nothing is deleted."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.utils import timezone

from accounts.models import ApiToken
from accounts.services import create_token
from common import locks, steady_clock
from common.steady_clock import SteadyClock, steady_now
from jobs.models import IdempotencyKey, Job, Task
from jobs.states import JobState
from quotas.models import Holding
from scheduler.lease import acquire, record_success
from scheduler.loading.snapshots import load_world
from scheduler.models import Lease
from scheduler.tasks import sweep
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clocks(settings, monkeypatch):
    """This process's clock and the database's, which have gone on for a while."""
    settings.TESSERA_CLOCK_STEADY_S = 600
    mine = SteadyClock(lambda: datetime.now(UTC).timestamp(), lambda: settings.TESSERA_CLOCK_STEADY_S, lambda: 5.0)
    monkeypatch.setattr(steady_clock, "own_clock", mine)
    monkeypatch.setattr(locks, "own_clock", mine)
    steady_now()


def jumped(**by):
    return time_machine.travel(timezone.now() + timedelta(**by), tick=False)


def test_a_jump_of_a_day_deletes_nothing(settings):
    person = make.user("ada", make.team())
    IdempotencyKey.objects.create(user=person, key="k", fingerprint="f", kind="job", object_id=1)
    with jumped(days=1, hours=1):
        sweep()
    assert IdempotencyKey.objects.exists()
    settings.TESSERA_CLOCK_STEADY_S = 0
    with jumped(days=1, hours=1):
        sweep()
    assert not IdempotencyKey.objects.exists()


def test_a_token_outlives_a_jump(settings):
    person = make.user("ada", make.team())
    create_token(user=person, name="ci", scopes=["jobs:read"], days=1)
    with jumped(days=1, hours=1):
        assert ApiToken.objects.live().exists() and not ApiToken.objects.get().is_expired
        settings.TESSERA_CLOCK_STEADY_S = 0
        assert not ApiToken.objects.live().exists() and ApiToken.objects.get().is_expired


@pytest.mark.parametrize("hours", [1, -1, 24, -24])
def test_a_window_that_is_open_stays_open(hours):
    cast, now = make.cast(), timezone.now()
    begins, ends = now - timedelta(minutes=10), now + timedelta(minutes=40)
    make.window(cast.dev, cast.train, weekdays=str(begins.isoweekday()), begins=begins.time(), ends=ends.time())
    before = load_world().snapshot.windows
    with jumped(hours=hours):
        assert load_world().snapshot.windows == before
    assert before


def test_the_jump_is_put_down_for_the_admin():
    epoch = acquire("cycle")
    with jumped(hours=1):
        steady_now()
        record_success("cycle", epoch, 3)
        assert abs(Lease.objects.get().clock_jump_s - 3600) < 5
    steady_now()
    record_success("cycle", epoch, 3)
    assert Lease.objects.get().clock_jump_s == 0


@pytest.mark.parametrize("hours", [1, 24])
def test_a_job_ends_and_frees_its_card_while_the_clock_is_set_back(hours):
    job = make.job(make.cast().ada, gpu="1/4")
    make.start(job)
    later = timezone.now() + timedelta(hours=hours)  # when it began, by the clock of then
    Job.objects.update(started_at=later)
    Task.objects.update(started_at=later, assigned_at=later)
    Holding.objects.update(held_from=later)
    ended = make.end(job)
    task = ended.newest_tasks.get()
    assert (ended.state, ended.ended_at, task.ended_at) == (JobState.SUCCEEDED, later, later)
    assert not Holding.objects.live().exists()
