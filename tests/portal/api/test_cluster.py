"""Machines, cards, queue and quotas by REST: everybody sees all of it, and of others no more than DESIGN allows."""

import json

import pytest
from django.utils import timezone

from cluster.agents import approve_agent, check_agents
from cluster.models import Gpu, NodeState
from events.record_and_publish import SYSTEM
from jobs.models import Job
from monitoring.models import CardNow, TaskNow
from runtimes.contract.node import NodeView
from scheduler.inventory.nodes import record_inventory
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
SEEN = NodeView("n2", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())
SECRETS = ("secret-plan", "ada", "hush", "echo it")


@pytest.fixture
def running(cast):
    job = make.job(cast.ada, name="secret-plan", run="echo it", gpu="1/4", pool="dev", time="1h", env={"KEY": "hush"})
    make.start(job)
    return job


@pytest.fixture
def waiting(cast):
    job = make.job(cast.ada, name="secret-plan", run="echo it", gpu="1/2", pool="dev", env={"KEY": "hush"})
    Job.objects.filter(pk=job.pk).update(
        wait_reasons=[{"code": "held", "params": {"who": "ada"}}], wait_position=1, wait_of=1
    )
    return job


def assert_no_secret(response, *jobs):
    text = json.dumps(response.json(), ensure_ascii=False)
    ids = [str(value) for job in jobs for value in (job.public_id, job.uuid, job.tasks.get().uuid)]
    assert response.status_code == 200 and not [word for word in (*SECRETS, *ids) if word in text]


def test_the_stranger_is_told_the_owner_and_not_what_it_is(eve, running, waiting):
    shown = eve.get("queue").json()
    rows = [*shown["waiting"], *shown["active"], *eve.get("gpus").json()["results"][0]["slices"]]
    assert {(row["owner"], row["team"], row["job"], row["name"]) for row in rows} == {("ada", "nlp", None, None)}
    assert "secret-plan" not in json.dumps(shown)


def test_by_policy_the_stranger_sees_the_queue_whole_and_nobodys_names(eve, running, waiting, settings):
    settings.TESSERA_VISIBILITY = "team"
    response = eve.get("queue")
    assert_no_secret(response, running, waiting)
    (row,), (active,) = response.json()["waiting"], response.json()["active"]
    assert (row["team"], row["gpu"], row["nodes"], row["state"], row["reason"]) == ("nlp", "1/2", 1, "queued", "held")
    assert row["reason_text"] == "held by someone" and row["reasons"] == []
    assert (row["full"], row["job"], row["priority"], row["submitted_at"], row["link"]) == (False, *[None] * 4)
    assert active["expected_end_at"] and active["started_at"] is None


def test_the_team_sees_its_rows_whole(bob, running, waiting):
    shown = bob.get("queue", {"pool": "dev"}).json()
    assert (
        shown["waiting"][0]["job"] == waiting.public_id and shown["waiting"][0]["reasons"][0]["text"] == "held by ada"
    )
    assert shown["active"][0]["owner"] == "ada" and shown["active"][0]["own"] is False
    assert bob.get("queue", {"pool": "train"}).json()["waiting"] == []


def test_by_policy_the_stranger_sees_slices_and_nodes_without_names(eve, running, settings):
    settings.TESSERA_VISIBILITY = "team"
    for path in ("gpus", "nodes", "nodes/n1"):
        assert_no_secret(eve.get(path), running)
    (part,) = eve.get("gpus").json()["results"][0]["slices"]
    assert (part["team"], part["memory"]["value"], part["compute_percent"], part["gpu"]) == (
        "nlp", 8127, 25, {"value": 250, "text": "¼"}
    )  # fmt: skip
    assert (part["job"], part["task"], part["owner"], part["rank"]) == (None, None, None, None)


def test_private_visibility_names_no_team(eve, running, waiting, settings):
    settings.TESSERA_VISIBILITY = "private"
    for path in ("queue", "gpus", "nodes"):
        assert '"nlp"' not in json.dumps(eve.get(path).json())
    assert eve.get("queue").json()["waiting"][0]["team"] is None


