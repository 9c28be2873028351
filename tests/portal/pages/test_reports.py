"""GPU-hours of one's teams by page, API and CSV: the same figures, and none of other teams."""

import csv
import io
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.models import Price, TaskUse
from portal.access import usage_reports
from portal.pages.reports.page import read_choice
from quotas.models import Holding
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """ada held half of a card for ten hours, six of them active, two idle, one unseen; eve held another."""
    cast = make.cast()
    cast.task = make.start(make.job(cast.ada, gpu="1/2", pool="dev", name="secret-plan"), cast.gpus[0])[0]
    make.use(cast.task, hours=10, busy=0.4, idle=0.3, seen=0.9)
    make.use(make.start(make.job(cast.eve, gpu="1", pool="train"), cast.gpus[1])[0], hours=1)
    return cast


@pytest.fixture
def look(client):
    def look(person, path):
        client.force_login(person)
        return client.get(path).content.decode()

    return look


def ask(person, **query):
    return Api(make.token(person, "reports:read")).get("usage", query)


def rows_of(text: str) -> list[dict]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_api_sums_what_was_held_active_idle_and_unknown(cast):
    told = ask(cast.ada, by="user").json()
    (group,) = told["results"]
    wanted = {"held": 5, "active": 3, "paused": 0, "idle": 1.5, "unknown": 0.5, "busy": 2}
    assert group["group"] == "ada" and group["gpu_hours"] == pytest.approx(wanted, abs=0.01)
    assert (told["total"]["tasks"], told["rest"], group["simulated"]) == (1, None, True)
    assert [one["group"] for one in ask(cast.eve).json()["results"]] == ["vision"]
    assert len(ask(make.admin()).json()["results"]) == 2


def test_a_period_is_named_by_days_or_moments(cast):
    today = timezone.now().date()
    assert ask(cast.ada, **{"from": "2020-01-01", "to": "2020-02-01"}).json()["results"] == []
    assert ask(cast.ada, **{"from": f"{today}T00:00:00Z"}).status_code == 200
    refused = ask(cast.ada, **{"from": "2020-02-01", "to": "2020-01-01"})
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "time_not_before")
    assert ask(cast.ada, **{"from": "2020-02-01"}).json()["errors"][0]["code"] == "time_too_long"
    assert ask(cast.ada, by="node").status_code == 400
    assert Api(make.token(cast.ada, "jobs:read")).get("usage").status_code == 403


def test_csv_has_a_row_for_each_group(cast, client):
    answer = Api(make.token(cast.ada)).get("usage", {"by": "job"}, Accept="text/csv")
    assert answer["Content-Type"].startswith("text/csv")
    (row,) = rows_of(answer.content.decode())
    assert (row["job"], row["simulated"]) == (cast.task.job.public_id, "true")
    assert float(row["held_gpu_h"]) == pytest.approx(5, abs=0.01)
    client.force_login(cast.ada)
    page = client.get("/reports/usage.csv?by=team")
    assert "gpu-hours-by-team-" in page["Content-Disposition"] and [
        one["team"] for one in rows_of(page.content.decode())
    ] == ["nlp"]


def test_costs_are_told_only_where_there_is_a_price(cast, look, settings):
    settings.TESSERA_CURRENCY = "EUR"
    table = Api(make.token(cast.ada))
    assert ask(cast.ada).json()["results"][0]["cost"] is None and "Cost" not in look(cast.ada, "/reports/")
    assert "held_cost" not in rows_of(table.get("usage", Accept="text/csv").content.decode())[0]
    admin, begins = Api(make.token(make.admin())), str(timezone.now().date() - timedelta(days=10))
    made = admin.post("prices", {"milli": 2000, "begins": begins})
    assert made.status_code == 201 and made.json()["currency"] == "EUR"
    cost = ask(cast.ada).json()["total"]["cost"]
    assert (cost["unpriced"], cost["held_milli"], cost["idle_milli"]) == (
        0, pytest.approx(10_000, abs=20), pytest.approx(3_000, abs=20),
    )  # fmt: skip
    page = look(cast.ada, "/reports/")
    assert "Cost (EUR)" in page and '<td class="num">10.00</td>' in page
    (row,) = rows_of(table.get("usage", Accept="text/csv").content.decode())
    assert (float(row["held_cost"]), row["currency"]) == (pytest.approx(10, abs=0.02), "EUR")
    assert admin.delete(f"prices/{made.json()['id']}").status_code == 204
    assert ask(cast.ada).json()["total"]["cost"] is None


