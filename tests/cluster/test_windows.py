"""When a pool lends its cards: days, hours, zones, holidays."""

from datetime import UTC, datetime, time, timedelta

import pytest
from django.core.exceptions import ValidationError

from cluster.models import Window
from cluster.windows import lends_until, open_until
from tests import make


def window(weekdays: str = "12345", begins: int = 20, ends: int = 8, **more) -> Window:
    return Window(weekdays=weekdays, begins=time(begins), ends=time(ends), **more)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}").replace(tzinfo=UTC)


NIGHTS = window()
WEEKEND = window("67", 0, 0)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("23 19:59", None),  # a Monday
        ("23 20:00", "24 08:00"),
        ("24 07:59", "24 08:00"),
        ("24 08:00", None),
        ("29 21:00", None),  # a Sunday
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_begins(now, until):
    assert open_until([NIGHTS], moment(now)) == (until and moment(until))


def test_windows_that_touch_are_one():
    friday = moment("27 20:00")
    assert open_until([NIGHTS], friday) == moment("28 08:00")
    assert open_until([NIGHTS, WEEKEND, window("7", 20, 8)], friday) == moment("30 08:00")


def test_a_holiday_is_lent_from_midnight_to_midnight():
    noon = moment("25 12:00")
    assert open_until([NIGHTS], noon) is None
    assert open_until([window(holidays="2026-11-25")], noon) == moment("26 08:00")  # and the night that begins on it


def test_the_hours_are_those_of_its_zone():
    china = window(zone="Asia/Shanghai")
    assert open_until([china], moment("23 11:59")) is None
    assert open_until([china], moment("23 12:00")) == moment("24 00:00")


def test_a_night_in_which_the_clock_is_put_back_is_an_hour_longer():
    berlin = window("6", 20, 8, zone="Europe/Berlin")
    evening = datetime(2026, 10, 24, 18, tzinfo=UTC)
    assert open_until([berlin], evening) - evening == timedelta(hours=13)


def test_what_is_always_open_is_open_for_as_long_as_is_looked_at():
    assert open_until([window("1234567", 0, 0)], moment("23 12:00")) > moment("23 12:00") + timedelta(days=13)


@pytest.mark.django_db
def test_each_pair_of_pools_has_its_own_time():
    dev, train = make.pool("dev"), make.pool("train")
    Window.objects.create(lender=dev, borrower=train, begins=time(20), ends=time(8))
    assert lends_until(moment("23 21:00")) == {(dev.pk, train.pk): moment("24 08:00")}
    assert lends_until(moment("23 12:00")) == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("zone", "Mars/Olympus", "time zone"),
        ("holidays", "2027-01-01, soon", "dates like"),
        ("weekdays", "8", "valid value"),
        ("borrower", "dev", "cannot lend to itself"),
        ("borrower", "third", "dev already lends to train"),
    ],
)
def test_a_window_that_cannot_be_is_refused_with_words(field, value, words):
    dev, train = make.pool("dev"), make.pool("train")
    Window.objects.create(lender=dev, borrower=train, begins=time(20), ends=time(8))
    fields = {"lender": dev, "borrower": train} | {field: make.pool(value) if field == "borrower" else value}
    with pytest.raises(ValidationError, match=words):
        Window(begins=time(20), ends=time(8), **fields).full_clean()
