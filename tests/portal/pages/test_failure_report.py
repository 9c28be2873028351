"""Failures of one's teams by page, API and CSV: the same figures, and none of other teams."""

import csv
import io

import pytest

from jobs.models import Task
from jobs.states import TaskState
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """A job of ada failed after ten hours on a quarter of a card; one of eve was evicted."""
    cast = make.cast()
    for person, reason in ((cast.ada, "exit_nonzero"), (cast.eve, "evicted")):
        cast.job = job = make.job(person, gpu="1/4", pool="dev", name=f"secret-{person}")
        make.use(make.start(job, cast.gpus[0])[0], hours=10)
        make.end(job, TaskState.FAILED, reason, 1)
    return cast


def ask(person, **query):
    return Api(make.token(person, "reports:read")).get("reports/failures", query)


def test_the_api_tells_why_and_what_was_lost(cast):
    (told,) = ask(cast.ada).json()["results"]
    assert (told["group"], told["text"]) == ("exit_nonzero", "The program ended with an error.")
    assert told["failed"]["tries"] == told["failed"]["jobs"] == 1 and told["made_room"]["tries"] == 0
    assert told["failed"]["gpu_hours"] == pytest.approx({"lost": 2.5, "unsaved": 2.5, "kept": 0}, abs=0.01)
    assert [one["group"] for one in ask(cast.eve, by="user").json()["results"]] == ["eve"]
    assert len(ask(make.admin(), by="node").json()["results"]) == 1
    assert ask(cast.ada, by="size").status_code == 400
    assert Api(make.token(cast.ada, "jobs:read")).get("reports/failures").status_code == 403


def test_csv_has_a_row_for_each_group(cast, client):
    client.force_login(cast.ada)
    for answer in (
        Api(make.token(cast.ada)).get("reports/failures", {"by": "team"}, Accept="text/csv"),
        client.get("/reports/failures.csv?by=team"),
    ):
        (row,) = csv.DictReader(io.StringIO(answer.content.decode()))
        assert (row["team"], row["failed_tries"], row["made_room_tries"]) == ("nlp", "1", "0")
        assert float(row["failed_lost_gpu_h"]) == pytest.approx(2.5, abs=0.01)


def test_the_page_tells_reasons_and_links_to_the_newest(cast, client):
    client.force_login(cast.ada)
    page = client.get("/reports/failures/").content.decode()
    assert "1 try failed; 2.50 GPU-hours were lost." in page and "The program ended with an error." in page
    assert "secret-ada" in page and "secret-eve" not in page and "evicted" not in page
    assert "only=exit_nonzero#newest" in page
    of_one = client.get("/reports/failures/?only=exit_nonzero").content.decode()
    assert "The newest: The program ended with an error." in of_one
    assert "The newest:" not in client.get("/reports/failures/?only=evicted").content.decode()
    assert (
        "Nothing failed in this time" in client.get("/reports/failures/?from=2020-01-01&to=2020-01-31").content.decode()
    )


def test_a_machine_that_is_not_known_is_named_so(cast, client):
    client.force_login(cast.ada)
    Task.objects.update(node=None)
    assert ">not known</a>" in client.get("/reports/failures/?by=node").content.decode()