def test_what_has_no_price_is_asked_for_and_not_free(cast, look):
    Price.objects.create(pool=cast.gpus[1].pool, begins="2026-01-01", milli=1000)
    assert ask(cast.ada).json()["total"]["cost"]["unpriced"] == pytest.approx(5, abs=0.01)
    assert look(cast.ada, "/reports/").count('<td class="num">?</td>' * 3) == 2


def test_the_page_says_how_much_was_held_and_what_of_it_is_not_known(cast, look):
    page = look(cast.ada, "/reports/?by=user")
    assert "GPU-hours were held, 60 % of them active." in page and "Unknown" in page and "complete up to" in page
    assert ">ada<" in page and ">eve<" not in page and ">vision<" not in page
    TaskUse.objects.all().delete()
    assert '<td class="num">?</td>' in look(cast.ada, "/reports/?by=user")  # never 0
    assert f'href="/j/{cast.task.job.public_id}/"' in look(cast.ada, "/reports/?by=job&period=7")
    assert "Nothing was held in this time" in look(cast.ada, "/reports/?from=2020-01-01&to=2020-01-31")


@pytest.mark.parametrize("query", ["from=x&to=y", "from=2026-02-01&to=2026-01-01", "from=0001-01-01", "to=9999-12-31"])
def test_a_period_that_makes_no_sense_is_told_and_the_usual_one_shown(cast, look, query):
    page = look(cast.ada, f"/reports/?{query}")
    assert "banner-idle" in page and "GPU-hours were held" in page


@pytest.mark.parametrize("choice", ["7", "30", "month", "last"])
def test_periods_are_whole_days(choice):
    period = read_choice(choice, timezone.now())
    assert {moment.time().isoformat() for moment in (period.begins, period.ends)} == {"00:00:00"}
    assert period.begins < period.ends


def test_beyond_the_most_groups_the_rest_is_one_row_and_the_sum_whole(cast, monkeypatch):
    monkeypatch.setattr(usage_reports, "MOST_GROUPS", 1)
    told = ask(make.admin()).json()
    assert len(told["results"]) == 1 and told["rest"]["tasks"] == 1
    held = [one["gpu_hours"]["held"] for one in (*told["results"], told["rest"])]
    assert sum(held) == pytest.approx(told["total"]["gpu_hours"]["held"], abs=1e-5)


def test_long_periods_are_drawn_by_week(cast, look):
    Holding.objects.filter(task=cast.task.uuid).update(held_from=timezone.now() - timedelta(days=200))
    assert "GPU-hours by week" in look(cast.ada, f"/reports/?from={timezone.now().date() - timedelta(days=200)}")


def test_reports_link_to_one_another_and_keep_the_period(cast, client, look):
    page = look(cast.ada, "/reports/usage/?period=7&by=user")
    assert re.findall(r'href="(/reports/[^"]+)" aria-current="page"', page) == ["/reports/usage/?period=7"]
    assert [client.get(path).status_code for path in ("/reports/none/", "/reports/none.csv")] == [404, 404]


def test_the_navigation_names_each_page_once(cast, look):
    links = re.findall(r'class="side-link" href="([^"]+)"', look(cast.ada, "/reports/"))
    assert "/reports/" in links and len(links) == len(set(links))
