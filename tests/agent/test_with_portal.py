"""An agent and the real portal, over real HTTP: from the invitation to cards that take work."""

import pytest

from cluster.agents import revoke_agent
from cluster.models import Gpu
from events.record_and_publish import SYSTEM
from runtimes.contract.node import NodeView
from scheduler.inventory.nodes import record_inventory
from tests import make
from tests.api_client import Api
from tests.web_process import running_web


@pytest.fixture(scope="module")
def web(django_db_setup):
    with running_web(host="127.0.0.1") as web:
        yield web.url


def take_inventory() -> dict[int, bool]:
    """{index: whether it takes work} of the cards of g1, which the engine lists without cards."""
    record_inventory([NodeView("g1", "10.0.0.1", "boot", 8_000, 65_536, (), (), ())])
    return dict(Gpu.objects.present().filter(node__name="g1").values_list("index", "healthy"))


def test_from_the_invitation_to_cards_that_take_work(machine, web, transactional_db):
    make.cast()
    root = Api(make.token(make.admin()))
    token = root.post("agents:invite", {"node": "g1"}).json()["token"]

    def report(word: str = ""):
        return machine.run("--server", web, "--once", TESSERA_AGENT_TOKEN=word)

    first = report(token)
    assert first.returncode == 0 and "GPU 7 is new: A100-40GB" in first.stderr, first.stderr
    assert take_inventory() == {}
    root.post("agents/g1:approve", {"seen": root.get("agents/g1").json()["seen"]})
    assert report().returncode == 0 and take_inventory() == dict.fromkeys(range(8), True)
    shown = root.get("nodes/g1").json()
    assert shown["topology"]["links"][0][7] == "NV12" and shown["facts"]["driver"] == "580.95.05"
    assert shown["gpus"][0]["enforcement"] == "watchdog" and shown["gpus"][3]["sellable"]["value"] == 40_531
    machine.cards("lost 3")
    assert report().returncode == 0 and take_inventory() == {n: n != 3 for n in range(8)}
    revoke_agent(actor=SYSTEM, node_name="g1")
    refused = report()
    assert refused.returncode == 4 and "revoked" in refused.stderr


def test_the_instances_of_a_card_take_work_in_its_stead(machine, web, transactional_db):
    make.cast()
    machine.cards("count 2", "mig 1", "instance 10 3", "instance 14 1")
    root = Api(make.token(make.admin()))
    token = root.post("agents:invite", {"node": "g1"}).json()["token"]
    first = machine.run("--server", web, "--once", TESSERA_AGENT_TOKEN=token)
    assert first.returncode == 0 and "GPU 1:4 is new: A100-40GB-1g.5gb with 5.1 GB" in first.stderr, first.stderr
    root.post("agents/g1:approve", {"seen": root.get("agents/g1").json()["seen"]})
    assert take_inventory() == {0: True, 1100: True, 1104: True}
    shown = {gpu["index"]: gpu for gpu in root.get("nodes/g1").json()["gpus"]}
    assert (shown[1104]["enforcement"], shown[1104]["max_slices"], shown[1104]["shared"]) == ("mig", 1, False)
    assert shown[1104]["place"] == "1:4"
    machine.cards("count 2", "mig 1", "instance 10 3", "instance 14 1", "lost 1")
    assert machine.run("--server", web, "--once").returncode == 0
    assert take_inventory() == {0: True, 1100: False, 1104: False}


def test_simulated_cards_are_marked_so(machine, web, transactional_db):
    make.cast()
    root = Api(make.token(make.admin()))
    token = root.post("agents:invite", {"node": "g1"}).json()["token"]
    assert machine.run("--server", web, "--once", "--simulated", TESSERA_AGENT_TOKEN=token).returncode == 0
    root.post("agents/g1:approve", {"seen": root.get("agents/g1").json()["seen"]})
    take_inventory()
    assert set(Gpu.objects.filter(node__name="g1").values_list("simulated", "enforcement")) == {(True, "simulated")}
