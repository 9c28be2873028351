"""Maintenance by REST: everybody reads it, admins plan, change and end it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Maintenance
from tests import make
from tests.api_client import BASE, Api

pytestmark = pytest.mark.django_db


def plan(begins_in_s: float = 600, lasts_s: float = 3600, **more) -> dict:
    begins = timezone.now() + timedelta(seconds=begins_in_s)
    times = {"begins_at": begins.isoformat(), "ends_at": (begins + timedelta(seconds=lasts_s)).isoformat()}
    return {"why": "new fans", "nodes": ["n1"], **times, **more}


def patch(api: Api, path: str, body: dict):
    return api.client.patch(BASE + path, body, content_type="application/json", headers=api.headers)


@pytest.fixture
def root(cast):
    return Api(make.token(make.admin()))


def test_an_admin_plans_one_and_everybody_reads_it(root, ada, eve):
    made = root.post("maintenance", plan(stops=True))
    shown = made.json()
    assert made.status_code == 201 and made["Location"].endswith(f"/maintenance/{shown['id']}")
    assert (shown["nodes"], shown["pool"], shown["stops"], shown["has_begun"]) == (["n1"], None, True, False)
    assert shown["planned_by"] == "rita"
    for caller in (ada, eve):
        assert caller.get(f"maintenance/{shown['id']}").json() == shown
        assert caller.get("maintenance").json()["results"] == [shown]
        (planned,) = caller.get("nodes/n1").json()["maintenance"]
        assert planned == {name: shown[name] for name in ("id", "why", "begins_at", "ends_at", "stops")}


def test_it_is_changed_and_called_off(root):
    at = f"maintenance/{root.post('maintenance', plan()).json()['id']}"
    assert patch(root, at, {"pool": "train"}).json()["pool"] == "train"
    changed = patch(root, at, {"nodes": [], "why": ""}).json()
    assert (changed["nodes"], changed["why"], changed["pool"]) == ([], "", "train")
    assert root.delete(at).status_code == 204 and root.get(at).status_code == 404


def test_one_that_has_begun_ends_now_and_stays_as_history(root):
    at = f"maintenance/{root.post('maintenance', plan(begins_in_s=-60)).json()['id']}"
    assert root.get(at).json()["has_begun"] is True
    assert root.delete(at).status_code == 204
    assert root.get("maintenance").json()["results"] == [] and root.get(at).status_code == 200


@pytest.mark.parametrize(
    ("wrong", "pointer", "code"),
    [
        ({"nodes": ["n1", "n9"]}, "/nodes/1", "unknown_node"),
        ({"pool": "moon"}, "/pool", "unknown_pool"),
        ({"pool": "tr\u0000ain"}, "/pool", "unknown_pool"),
        ({"pool": ["train"]}, "/pool", "unknown_pool"),
        ({"nodes": []}, "/nodes", "maintenance_nowhere"),
        ({"lasts_s": 0}, "/ends_at", "maintenance_backwards"),
        ({"begins_in_s": -60, "lasts_s": 1}, "/ends_at", "maintenance_over"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(root, wrong, pointer, code):
    answer = root.post("maintenance", plan(**wrong))
    assert answer.status_code == 400
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert not Maintenance.objects.exists()


def test_nobody_but_an_admin_plans_changes_or_ends_one(cast, ada, bob, eve):
    row = make.maintenance(cast.node, begins_in_s=600)
    for caller in (ada, bob, eve, Api(make.token(make.user("greta", platform_role="auditor")))):
        assert caller.post("maintenance", plan()).status_code == 403
        assert patch(caller, f"maintenance/{row.pk}", {"why": "mine"}).status_code == 403
        assert caller.delete(f"maintenance/{row.pk}").status_code == 403
    assert Maintenance.objects.get().why == ""


def test_a_machine_in_maintenance_has_nothing_free(cast, ada):
    before = ada.get("capacity").json()["results"][0]
    make.maintenance(cast.node, begins_in_s=-60)
    after = ada.get("capacity").json()["results"][0]
    assert before["cards_free"] == 1 and after["cards_free"] == 0
    assert after["free"]["value"] == 0 and after["cards_total"] == 1
    assert before["maintenance"] == [] and [one["nodes"] for one in after["maintenance"]] == [["n1"]]
