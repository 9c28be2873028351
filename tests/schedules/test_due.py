"""What is due of a schedule, after an outage and at its end."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.due import ON_TIME, find_due, find_next
from schedules.models import Missed, Schedule

NIGHT = datetime(2027, 5, 3, 2, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def schedule(cron: str, next_at: datetime | None = NIGHT, **fields) -> Schedule:
    return Schedule(cron=cron, zone="UTC", next_at=next_at, **fields)


def test_nothing_is_due_before_its_time_or_without_one():
    assert find_due(schedule("0 2 * * *"), NIGHT - timedelta(seconds=1)) is None
    assert find_due(schedule("0 2 * * *", next_at=None), NIGHT) is None


def test_one_that_is_looked_at_in_time_runs():
    due = find_due(schedule("0 2 * * *", missed=Missed.SKIP), NIGHT + ON_TIME)
    assert (due.tick, due.is_missed, due.missed_since, due.next_at) == (NIGHT, False, None, NIGHT + 24 * HOUR)


@pytest.mark.parametrize(("missed", "is_missed"), [(Missed.RUN_ONCE, False), (Missed.SKIP, True)])
def test_one_that_was_missed_runs_or_not_as_it_is_said(missed, is_missed):
    due = find_due(schedule("0 2 * * *", missed=missed), NIGHT + 3 * HOUR)
    assert (due.tick, due.is_missed, due.next_at) == (NIGHT, is_missed, NIGHT + 24 * HOUR)


@pytest.mark.parametrize("missed", Missed.values)
def test_of_three_hours_of_minutes_only_the_newest_runs(missed):
    now = NIGHT + 3 * HOUR + timedelta(seconds=20)
    due = find_due(schedule("* * * * *", missed=missed), now)
    assert (due.tick, due.is_missed, due.missed_since) == (NIGHT + 3 * HOUR, False, NIGHT)
    assert due.next_at == NIGHT + 3 * HOUR + MINUTE


def test_nothing_runs_after_the_end():
    ends = schedule("0 * * * *", until=NIGHT + HOUR)
    due = find_due(ends, NIGHT + 3 * HOUR)
    assert (due.tick, due.next_at) == (NIGHT + HOUR, None)
    assert find_next(ends, NIGHT) == NIGHT + HOUR and find_next(ends, NIGHT + HOUR) is None
