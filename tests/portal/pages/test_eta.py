"""How right told starts were, by page, API and CSV: of one's teams only, and of what was told first."""

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Forecast
from scheduler.preview.forecast_recorder import load_calibration, record_starts
from scheduler.preview.stored_forecasts import KEPT
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def tell(job, wrong: timedelta, *, days: float = 0, ends: bool = True) -> Forecast:
    """A start that was told for 10 minutes later, give or take 5, and came so much later than that."""
    started = timezone.now() - timedelta(days=days, seconds=1)
    told = started - wrong
    first = {"first_p10": told - 5 * MINUTE, "first_p50": told, "first_p90": told + 5 * MINUTE if ends else None}
    return Forecast.objects.create(
        job=job, attempt=1, made_at=told - 10 * MINUTE, told_at=told - 10 * MINUTE, started_at=started, **first
    )


@pytest.fixture
def cast():
    """Of ada's three starts one was as told, one 20 min late and one 8 min early; eve's has a range without an end."""
    cast = make.cast()
    for wrong, gpu, pool in ((0, "1/4", "dev"), (20, "1/4", "dev"), (-8, "1", "train")):
        tell(make.job(cast.ada, gpu=gpu, pool=pool), wrong * MINUTE)
    tell(make.job(cast.eve, gpu="1", pool="train"), 60 * MINUTE, ends=False)
    return cast


def ask(person, **query):
    return Api(make.token(person, "reports:read")).get("reports/eta", query)


def test_the_api_tells_how_wrong_told_starts_were(cast):
    told = ask(cast.ada).json()
    assert told["total"] == {
        "starts": 3, "within": 1, "sooner": 1, "later": 1, "wrong_p50_s": 480.0,
        "wrong_p90_s": pytest.approx(1056, abs=1),
    }  # fmt: skip
    assert [(one["group"], one["starts"], one["wrong_p50_s"]) for one in told["results"]] == [
        ("dev", 2, 600.0), ("train", 1, 480.0),
    ]  # fmt: skip
    sizes = ask(cast.ada, by="size").json()["results"]
    assert [(one["group"], one["starts"]) for one in sizes] == [("part", 2), ("1", 1)]
    assert ask(cast.ada, **{"from": "2020-01-01", "to": "2020-02-01"}).json()["total"]["wrong_p50_s"] is None


def test_a_range_without_an_end_is_neither_kept_nor_missed(cast):
    total = ask(cast.eve).json()["total"]
    assert (total["starts"], total["within"], total["sooner"], total["later"]) == (1, 0, 0, 0)
    assert total["wrong_p50_s"] == 3600


def test_nobody_reads_of_other_teams(cast, client):
    assert [one["group"] for one in ask(cast.eve, by="team").json()["results"]] == ["vision"]
    assert [one["group"] for one in ask(make.admin(), by="team").json()["results"]] == ["nlp", "vision"]
    client.force_login(cast.eve)
    assert ">nlp<" not in client.get("/reports/eta/?by=team").content.decode()
    assert "nlp" not in client.get("/reports/eta.csv?by=team").content.decode()
    assert Api(make.token(cast.ada, "jobs:read")).get("reports/eta").status_code == 403


def test_the_page_says_it_in_a_sentence_and_since_when_it_is_known(cast, client):
    client.force_login(cast.ada)
    page = client.get("/reports/eta/").content.decode()
    assert "33 % of the jobs started within the range that was told first" in page and "known since" in page
    (row, _other) = csv.DictReader(io.StringIO(client.get("/reports/eta.csv").content.decode()))
    assert (row["pool"], row["starts"], row["within"], row["later"], row["wrong_p50_s"]) == (
        "dev",
        "2",
        "1",
        "1",
        "600.0",
    )
    Forecast.objects.update(first_p50=None)  # as before it was kept
    assert "No job started in this time that was told a start before" in client.get("/reports/eta/").content.decode()


def test_starts_are_kept_for_reports_while_only_the_newest_calibrate(cast):
    Forecast.objects.all().delete()
    old, older = (tell(make.job(cast.ada, pool="dev"), 60 * MINUTE, days=days) for days in (20, KEPT.days + 1))
    Forecast.objects.update(raw_p10=old.first_p10, raw_p90=old.first_p90)
    unmeasured = load_calibration(timezone.now().timestamp())
    record_starts()
    assert list(Forecast.objects.all()) == [old] and older.pk != old.pk
    Forecast.objects.all().delete()
    assert load_calibration(timezone.now().timestamp()) == unmeasured
