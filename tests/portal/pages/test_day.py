"""One day of cards by page, API and CSV: drawn from the pools' own counts, and a day without any says so."""

import csv
import io
from datetime import UTC, datetime, time, timedelta

import pytest
from django.utils import timezone

from monitoring.models import Sample
from monitoring.series.keys import Kind
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """Yesterday until 12:00 pool dev was held, and half of that active, and pool train free."""
    cast = make.cast()
    cast.day = (timezone.now() - timedelta(days=1)).date()
    begins = datetime.combine(cast.day, time(), UTC)
    for minute in range(720):
        same = {"at": begins + timedelta(minutes=minute + 1), "span_ms": 60_000, "source": "simulated"}
        active = 1000 if minute >= 360 else 0
        values = [1000, 1000, active, 1000 - active, 0]
        Sample.objects.create(kind=Kind.POOL, subject=cast.dev.pk, values=values, **same)
        Sample.objects.create(kind=Kind.POOL, subject=make.pool("train").pk, values=[1000, 0, 0, 0, 0], **same)
    return cast


def ask(person, **query):
    return Api(make.token(person, "reports:read")).get("reports/day", query)


def test_the_api_tells_each_step_of_a_day(cast):
    told = ask(cast.ada, day=str(cast.day)).json()
    assert (len(told["slots"]), told["step_s"], told["known_percent"], told["simulated"]) == (48, 1800, 50.0, True)
    assert (told["held_percent"], told["active_percent"]) == (50.0, 25.0)
    assert told["slots"][13] | {"begins": ""} == {
        "begins": "", "capacity": 2.0, "held": 1.0, "active": 1.0, "idle": 0.0, "unknown": 0.0,
    }  # fmt: skip
    assert told["slots"][40]["held"] is None
    one = ask(cast.ada, day=str(cast.day), pool="dev", step_s="300").json()
    assert (len(one["slots"]), one["held_percent"], one["active_percent"]) == (288, 100.0, 50.0)
    assert ask(cast.ada, pool="none").json()["errors"][0]["code"] == "unknown_pool"
    assert ask(cast.ada, day="9999-12-31").json()["errors"][0]["code"] == "out_of_range"
    assert ask(cast.ada, day="x").status_code == ask(cast.ada, step_s="7").status_code == 400
    assert ask(cast.ada, day="2020-01-01").json()["active_percent"] is None


def test_the_page_says_it_in_words_a_picture_and_a_table(cast, client):
    client.force_login(cast.eve)  # what pools do is for all to see
    page = client.get(f"/reports/day/?day={cast.day}").content.decode()
    assert "Most at 06:00: 1 of 2 cards active, 1 held." in page
    assert "On average 25 % of the cards were active, 50 % held. Of 50 % of the time nothing is known." in page
    assert page.count('class="m-work"') == 25 and "<td" in page  # 24 bars, and the legend
    assert (
        "On average 50 % of the cards were active"
        in client.get(f"/reports/day/?day={cast.day}&by=dev&step=5").content.decode()
    )
    answer = client.get(f"/reports/day.csv?day={cast.day}&by=dev")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert (len(rows), rows[0]["idle_gpus"], rows[47]["held_gpus"]) == (48, "1.000", "")
    assert f"cards-dev-{cast.day}.csv" in answer["Content-Disposition"]


@pytest.mark.parametrize(
    "query", ["day=2020-01-01", "day=9999-12-31", "day=0001-01-01", "day=x", "day=", "by=none&step=x"]
)
def test_a_day_without_data_says_so(client, query):
    client.force_login(make.cast().ada)
    assert "Nothing is known of this day" in client.get(f"/reports/day/?{query}").content.decode()
