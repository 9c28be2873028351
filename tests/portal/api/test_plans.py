"""Plans and levers by REST: what would become of a job, nothing stored, and whose they are."""

import pytest
from django.conf import settings as conf

from cluster.models import Pool
from jobs.models import Job
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def taken(cast):
    """eve's job on the card of train, for an hour."""
    job = make.job(cast.eve, gpu="1", pool="train", time="1h")
    make.start(job)
    return job


def test_a_plan_says_where_it_starts_and_stores_nothing(ada):
    plan = ada.post("jobs:plan", {"run": "python train.py", "gpu": "1/4"}).json()
    assert (plan["outcome"], plan["text"], plan["pool"]) == ("starts", "Starts now, likely on n1 (¼ of GPU 0)", "dev")
    assert plan["places"] == [{"node": "n1", "gpus": [0], "gpu_milli": 250, "role": ""}] and plan["refusal"] is None
    assert not Job.objects.exists()


def test_a_plan_says_whether_it_may_be_stopped_and_what_the_other_choice_would_mean(ada, cast):
    Pool.objects.filter(name="train").update(batch_is_preemptible=True)
    cast.train.quotas.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    plan = ada.post("jobs:plan", {"run": "true", "gpu": "1", "pool": "train"}).json()
    assert plan["preemptible"] and plan["preemptible_text"].startswith("May be stopped for other teams, as pool train")
    other = plan["other_choice"]
    assert (other["preemptible"], other["starts"]) == (False, False) and "could not borrow" in other["text"]
    never = ada.post("jobs:plan", {"run": "true", "gpu": "9"}).json()
    assert (never["preemptible"], never["preemptible_text"], never["other_choice"]) == (None, "", None)


def test_a_plan_says_which_role_goes_where(ada):
    roles = {"head": {"run": "a", "cpu": 1, "memory": "1GiB"}, "worker": {"run": "b", "gpu": "1/4"}}
    plan = ada.post("jobs:plan", {"name": "rl", "roles": roles}).json()
    assert plan["text"] == "Starts now, likely with head on n1, worker on n1 (¼ of GPU 0)"
    assert [place["role"] for place in plan["places"]] == ["head", "worker"]


def test_a_plan_that_waits_has_place_reasons_start_and_levers(ada, taken):
    plan = ada.post("jobs:plan", "run: train\ngpu: 1\npool: train\ncode: .\n", type="application/yaml").json()
    assert (plan["outcome"], plan["position"], plan["of"]) == ("waits", 1, 1) and plan["places"] == []
    assert plan["reasons"][0]["code"] == "no_fit_now" and plan["reasons"][0]["text"]
    assert plan["text"] == f"Waiting: #1 of 1 in train, {plan['start']['text']}"
    [lever] = plan["levers"]
    assert (lever["field"], lever["value"], lever["was"], lever["now"]) == ("pool", "dev", "train", True)
    assert (lever["text"], lever["start_text"]) == ("pool dev instead of train", "now") and plan["whole"]


def test_a_lever_has_the_value_that_the_job_file_wants(ada, cast, taken):
    make.gpu(cast.node, pool=cast.train)
    spec = {"run": "true", "gpu": "1", "nodes": 2, "pool": "train"}
    lever = next(one for one in ada.post("jobs:plan", spec).json()["levers"] if one["field"] == "nodes")
    assert (lever["value"], lever["was"]) == (1, 2)
    assert ada.post("jobs:plan", {**spec, lever["field"]: lever["value"]}).json()["outcome"] == "starts"


def test_what_could_never_run_is_an_answer_and_not_an_error(ada):
    answer = ada.post("jobs:plan", {"run": "true", "gpu": "9"})
    plan = answer.json()
    assert answer.status_code == 200 and (plan["outcome"], plan["pool"]) == ("never", None)
    assert plan["text"].startswith("Can never run: ") and plan["refusal"]["code"] == "impossible"
    assert plan["refusal"]["hints"] == [{"action": "set", "pointer": "/gpu", "value": "1"}]


def test_a_plan_is_refused_as_its_submit_would_be(ada):
    assert ada.post("jobs:plan", {"gpu": "1"}).status_code == 400
    assert ada.post("jobs:plan", {"run": "true", "team": "vision"}).status_code == 400
    assert ada.post("jobs:plan", {"run": "true", "priority": "urgent"}).status_code == 403


def test_the_levers_of_a_waiting_job_are_its_owners(ada, bob, eve, cast, taken):
    job = make.job(cast.ada, gpu="1", pool="train")
    answer = ada.get(f"jobs/{job.public_id}/levers").json()
    assert [one["text"] for one in answer["levers"]] == ["pool dev instead of train"] and answer["start"]["text"]
    assert bob.get(f"jobs/{job.public_id}/levers").status_code == 403
    assert eve.get(f"jobs/{job.public_id}/levers").status_code == 404


def test_a_job_that_runs_has_no_levers(ada, cast):
    job = make.job(cast.ada, gpu="1/4")
    make.start(job)
    told = {"job": job.public_id, "start": None, "levers": [], "whole": True}
    assert ada.get(f"jobs/{job.public_id}/levers").json() == told


def test_plans_have_a_limit_of_their_own(ada, settings):
    settings.TESSERA_RATES = {**conf.TESSERA_RATES, "plans": (1, 3600)}
    assert [ada.post("jobs:plan", {"run": "true"}).status_code for _ in range(2)] == [200, 429]


def test_a_plan_is_refused_as_the_submit_would_be(ada, cast):
    make.job(cast.ada, pool="dev")
    make.limit(cast.ada, jobs_waiting=1)
    asked = {"run": "true", "pool": "dev"}
    plan, submit = (ada.post(path, asked) for path in ("jobs:plan", "jobs"))
    assert plan.status_code == submit.status_code == 409 and plan.json()["code"] == "user_limit"
    assert plan.json()["detail"] == submit.json()["detail"]