def test_the_owner_finds_the_own_slice(ada, running):
    card = ada.get("gpus", {"node": "n1", "pool": "dev"}).json()["results"][0]
    assert card["simulated"] is True and card["enforcement"] == "simulated"
    assert (card["sellable"]["value"], card["free"]["value"], card["free_percent"]) == (32511, 32511 - 8127, 75)
    assert card["slices"][0]["job"] == running.public_id and card["slices"][0]["own"] is True


def test_a_node_says_what_it_has_and_what_is_held(ada, running):
    node = ada.get("nodes/n1").json()
    assert (node["state"], node["pool"], node["cpu"]) == ("ready", "dev", {"value": 16000, "text": "16"})
    assert node["cpu_held"]["value"] == running.gang[0]["request"]["cpu_milli"] == node["tasks"][0]["cpu"]["value"]
    assert len(node["gpus"]) == 2 and node["tasks"][0]["job"] == running.public_id
    assert ada.get("nodes/n2").status_code == 404


def test_pools_say_what_they_have(ada, cast):
    dev, train = ada.get("pools").json()["results"]
    assert (dev["name"], dev["shared"], dev["max_slices_per_gpu"], dev["gpus"]) == ("dev", True, 8, 1)
    assert (train["shared"], train["max_slices_per_gpu"], train["models"]) == (False, 1, ["V100-32GB"])
    assert ada.get("pools/dev").json() == dev
    assert ada.get("pools/nothing").status_code == 404


def test_capacity_is_what_is_free_and_what_the_limit_leaves(ada, cast, running):
    cast.nlp.quotas.filter(pool=cast.dev).update(gpu_milli_limit=500)
    dev, train = ada.get("capacity").json()["results"]
    assert (dev["free"]["value"], dev["cards_free"], dev["cards_total"]) == (750, 0, 1)
    assert dev["may"] == {"value": 250, "text": "¼"} and train["may"] == {"value": None, "text": ""}


def test_capacity_counts_no_machine_that_was_never_let_in_or_is_gone(ada, cast):
    for number in range(2, 6):
        closed = make.node(f"n{number}", pool=cast.dev, state=NodeState.NOT_READY)
        make.gpu(closed)
    dev = ada.get("capacity").json()["results"][0]
    assert (dev["cards_free"], dev["cards_total"], dev["total"]["value"]) == (1, 1, 1000)


def test_capacity_counts_a_machine_that_is_drained_for_a_while(ada, cast):
    make.gpu(make.node("n2", pool=cast.dev, state=NodeState.CORDONED))
    dev = ada.get("capacity").json()["results"][0]
    assert (dev["cards_free"], dev["cards_total"]) == (1, 2)


def test_capacity_counts_no_card_that_waits_for_approval(ada, cast):
    agent = make.agent("n2", make.report(make.reported_gpu(1)))
    record_inventory([SEEN])
    assert count_cards(ada) == 2
    (judged,) = check_agents([agent])
    approve_agent(actor=SYSTEM, node_name="n2", seen=judged.seen)
    record_inventory([SEEN])
    assert count_cards(ada) == 3


def count_cards(ada: Api) -> int:
    return sum(pool["cards_total"] for pool in ada.get("capacity").json()["results"])


@pytest.mark.parametrize("limit", [{"gpu_milli": 250}, {"jobs_running": 1}])
def test_capacity_is_within_ones_own_limits_too(ada, cast, running, limit):
    make.limit(cast.ada, **limit)
    dev, train = ada.get("capacity").json()["results"]
    assert (dev["may"]["value"], train["may"]["value"]) == (0, 0)


def test_quotas_are_those_of_ones_teams_with_what_is_held(ada, eve, cast, running):
    cast.nlp.quotas.filter(pool=cast.dev).update(gpu_milli_limit=2000, gpu_milli_guarantee=1000)
    make.limit(cast.ada, gpu_milli=500, jobs_running=4)
    shown = ada.get("quotas").json()
    (dev, train) = shown["results"]
    assert {(row["team"], row["pool"]) for row in shown["results"]} == {("nlp", "dev"), ("nlp", "train")}
    assert dev["gpu"] == {
        "used": {"value": 250, "text": "¼"},
        "guarantee": {"value": 1000, "text": "1"},
        "limit": {"value": 2000, "text": "2"},
    }
    assert train["gpu"]["limit"] == {"value": None, "text": ""}
    assert shown["me"]["gpu"]["limit"]["value"] == 500 and shown["me"]["jobs_running"]["used"]["value"] == 1
    assert {row["team"] for row in eve.get("quotas").json()["results"]} == {"vision"}
    assert eve.get("quotas").json()["me"]["gpu"]["used"]["value"] == 0


