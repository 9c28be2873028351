"""Sums of days: they hold what the holdings hold, to the last millisecond, however they came about."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.models import TaskUse, UsageDay, UsageSettled
from monitoring.models.usage_day import SUMS
from monitoring.reports.days import SETTLES_AFTER, STEP, rebuild_days, settle_days
from monitoring.reports.spans import find_midnight, split_periods
from monitoring.usage.report import OF_DAYS, Period, Sums, sum_days, sum_usage
from quotas.models import Holding
from tests import make

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = START + timedelta(days=10, hours=7)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
KEYS = ("day", "team__name", "user__username", "pool__name", "model", "simulated")
moment = st.integers(0, 10 * 86_400_000).map(lambda ms: START + timedelta(milliseconds=ms, microseconds=ms % 999))
times = st.integers(0, 10 * 86_400_000)
held = st.tuples(moment, moment, st.integers(1, 1000), st.booleans(), st.booleans(), times, times)


@pytest.fixture
def world():
    return make.cast()


def hold(world, begins, ends, *, milli=1000, person=None, task=None, gpu=0, **did) -> Holding:
    who = person or world.ada
    same = {"task": task or uuid4(), "team": world.vision if who == world.eve else world.nlp, "user": who}
    same |= {"pool": world.gpus[gpu].pool, "node": world.node, "held_from": begins, "released_at": ends}
    row = Holding.objects.create(**same, gpu=world.gpus[gpu], gpu_milli=milli)
    Holding.objects.create(**same, cpu_milli=1000)
    if did:
        TaskUse.objects.create(holding=row, run="r", up_ms=1, at=NOW, source="measured", **did)
    return row


def forget() -> None:
    for table in (UsageDay, UsageSettled, TaskUse, Holding):
        table.objects.all().delete()


def list_days() -> list[tuple]:
    return list(UsageDay.objects.order_by(*KEYS).values_list(*KEYS, *SUMS))


@given(st.lists(held, max_size=8), st.lists(moment, min_size=2, max_size=2), st.lists(moment, max_size=3))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reports_say_the_same_with_and_without_sums_of_days(world, rows, cuts, settled):
    forget()
    for one, other, milli, of_eve, lives, seen_ms, active_ms in rows:
        begins, ends = sorted((one, other))
        did = {"seen_ms": seen_ms, "active_ms": active_ms, "idle_ms": seen_ms // 3}
        who = world.eve if of_eve else None
        hold(world, begins, None if lives else ends, milli=milli, person=who, gpu=int(of_eve), **did)
    begins, ends = sorted(cuts)
    asked = [Period(begins, ends), Period(START, NOW + DAY), Period(begins, NOW + DAY)]
    before = [{by: sum_usage(by, period, NOW, None) for by in OF_DAYS} for period in asked]
    for at in sorted(settled):
        settle_days(now=at + SETTLES_AFTER)
    after = [{by: sum_usage(by, period, NOW, None) for by in OF_DAYS} for period in asked]
    for was, now in zip(before, after, strict=True):
        for by in OF_DAYS:
            assert {name: (sums.held, sums.tasks) for name, sums in now[by].items()} == {
                name: (sums.held, sums.tasks) for name, sums in was[by].items()
            }
            for name, sums in now[by].items():  # parts of a holding are rounded down in each day
                most = 1000 * 12 * len(rows)
                assert all(abs(getattr(sums, one) - getattr(was[by][name], one)) <= most for one in ("active", "idle"))
                assert min(sums.active, sums.paused, sums.idle, sums.unknown) >= 0


@given(st.lists(held, max_size=8))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_days_together_are_all_holdings_exactly(world, rows):
    forget()
    wanted = 0
    for one, other, milli, of_eve, _lives, seen_ms, active_ms in rows:
        begins, ends = sorted((one, other))
        who = world.eve if of_eve else None
        hold(world, begins, ends, milli=milli, person=who, seen_ms=seen_ms, active_ms=active_ms)
        ticks = [(at - START) // timedelta(milliseconds=1) for at in (begins, ends)]
        wanted += milli * (ticks[1] - ticks[0])
    settle_days(now=NOW + 20 * DAY)
    days = UsageDay.objects.all()
    assert sum(row.held for row in days) == wanted
    assert sum(row.begun for row in days) == sum(one != other or one != find_midnight(one) for one, other, *_ in rows)


@given(st.lists(held, min_size=1, max_size=6), st.lists(moment, max_size=4), st.integers(0, 11))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_days_made_in_steps_and_made_anew_are_the_same(world, rows, steps, first):
    forget()
    for one, other, milli, of_eve, _lives, seen_ms, active_ms in rows:
        begins, ends = sorted((one, other))
        who = world.eve if of_eve else None
        hold(world, begins, ends, milli=milli, person=who, seen_ms=seen_ms, active_ms=active_ms)
    for at in sorted(steps):
        settle_days(now=at + SETTLES_AFTER)
    settle_days(now=NOW + SETTLES_AFTER)
    made = list_days()
    call_command("rebuild_usage", "--from", str(START.date() + first * DAY), verbosity=0)
    assert list_days() == made
    assert made == [] or rebuild_days(date(2026, 1, 1)) == len(made)


def test_a_task_that_was_resized_and_ran_over_midnight_counts_once(world):
    task = uuid4()
    hold(world, START + 20 * HOUR, START + 23 * HOUR, task=task, milli=500)
    hold(world, START + 23 * HOUR, START + 50 * HOUR, task=task, milli=250)
    hold(world, START + 23 * HOUR, None, task=task, milli=250, gpu=1)
    days = [Period(START + i * DAY, START + (i + 1) * DAY) for i in range(4)]
    for at in (NOW - 20 * DAY, START + 2 * DAY, NOW):
        settle_days(now=at)
        assert [sums.tasks for sums in sum_days(days, NOW, None)] == [1, 1, 1, 1]
        assert [one.tasks for one in sum_usage("team", Period(START, NOW), NOW, None).values()] == [1]
    (later,) = sum_usage("user", Period(START + DAY, NOW), NOW, None).values()
    assert later.tasks == 1


def test_what_ended_lately_and_what_runs_is_in_no_sum_and_yet_in_reports(world):
    hold(world, NOW - 3 * HOUR, NOW - 2 * HOUR)
    hold(world, NOW - 3 * HOUR, NOW - HOUR / 2)
    hold(world, NOW - 3 * HOUR, None)
    settle_days(now=NOW)
    assert [row.held for row in UsageDay.objects.all()] == [1000 * 3_600_000]
    (sums,) = sum_usage("team", Period(START, NOW + DAY), NOW, None).values()
    assert (sums.count_hours("held"), sums.tasks) == (6.5, 3)


def test_only_teams_in_sight_are_read_from_days(world):
    hold(world, START, START + HOUR)
    hold(world, START, START + HOUR, person=world.eve)
    settle_days(now=NOW)
    assert set(sum_usage("user", Period(START, NOW), NOW, [world.nlp.pk])) == {"ada"}
    assert sum_usage("user", Period(START, NOW), NOW, []) == {}
    assert sum_days([Period(START, NOW)], NOW, [world.vision.pk])[0].tasks == 1


def test_many_weeks_are_settled_in_steps_until_the_time_is_up(world):
    hold(world, NOW - 5 * STEP, NOW - 4 * STEP)
    hold(world, NOW - 2 * DAY, NOW - DAY)
    assert settle_days(for_s=0, now=NOW) is False and UsageSettled.objects.get().settled_to < NOW - 2 * STEP
    assert settle_days(now=NOW) is True and UsageSettled.objects.get().settled_to == NOW - SETTLES_AFTER
    assert sum(row.begun for row in UsageDay.objects.all()) == 2


def test_nothing_ended_nothing_to_settle(world):
    hold(world, NOW - HOUR, None)
    assert settle_days(now=NOW) is True and not UsageSettled.objects.exists() and rebuild_days(date(2026, 1, 1)) == 0
    assert sum_usage("team", Period(START, NOW), NOW, None)["nlp"] != Sums()


@given(st.lists(moment, min_size=2, max_size=2, unique=True), moment)
def test_spans_and_days_cover_a_period_without_overlap(edges, now):
    begins, ends = sorted(edges)
    spans, days = split_periods([(begins, ends)], now)
    settled = [(span.begins, span.ends) for span in spans if span.of != "open"]
    settled += [tuple(datetime(*day.timetuple()[:3], tzinfo=UTC) for day in (one.first, one.until)) for one in days]
    parts = sorted(part for part in settled if part[0] < min(ends, now))
    if parts:
        assert parts[0][0] == begins and parts[-1][1] >= min(ends, now)
        assert all(before[1] == after[0] for before, after in pairwise(parts))
        assert ends >= now or parts[-1][1] == ends
