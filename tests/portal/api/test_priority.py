"""The price of high priority by REST."""

import pytest

from cluster.models import HighPriority, Pool
from events.models import Event
from jobs.models import Job
from portal.wording.events import describe_event
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db

ASK = {"run": "true", "gpu": 1, "pool": "train", "time": "4h", "priority": "high"}


@pytest.fixture
def dear(cast):
    Pool.objects.update(high_priority=HighPriority.CONSENT)


@pytest.fixture
def budget(cast):
    Pool.objects.update(high_priority=HighPriority.BUDGET, high_gpu_hours=10)


@pytest.mark.parametrize("path", ["jobs", "jobs:plan"])
def test_who_can_consent_is_named_by_submit_and_plan(ada, bob, dear, path):
    answer = ada.post(path, ASK)
    body = answer.json()
    assert (answer.status_code, body["code"], body["params"]["leads"]) == (403, "priority_needs_consent", ["bob"])
    assert body["errors"][0]["pointer"] == "/priority"
    assert body["detail"] == (
        "In pool train, high priority needs the consent of a lead of the team nlp: bob. Submit it with normal "
        "priority, and ask one of them to raise it while it waits."
    )
    assert not Job.objects.exists()
    assert bob.post(path, ASK).status_code in (200, 201)


def test_a_lead_consents_by_patch_and_history_says_who(cast, ada, bob, eve, dear):
    job = make.job(cast.ada, **{**ASK, "priority": "normal"})
    path = f"jobs/{job.public_id}"
    assert ada.patch(path, {"priority": "high"}).status_code == 403
    assert eve.patch(path, {"priority": "high"}).status_code == 404
    assert bob.patch(path, {"priority": "high", "gpu": 1}).status_code == 403
    assert Job.objects.get(pk=job.pk).priority == 1
    answer = bob.patch(path, {"priority": "high"})
    assert (answer.status_code, answer.json()["priority"]) == (200, "high")
    event = Event.objects.get(verb="changed")
    assert (event.actor, describe_event(event)) == ("bob", "Changed while waiting: priority from normal to high")


def test_a_spent_budget_answers_with_what_is_left_and_when_there_is_more(cast, ada, budget):
    for _ in range(2):
        assert ada.post("jobs", ASK).status_code == 201
    answer = ada.post("jobs", ASK)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "priority_budget_spent")
    assert (body["params"]["left"], body["params"]["asked"], body["params"]["budget"]) == ("2", "4", "10")
    assert "2 of its 10 GPU hours" in body["detail"] and body["params"]["refills_at"] in body["detail"]
    (line,) = [one for one in ada.get("quotas").json()["results"] if one["pool"] == "train"]
    told = line["high_priority"]
    assert (told["price"], told["budget"]["asked"], told["budget"]["left"]) == ("budget", 8.0, 2.0)
    assert told["text"].startswith("High priority: 2 of 10 GPU hours are left this week (0 used, 8 asked for")


def test_retries_of_many_are_priced_one_by_one(cast, ada, bob, dear):
    jobs = [make.job(person, **ASK | {"priority": said}) for person, said in ((cast.bob, "high"), (cast.ada, "normal"))]
    for job in jobs:
        make.start(job)
        make.end(job)
    Job.objects.update(user=cast.ada)
    results = ada.post("jobs:retry", {"ids": [job.public_id for job in jobs]}).json()["results"]
    assert [(one["ok"], one["error"] and one["error"]["code"]) for one in results] == [
        (False, "priority_needs_consent"),
        (True, None),
    ]


def test_an_admin_sets_the_price_of_a_pool(cast, ada):
    rita = Api(make.token(make.admin()))
    answer = rita.patch("pools/dev", {"high_priority": "budget", "high_gpu_hours": 24})
    assert (answer.status_code, answer.json()["high_gpu_hours"]) == (200, 24)
    assert rita.patch("pools/dev", {"high_priority": "gold"}).json()["errors"][0]["pointer"] == "/high_priority"
    assert ada.patch("pools/dev", {"high_priority": "free"}).status_code == 403


def test_a_new_budget_counts_what_waits_in_several_pools_and_takes_nothing_from_it(cast, ada):
    rita = Api(make.token(make.admin()))
    path = f"jobs/{ada.post('jobs', {**ASK, 'pool': None}).json()['id']}"
    assert rita.patch("pools/dev", {"high_priority": "budget", "high_gpu_hours": 3}).status_code == 200
    job = ada.get(path).json()
    assert (job["priority"], job["pools"]) == ("high", ["train", "dev"])
    (line,) = [one for one in ada.get("quotas").json()["results"] if one["pool"] == "dev"]
    assert "0 of 3 GPU hours are left this week (0 used, 4 asked for by jobs" in line["high_priority"]["text"]
    assert ada.post("jobs", {**ASK, "pool": "dev", "time": "1h"}).json()["code"] == "priority_budget_spent"
