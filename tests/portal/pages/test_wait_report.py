"""Waits of one's teams by page, API and CSV: the same figures, and none of other teams."""

import csv
import io
from datetime import timedelta

import pytest

from jobs.models import Job
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """ada waited ten minutes for a quarter of a card, and waits for a whole one; eve waited an hour."""
    cast = make.cast()
    for person, waited, gpu in ((cast.ada, 10, "1/4"), (cast.eve, 60, "1/2")):
        job = make.job(person, gpu=gpu, pool="dev", name="secret-plan")
        (task,) = make.start(job, cast.gpus[0])
        since = task.assigned_at - timedelta(minutes=waited)
        Job.objects.filter(pk=job.pk).update(submitted_at=since, eligible_at=since)
    make.job(cast.ada, gpu="1", pool="train")
    return cast


def ask(person, **query):
    return Api(make.token(person, "reports:read")).get("reports/waits", query)


def test_the_api_tells_starts_and_what_still_waits(cast):
    told = ask(cast.ada).json()
    part, whole = told["results"]
    assert (part["group"], whole["group"], told["left_out"]) == ("part", "1", 0)
    assert part["started"]["jobs"] == 1 and part["started"]["p50_s"] == pytest.approx(600, abs=30)
    assert whole["waiting"]["jobs"] == 1 and whole["started"] == {
        "jobs": 0, "p50_s": None, "p90_s": None, "longest_s": None
    }  # fmt: skip
    assert [one["group"] for one in ask(cast.eve, by="user").json()["results"]] == ["eve"]
    assert {one["group"] for one in ask(make.admin(), by="team").json()["results"]} == {"nlp", "vision"}
    assert ask(cast.ada, by="label").status_code == 400
    assert Api(make.token(cast.ada, "jobs:read")).get("reports/waits").status_code == 403


def test_csv_has_a_row_for_each_group(cast, client):
    client.force_login(cast.ada)
    for answer in (
        Api(make.token(cast.ada)).get("reports/waits", {"by": "team"}, Accept="text/csv"),
        client.get("/reports/waits.csv?by=team"),
    ):
        (row,) = csv.DictReader(io.StringIO(answer.content.decode()))
        assert (row["team"], row["started_jobs"], row["waiting_jobs"], row["again_p50_s"]) == ("nlp", "1", "1", "")
        assert float(row["started_p90_s"]) == pytest.approx(600, abs=30)


def test_the_page_says_how_long_jobs_waited(cast, client):
    client.force_login(cast.ada)
    page = client.get("/reports/waits/?by=user").content.decode()
    assert "Half of the jobs started within 10m" in page and "1 job still waits." in page
    assert 'href="/jobs/?whose=team&amp;state=waiting"' in page and ">ada<" in page and ">eve<" not in page
    assert "part of a GPU" in page
    empty = client.get("/reports/waits/?from=2020-01-01&to=2020-01-31").content.decode()
    assert "No job started or waited in this time" in empty
