"""Energy of one's teams by page, API and CSV: the same figures, none of other teams, and unknown is not 0."""

import csv
import io

import pytest

from monitoring.models import TaskUse
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
KWH_MJ = 3_600_000_000


@pytest.fixture
def cast():
    """ada's half of a card drew 3 kWh in ten hours; of eve's nothing is known."""
    cast = make.cast()
    cast.task = make.start(make.job(cast.ada, gpu="1/2", pool="dev"), cast.gpus[0])[0]
    make.use(cast.task, hours=10)
    other = make.start(make.job(cast.eve, gpu="1", pool="train"), cast.gpus[1])[0]
    make.use(other, hours=1)
    TaskUse.objects.filter(holding__task=cast.task.uuid, holding__gpu__isnull=False).update(energy_mj=3 * KWH_MJ)
    return cast


def ask(person, **query):
    return Api(make.token(person, "reports:read")).get("reports/energy", query)


@pytest.fixture
def look(client):
    def look(person, path="/reports/energy/"):
        client.force_login(person)
        return client.get(path).content.decode()

    return look


def test_the_api_tells_what_was_drawn_and_of_what_it_is_not_known(cast):
    told = ask(cast.ada, by="user").json()
    (row,) = told["results"]
    assert (row["group"], row["kwh"], row["simulated"]) == ("ada", pytest.approx(3, abs=0.01), True)
    assert (row["mean_w"], row["unknown_gpu_hours"]) == (pytest.approx(600, abs=2), 0)
    (row,) = ask(cast.eve, by="node").json()["results"]
    assert (row["group"], row["kwh"], row["mean_w"]) == ("n1", None, None)
    total = ask(make.admin()).json()["total"]
    assert (total["kwh"], total["unknown_gpu_hours"]) == (pytest.approx(3, abs=0.01), pytest.approx(1, abs=0.01))


def test_a_period_at_the_beginning_of_all_times_is_empty(cast):
    asked = ask(cast.ada, to="0001-01-01T00:00:30Z")
    assert (asked.status_code, asked.json()["results"]) == (200, [])


def test_nobody_reads_of_other_teams(cast, look, client):
    assert [one["group"] for one in ask(cast.eve, by="team").json()["results"]] == ["vision"]
    assert ">nlp<" not in look(cast.eve) and ">ada<" not in look(cast.eve, "/reports/energy/?by=user")
    client.force_login(cast.eve)
    assert "nlp" not in client.get("/reports/energy.csv?by=team").content.decode()
    assert Api(make.token(cast.ada, "jobs:read")).get("reports/energy").status_code == 403


def test_the_page_and_its_file_tell_unknown_from_nothing(cast, look, client):
    page = look(cast.ada)
    assert "Held cards drew 3.00 kWh." in page and "simulated" in page
    assert "No card that was held in this time told what it draws." in look(cast.eve)
    assert "of 17 % of the held time it is not known" in look(make.admin())
    assert "Nothing was held in this time" in look(cast.ada, "/reports/energy/?from=2020-01-01&to=2020-01-31")
    client.force_login(cast.eve)
    (row,) = csv.DictReader(io.StringIO(client.get("/reports/energy.csv").content.decode()))
    assert (row["team"], row["kwh"], row["mean_w"], float(row["unknown_gpu_h"])) == (
        "vision", "", "", pytest.approx(1, abs=0.01),
    )  # fmt: skip