def test_a_parents_quota_counts_what_its_children_hold(cast, ada, running):
    parent = make.team("labs")
    make.quota(parent, cast.dev)
    cast.nlp.parent = parent
    cast.nlp.save()
    lead = make.user("pat", parent)
    assert quota_of(lead)["gpu"]["used"]["value"] == 250


def quota_of(person):
    return Api(make.token(person)).get("quotas").json()["results"][0]


def test_everybody_may_ask_for_the_version(nobody):
    assert nobody.get("version").json() == {"version": "0.1.0", "api": "1", "ssh": None}


def test_an_admin_keeps_one_card_from_new_work_and_takes_it_back(ada, cast):
    root, path = Api(make.token(make.admin())), f"gpus/{cast.gpus[0].uuid}"
    closed = root.post(f"{path}:cordon", {"why": "fans are replaced"})
    assert (closed.status_code, closed.json()["healthy"], closed.json()["fault"]) == (200, False, "fans are replaced")
    assert [card["healthy"] for card in ada.get("gpus").json()["results"]] == [False, True]
    assert root.post(f"{path}:uncordon").json()["healthy"] is True
    assert root.post(f"{path}:cordon", {}).json()["errors"][0]["pointer"] == "/why"
    assert root.post(f"{path}:cordon", {"why": " "}).json()["errors"][0]["pointer"] == "/why"
    assert ada.post(f"{path}:cordon", {"why": "mine"}).status_code == 403
    assert root.post("gpus/GPU-none:uncordon").status_code == 404


def test_an_admin_drains_a_machine_and_takes_it_back(ada, running):
    root = Api(make.token(make.admin()))
    drained = root.post("nodes/n1:drain", {"why": "new fans"})
    assert (drained.status_code, drained.json()["state"]) == (200, "draining")
    assert [task["job"] for task in drained.json()["tasks"]] == [running.public_id]
    assert ada.get("nodes/n1").json()["state"] == "draining"
    assert root.post("nodes/n1:cordon", {}).json()["state"] == "cordoned"
    assert root.post("nodes/n1:uncordon", {}).json()["state"] == "ready"
    assert ada.post("nodes/n1:drain", {}).status_code == 403
    assert root.post("nodes/n9:drain", {}).status_code == 404
    assert root.post("nodes/n1:drain", {"why": "x" * 201}).json()["errors"][0]["pointer"] == "/why"


def test_the_use_of_a_card_is_told_and_null_where_it_is_not_known(ada, eve, running, cast):
    card = Gpu.objects.get(index=0)
    assert [one["use"] for one in ada.get("gpus").json()["results"]] == [None, None]
    known = {"gpu": card, "at": timezone.now(), "term": 1, "up_ms": 1, "source": "simulated"}
    CardNow.objects.create(**known, busy_percent=12.5, used_mib=6000, power_w=90)
    (task,) = running.newest_tasks
    shares = [{"uuid": card.uuid, "source": "simulated", "up_ms": 1, "busy_percent": 12.5, "used_mib": 6000}]
    TaskNow.objects.create(task=task, at=timezone.now(), term=1, up_ms=1, shares=shares)
    use = ada.get("nodes/n1").json()["gpus"][0]["use"]
    assert (use["busy_percent"], use["used"]["value"], use["power_w"], use["source"]) == (12.5, 6000, 90, "simulated")
    assert use["temperature_c"] is None
    for caller, activity in ((ada, 50.0), (eve, None)):
        first = caller.get("gpus").json()["results"][0]
        assert first["use"]["busy_percent"] == 12.5 and first["slices"][0]["activity"] == activity
