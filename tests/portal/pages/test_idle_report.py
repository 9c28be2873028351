"""What was idle, and what the ladder did: by page, API and CSV, and none of other teams."""

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.idle.rungs import Rung
from monitoring.models import IdleTold, IdleWatch, TaskUse
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """ada and bob were told twice of ada's idle half card; two hours ago it was released for the next six."""
    cast = make.cast()
    job = make.job(cast.ada, gpu="1/2", pool="dev", name="secret-plan")
    make.use(make.start(job, cast.gpus[0])[0], hours=10, busy=0.4, idle=0.3)
    make.use(make.start(make.job(cast.eve, gpu="1", pool="train"), cast.gpus[1])[0], hours=1)
    acted = timezone.now() - timedelta(hours=2)
    returned = {"acted_at": acted, "returned_milli": 500, "returned_until": acted + timedelta(hours=8)}
    watch = IdleWatch.objects.create(job=job, rung=Rung.ACTED, regretted=True, **returned)
    for rung in (Rung.NOTED, Rung.WARNED):
        for person in (cast.ada, cast.bob):
            IdleTold.objects.create(watch=watch, ladder=1, rung=rung, user=person)
    return cast


def ask(person, **query):
    return Api(make.token(person, "reports:read")).get("reports/idle", query)


def test_the_api_tells_what_was_idle_and_what_was_done(cast):
    (told,) = ask(cast.ada).json()["results"]
    assert told["gpu_hours"] == pytest.approx({"held": 5, "idle": 1.5, "unknown": 0, "returned": 1}, abs=0.01)
    assert {name: told[name] for name in ("notes", "reminders", "warnings", "acts", "regretted")} == {
        "notes": 1,
        "reminders": 0,
        "warnings": 1,
        "acts": 1,
        "regretted": 1,
    }
    (other,) = ask(cast.eve, by="user").json()["results"]
    assert (other["group"], other["notes"], other["acts"]) == ("eve", 0, 0)
    assert {one["group"] for one in ask(make.admin(), by="pool").json()["results"]} == {"dev", "train"}
    assert ask(cast.ada, by="model").status_code == 400
    assert Api(make.token(cast.ada, "jobs:read")).get("reports/idle").status_code == 403


def test_csv_and_page_tell_the_same(cast, client):
    client.force_login(cast.ada)
    (row,) = csv.DictReader(io.StringIO(client.get("/reports/idle.csv?by=user").content.decode()))
    assert (row["user"], row["notes"], row["warnings"], row["acts"]) == ("ada", "1", "1", "1")
    assert float(row["returned_gpu_h"]) == pytest.approx(1, abs=0.01)
    page = client.get("/reports/idle/?by=user").content.decode()
    assert "1.50 GPU-hours were held and idle, 30 % of what was held; 1 were returned." in page.replace("1.00", "1")
    assert ">ada<" in page and ">eve<" not in page
    assert (
        "Nothing was held in this time" in client.get("/reports/idle/?from=2020-01-01&to=2020-01-31").content.decode()
    )


def test_what_nobody_saw_is_not_said_to_be_idle(cast, client):
    TaskUse.objects.all().delete()
    client.force_login(cast.ada)
    assert client.get("/reports/idle/").content.decode().count('<td class="num">?</td>') == 4
