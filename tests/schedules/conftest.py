"""A world with a schedule of ada's, and a clock that tests move."""

from datetime import UTC, datetime

import pytest

from scheduler.preview.preview import check_possible
from schedules import firing, services
from schedules.firing import fire_due
from schedules.models import Schedule
from tests import make

NOON = datetime(2027, 5, 3, 12, 0, 5, tzinfo=UTC)
FILE = "run: python train.py\nname: nightly\nteam: nlp\npool: dev\ngpu: 1/4\n"


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def clock(monkeypatch):
    """Calls of it set what the database's clock says to schedules."""
    at = [NOON]

    def set_clock(now: datetime | None = None) -> datetime:
        at[0] = now or at[0]
        return at[0]

    for module in (firing, services):
        monkeypatch.setattr(module, "database_now", set_clock)
    return set_clock


def new_schedule(person, **values) -> Schedule:
    return make.schedule(person, **{"job_file": FILE, **values})


def fire() -> int:
    return fire_due(check_possible, True)
