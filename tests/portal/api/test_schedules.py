"""Schedules by REST: made, changed, run, suspended and deleted."""

import pytest

from jobs.models import Job
from notebooks.services import create_notebook
from quotas.models import Quota
from schedules.models import Schedule
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
BODY = {"name": "nightly", "job_file": "run: python train.py\nteam: nlp\npool: dev\n", "cron": "30  2 * * *"}


def test_one_is_made_shown_changed_and_deleted(ada):
    made = ada.post("schedules", BODY)
    shown = made.json()
    assert made.status_code == 201 and made["Location"].endswith(f"/api/v1/schedules/{shown['id']}")
    assert (shown["cron"], shown["zone"], shown["state"], shown["keep"]) == ("30 2 * * *", "UTC", "active", 20)
    assert (shown["team"], shown["owner"], shown["overlap"], shown["missed"]) == ("nlp", "ada", "skip", "run_once")
    at = f"schedules/{shown['id']}"
    assert ada.get(at).json() == shown and ada.get("schedules").json()["results"] == [shown]
    assert ada.patch(at, {"overlap": "queue", "until": "2100-01-01T00:00Z"}).json()["overlap"] == "queue"
    assert ada.post(f"{at}:suspend").json()["next_at"] is None
    assert ada.post(f"{at}:resume").json()["state"] == "active"
    assert ada.delete(at).status_code == 204 and ada.get(at).status_code == 404


def test_a_notebook_is_started_instead_of_a_job_and_by_a_token_that_may(ada, cast):
    notebook = create_notebook(user=cast.ada, name="explore", gpu="0", pool="dev")
    body = {"name": "days", "notebook": "explore", "stop_at": "19:30", "cron": "45 8 * * 1-5"}
    shown = ada.post("schedules", body).json()
    assert (shown["notebook"], shown["stop_at"], shown["job_file"]) == (notebook.public_id, "19:30", "")
    at = f"schedules/{shown['id']}"
    assert ada.patch(at, {"stop_at": "20:00"}).json()["stop_at"] == "20:00"
    assert ada.patch(at, {"job_file": BODY["job_file"]}).json()["notebook"] is None
    jobs_only = Api(make.token(cast.ada, "jobs:read", "jobs:write"))
    refused = jobs_only.post("schedules", {**body, "name": "others"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/notebook")
    assert (
        ada.post("schedules", {"name": "nothing", "cron": "45 8 * * *"}).json()["errors"][0]["pointer"] == "/job_file"
    )


def test_without_a_zone_it_is_the_callers(ada, cast):
    make.User.objects.filter(pk=cast.ada.pk).update(time_zone="Asia/Shanghai")
    assert ada.post("schedules", BODY).json()["zone"] == "Asia/Shanghai"


def test_a_run_by_hand_answers_with_what_came_of_it(ada):
    at = f"schedules/{ada.post('schedules', BODY).json()['id']}"
    run = ada.post(f"{at}:run", Idempotency_Key="once")
    again = ada.post(f"{at}:run", Idempotency_Key="once")
    assert run.status_code == again.status_code == 201 and run.json() == again.json()
    assert (run.json()["outcome"], run.json()["job"], run.json()["asked_by"]) == (
        "submitted", Job.objects.get().public_id, "ada",
    )  # fmt: skip
    other = ada.post(f"{at}:run").json()
    assert (other["outcome"], other["code"]) == ("skipped", "still_open") and other["job"] is None
    assert other["detail"] == f"{run.json()['job']} of an earlier run had not ended."
    assert ada.get(f"{at}/runs").json()["results"] == [other, run.json()]
    assert ada.get(at).json()["last_run"]["outcome"] == "skipped"


def test_a_refusal_says_why(ada, cast):
    at = f"schedules/{ada.post('schedules', BODY).json()['id']}"
    Quota.objects.filter(team=cast.nlp).delete()
    refused = ada.post(f"{at}:run").json()
    assert refused["outcome"] == "refused" and "nlp" in refused["detail"]


def test_what_is_wrong_is_named_by_its_field(ada):
    refused = ada.post("schedules", {**BODY, "cron": "daily", "job_file": "gpu: 1\nteam: nlp\n"})
    assert refused.status_code == 400
    assert {error["pointer"] for error in refused.json()["errors"]} == {"/cron", "/job_file/run"}
    assert not Schedule.objects.exists()


def test_the_lead_may_suspend_it_and_not_change_it(ada, bob, eve):
    at = f"schedules/{ada.post('schedules', BODY).json()['id']}"
    assert bob.get("schedules", {"owner": "ada"}).json()["results"][0]["name"] == "nightly"
    assert bob.post(f"{at}:suspend").status_code == 200
    assert bob.patch(at, {"cron": "0 4 * * *"}).status_code == bob.post(f"{at}:run").status_code == 403
    assert eve.get(at).status_code == 404 and eve.get("schedules").json()["results"] == []
