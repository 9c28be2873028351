"""Thousands of schedules over both changes of the clock and an outage: exactly the firings that are promised.

What is promised is counted minute by minute, without the library that finds the times.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.models import Job
from schedules.due import ON_TIME, find_next
from schedules.models import Missed, Outcome, Schedule, ScheduledRun
from tests import make
from tests.schedules.conftest import FILE, fire
from tests.whole import part_of

# Each run is committed, as in life: else the index of what is due would keep all that was.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(1800)]

MINUTE, STEP, HOUR = timedelta(minutes=1), timedelta(minutes=5), timedelta(hours=1)
MANY = part_of(10_000, 320)
LINES = (
    "15 2 * * *",
    "30 1-3 * * *",
    "0 * * * *",
    "*/20 * * * *",
    "*/30 2 * * *",
    "0 0 * * 1-5",
    "45 2 * * 0",
    "5 4 28 * *",
)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Shanghai", "UTC")
NIGHTS = {
    "spring in Europe": datetime(2027, 3, 27, 22, tzinfo=UTC),
    "spring in America": datetime(2027, 3, 14, 4, tzinfo=UTC),
    "autumn in Europe": datetime(2027, 10, 30, 22, tzinfo=UTC),
    "autumn in America": datetime(2027, 11, 7, 3, tzinfo=UTC),
}
KINDS = [(line, zone, missed) for line in LINES for zone in ZONES for missed in Missed.values]
LASTS, DOWN = 8 * HOUR, (3 * HOUR + MINUTE, 6 * HOUR)
"""Of a night, and from when to when the platform is down where it is."""


def numbers(field: str, most: int) -> set[int]:
    """What a field of LINES matches."""
    span, _, step = field.partition("/")
    first, _, last = span.partition("-")
    if span == "*":
        return set(range(0, most + 1, int(step or 1)))
    return set(range(int(first), int(last or first) + 1))


def matches(line: str, wall: datetime) -> bool:
    minute, hour, day, _month, weekday = line.split()
    return (
        wall.minute in numbers(minute, 59)
        and wall.hour in numbers(hour, 23)
        and wall.day in numbers(day, 31)
        and wall.isoweekday() % 7 in numbers(weekday, 6)
    )


def promised(line: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """The moments after begin, up to end."""
    goes_on = any(field.startswith("*") for field in line.split()[:2])
    found = by_elapsed_time(line, zone, begin, end) if goes_on else by_the_wall(line, zone, begin, end)
    return sorted({at for at in found if begin < at <= end})


def by_elapsed_time(line: str, zone: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    while begin <= end:
        if matches(line, begin.astimezone(ZoneInfo(zone))):
            yield begin
        begin += MINUTE


def by_the_wall(line: str, zone: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Each time of the wall's clock once: one that is left out when the clock goes on again."""
    wall = begin.astimezone(ZoneInfo(zone)).replace(tzinfo=None) - 2 * HOUR
    while wall <= end.astimezone(ZoneInfo(zone)).replace(tzinfo=None) + HOUR:
        if matches(line, wall):
            there = wall
            while not exists(there, zone):
                there += MINUTE
            yield there.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        wall += MINUTE


def exists(wall: datetime, zone: str) -> bool:
    moment = wall.replace(tzinfo=ZoneInfo(zone))
    return moment.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall


def make_schedules(cast, begin: datetime, count: int) -> None:
    rows = []
    for number in range(count):
        line, zone, missed = KINDS[number % len(KINDS)]
        row = Schedule(user=cast.ada, team=cast.nlp, name=f"s{number}", job_file=FILE, cron=line, zone=zone)
        row.missed, row.keep, row.next_at = missed, 100, find_next(Schedule(cron=line, zone=zone), begin)
        rows.append(row)
    Schedule.objects.bulk_create(rows)


@pytest.mark.parametrize("night", NIGHTS)
def test_exactly_the_promised_runs_over_a_change_of_the_clock(clock, night):
    play(clock, night, is_down=False, count=len(KINDS))


def test_exactly_the_promised_runs_of_many_around_an_outage_of_three_hours(clock):
    play(clock, "spring in Europe", is_down=True, count=MANY)


def play(clock, night: str, *, is_down: bool, count: int) -> None:
    begin = NIGHTS[night]
    make_schedules(make.cast(), begin, count)
    down = (begin + DOWN[0], begin + DOWN[1]) if is_down else (begin, begin)
    now = begin + timedelta(seconds=7)
    while now <= begin + LASTS:
        clock(now)
        while not down[0] < now < down[1] and fire():
            pass
        now += STEP
    back = min(at for at in (begin + timedelta(seconds=7) + n * STEP for n in range(200)) if at >= down[1])
    ticks = {(line, zone): promised(line, zone, begin, now - STEP) for line in LINES for zone in ZONES}
    expected = {
        (line, zone, missed): expect(ticks[line, zone], missed, down if is_down else None, back)
        for line, zone, missed in KINDS
    }
    assert sum(map(len, expected.values())) > 100
    runs: dict[int, list[tuple[datetime, bool]]] = {}
    for run in ScheduledRun.objects.order_by("tick_at"):
        runs.setdefault(run.schedule_id, []).append((run.tick_at, run.why == {"code": "missed"}))
    for row in Schedule.objects.all():
        assert runs.get(row.pk, []) == expected[row.cron, row.zone, row.missed], (row.cron, row.zone, row.missed)
    fired = ScheduledRun.objects.filter(outcome=Outcome.SUBMITTED)
    assert Job.objects.count() == fired.count() == fired.values("schedule").distinct().count()
    assert not ScheduledRun.objects.filter(outcome__in=[Outcome.DUE, Outcome.REFUSED]).exists()


def expect(ticks: list[datetime], missed: str, down: tuple | None, back: datetime) -> list[tuple[datetime, bool]]:
    """(the moment, whether it is left out as missed) of each run. back: when one looks again after being down."""
    if down is None:
        return [(at, False) for at in ticks]
    before = [(at, False) for at in ticks if at <= down[0]]
    while_down = [at for at in ticks if down[0] < at <= back]
    newest = [(at, missed == Missed.SKIP and back - at > ON_TIME) for at in while_down[-1:]]
    return before + newest + [(at, False) for at in ticks if at > back]
