"""When a job will start, in words."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.wording.starts import describe_start
from scheduler.preview.stored_forecasts import StoredForecast

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def at(*minutes: float | None) -> StoredForecast:
    return StoredForecast(*(None if m is None else NOW + timedelta(minutes=m) for m in minutes), NOW)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, ""),
        (at(None, None, None), ""),
        (at(3.2, 4.4, 12.1), "12:03 to 12:13, likely 12:04"),
        (at(12, 31, 58), "12:10 to 13:00, likely 12:30"),
        (at(10, 25, 90), "12:00 to 13:30, likely 12:30"),
        (at(63, 200, 500), "13:00 to 21:00, likely 15:00"),
        (at(25, 25, 25), "about 12:25"),
        (at(-1, 0, 0.2), "in a moment"),
        (at(-5, 25, 90), "12:00 to 13:30, likely 12:30"),
        (at(10, None, None), "not before 12:10"),
        (at(10, 25, None), "12:10 or later, likely 12:25"),
        (at(10, 130, None), "12:00 or later, likely 14:15"),
        (at(24 * 60, 24 * 60, 24 * 60), "about Tue 12:00"),
    ],
)
def test_a_start_in_words(told, words, settings):
    settings.TIME_ZONE = "UTC"
    assert describe_start(told, NOW) == words
