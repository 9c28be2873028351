"""GPU time by group: whatever it is grouped by and however a period is cut, it adds up to what was held."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.models import TaskUse, TaskUseNow
from monitoring.usage.report import GROUPS, HOUR_MILLI_MS, Period, Sums, sum_days, sum_usage
from quotas.models import Holding
from tests import make

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = START + timedelta(days=10)
HOUR = timedelta(hours=1)
moment = st.integers(0, 10 * 86_400_000).map(lambda ms: START + timedelta(milliseconds=ms, microseconds=ms % 999))
times = st.integers(0, 10 * 86_400_000)
held = st.tuples(moment, moment, st.integers(1, 1000), st.booleans(), st.integers(0, 1), times, times, times)


@pytest.fixture
def world():
    return make.cast()


def hold(world, begins, ends, *, milli=1000, person=None, gpu=0, **did) -> Holding:
    who = person or world.ada
    team = world.vision if who == world.eve else world.nlp
    same = {"task": uuid4(), "team": team, "user": who, "pool": world.gpus[gpu].pool, "node": world.node}
    row = Holding.objects.create(**same, gpu=world.gpus[gpu], gpu_milli=milli, held_from=begins, released_at=ends)
    Holding.objects.create(**same, cpu_milli=1000, held_from=begins, released_at=ends)
    if did:
        TaskUse.objects.create(holding=row, run="r", up_ms=1, at=NOW, source="measured", **did)
    return row


def count_ms(begins: datetime, ends: datetime) -> int:
    ticks = [(at - START) // timedelta(milliseconds=1) for at in (begins, ends)]
    return max(ticks[1] - ticks[0], 0)


def add(found) -> Sums:
    return sum(found, Sums())


@given(st.lists(held, max_size=6), st.lists(moment, min_size=3, max_size=3))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_grouping_adds_up_to_the_holdings_exactly(world, rows, cuts):
    Holding.objects.all().delete()
    begins, middle, ends = sorted(cuts)
    wanted = 0
    for one, other, milli, of_eve, gpu, seen_ms, active_ms, idle_ms in rows:
        since, until = sorted((one, other))
        did = {"seen_ms": seen_ms, "active_ms": active_ms, "idle_ms": idle_ms}
        hold(world, since, until, milli=milli, person=world.eve if of_eve else None, gpu=gpu, **did)
        wanted += milli * count_ms(max(since, begins), min(until, ends))
    for by in GROUPS:
        total = add(sum_usage(by, Period(begins, ends), NOW, None).values())
        assert total.held == wanted
        assert min(total.active, total.paused, total.idle, total.unknown) >= 0
    days = sum_days([Period(begins, middle), Period(middle, ends)], NOW, None)
    assert add(days).held == wanted
    teams = [
        add(sum_usage("team", Period(begins, ends), NOW, [team.pk]).values()) for team in (world.nlp, world.vision)
    ]
    assert add(teams).held == wanted


def test_a_holding_counts_in_a_period_in_proportion(world):
    did = {"seen_ms": 3 * 3_600_000, "active_ms": 3_600_000, "idle_ms": 3_600_000, "busy_ms": 1_800_000}
    hold(world, START, START + 4 * HOUR, milli=500, **did)
    (sums,) = sum_usage("team", Period(START + 2 * HOUR, START + 10 * HOUR), NOW, None).values()
    hours = {name: sums.count_hours(name) for name in ("held", "active", "paused", "idle", "unknown", "busy")}
    assert hours == {"held": 1, "active": 0.25, "paused": 0.25, "idle": 0.25, "unknown": 0.25, "busy": 0.25}


def test_what_runs_counts_up_to_now_and_what_nobody_saw_is_unknown(world):
    row = hold(world, NOW - 2 * HOUR, None)
    (sums,) = sum_usage("job", Period(START, NOW + HOUR), NOW, None).values()
    assert (sums.held, sums.unknown, sums.tasks, sums.simulated) == (2 * HOUR_MILLI_MS, sums.held, 1, True)
    newest = {"run": "r", "up_ms": 1, "at": NOW, "source": "measured", "seen_ms": 3_600_000, "active_ms": 3_600_000}
    TaskUse.objects.create(holding=row, **newest | {"active_ms": 0})
    TaskUseNow.objects.create(holding=row, **newest)
    (sums,) = sum_usage("model", Period(START, NOW + HOUR), NOW, None).values()
    assert (sums.active, sums.unknown) == (HOUR_MILLI_MS, HOUR_MILLI_MS)


def test_groups_have_their_names_and_the_largest_is_first(world):
    hold(world, START, START + HOUR)
    hold(world, START, START + 3 * HOUR, person=world.eve, gpu=1)
    names = {by: list(sum_usage(by, Period(START, NOW), NOW, None)) for by in GROUPS}
    assert names == {
        "team": ["vision", "nlp"],
        "user": ["eve", "ada"],
        "pool": ["train", "dev"],
        "model": ["V100-32GB"],
        "job": [""],
    }
