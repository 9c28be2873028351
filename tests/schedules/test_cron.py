"""Cron lines: what is one, and when it comes next, over both changes of the clock."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from common.errors import InvalidInput
from schedules.cron import check_cron, describe_cron, find_last_tick, iterate_ticks, list_next_ticks

SPRING, AUTUMN = datetime(2027, 3, 27, 23, tzinfo=UTC), datetime(2027, 10, 30, 22, tzinfo=UTC)
"""Midnight in Berlin before the hour from 02:00 on is left out, and before it comes twice."""
BERLIN = "Europe/Berlin"
LINES = ("15 2 * * *", "15,45 2 * * *", "30 1-3 * * *", "0 * * * *", "*/15 * * * *", "*/30 2 * * *", "0 0 * * 1")


def told(line: str, after: datetime, zone: str = BERLIN, hours: int = 24) -> list[str]:
    ticks = takewhile(lambda at: at <= after + timedelta(hours=hours), iterate_ticks(line, zone, after))
    return [at.astimezone(ZoneInfo(zone)).strftime("%H:%M %Z") for at in ticks]


@pytest.mark.parametrize(
    ("line", "spring", "autumn"),
    [
        ("15 2 * * *", ["03:00 CEST"], ["02:15 CEST"]),
        ("15,45 2 * * *", ["03:00 CEST"], ["02:15 CEST", "02:45 CEST"]),
        ("30 1-3 * * *", ["01:30 CET", "03:00 CEST", "03:30 CEST"], ["01:30 CEST", "02:30 CEST", "03:30 CET"]),
        ("30 3 * * *", ["03:30 CEST"], ["03:30 CET"]),
        ("*/30 2 * * *", [], ["02:00 CEST", "02:30 CEST", "02:00 CET", "02:30 CET"]),
    ],
)
def test_a_time_that_is_left_out_runs_at_the_change_and_one_that_comes_twice_the_first_time(line, spring, autumn):
    assert told(line, SPRING, hours=22) == spring
    assert told(line, AUTUMN) == autumn


def test_each_hour_is_each_hour_that_passes():
    assert len(told("0 * * * *", SPRING, hours=23)) == 23
    assert len(told("0 * * * *", AUTUMN, hours=25)) == 25
    assert told("0 * * * *", AUTUMN, hours=4) == ["01:00 CEST", "02:00 CEST", "02:00 CET", "03:00 CET"]


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai", "UTC"])
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("begin", [SPRING, AUTUMN, datetime(2027, 3, 13, 22, tzinfo=UTC)])
def test_wherever_one_looks_from_the_next_is_the_same(zone, line, begin):
    ticks = list_next_ticks(line, zone, begin - timedelta(days=1), 400)
    assert ticks == sorted(set(ticks))
    for minutes in range(0, 49 * 60, 7):
        at = begin + timedelta(minutes=minutes)
        expected = next(tick for tick in ticks if tick > at)
        assert next(iterate_ticks(line, zone, at)) == expected, at
        if ticks[0] <= at:
            assert find_last_tick(line, zone, ticks[0], at) == max(tick for tick in ticks if tick <= at), at


def test_the_last_of_a_year_of_minutes_is_found_at_once():
    first, until = datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 12, 31, 12, 0, 30, tzinfo=UTC)
    assert find_last_tick("* * * * *", BERLIN, first, until) == until.replace(second=0)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", "bad_cron"), ("30 2 * *", "bad_cron"), ("0 30 2 * * *", "bad_cron"), ("61 2 * * *", "bad_cron"),
        ("@daily", "bad_cron"), ("30 2 * * MOO", "bad_cron"), ("*/0 * * * *", "bad_cron"), ("0" * 120, "bad_cron"),
        ("1,2,3," * 30 + "4 * * * *", "bad_cron"), ("0 0 30 2 *", "bad_cron"), ("0 0 */31 2 1#5", "cron_never"),
    ],
)  # fmt: skip
def test_what_is_no_line_is_refused(line, code):
    with pytest.raises(InvalidInput) as refused:
        check_cron(line)
    (error,) = refused.value.errors
    assert (error.pointer, error.code) == ("/cron", code)


def test_spaces_do_not_matter_and_a_line_is_said_in_words():
    assert check_cron("  30   2 * * mon-fri ") == "30 2 * * mon-fri"
    assert describe_cron("30 2 * * 1-5") == CronSim("30 2 * * 1-5", SPRING).explain()
