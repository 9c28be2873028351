"""An agent and the real portal, over real HTTP: from the invitation to cards that take work."""

import gzip

import pytest

from cluster.agents import revoke_agent
from cluster.models import Gpu
from events.record_and_publish import SYSTEM
from monitoring.models import CardNow
from monitoring.samples import pace
from runtimes.contract.node import NodeView
from scheduler.inventory.nodes import record_inventory
from tests import make
from tests.agent.sysfs import add_hca, add_pci
from tests.api_client import BASE, Api
from tests.runtimes.worlds import wait_for
from tests.web_process import running_web

KEY = {"Authorization": f"Bearer {make.AGENT_KEY}"}


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture(scope="module")
def web(django_db_setup):
    with running_web(host="127.0.0.1") as web:
        yield web.url


def take_inventory() -> dict[int, bool]:
    """{index: whether it takes work} of the cards of g1, which the engine lists without cards."""
    record_inventory([NodeView("g1", "10.0.0.1", "boot", 8_000, 65_536, (), (), ())])
    return dict(Gpu.objects.present().filter(node__name="g1").values_list("index", "healthy"))


def test_from_the_invitation_to_cards_that_take_work(machine, web, tmp_path, transactional_db):
    make.cast()
    add_hca(tmp_path, "mlx5_0", add_pci(tmp_path, "pci0000:16", "0000:17:00.0", numa=3))
    root = Api(make.token(make.admin()))
    token = root.post("agents:invite", {"node": "g1"}).json()["token"]

    def report(word: str = ""):
        return machine.run("--server", web, "--sys", str(tmp_path), "--once", TESSERA_AGENT_TOKEN=word)

    first = report(token)
    assert first.returncode == 0 and "GPU 7 is new: A100-40GB" in first.stderr, first.stderr
    assert take_inventory() == {}
    root.post("agents/g1:approve", {"seen": root.get("agents/g1").json()["seen"]})
    assert report().returncode == 0 and take_inventory() == dict.fromkeys(range(8), True)
    shown = root.get("nodes/g1").json()
    assert shown["topology"]["links"][0][7] == "NV12" and shown["facts"]["driver"] == "580.95.05"
    assert shown["gpus"][0]["enforcement"] == "watchdog" and shown["gpus"][3]["sellable"]["value"] == 40_531
    (hca,) = shown["topology"]["hcas"]
    assert (hca["name"], hca["active"], hca["near"]["0"], hca["near"]["7"]) == ("mlx5_0", True, "NODE", "SYS")
    machine.cards("lost 3")
    assert report().returncode == 0 and take_inventory() == {n: n != 3 for n in range(8)}
    revoke_agent(actor=SYSTEM, node_name="g1")
    refused = report()
    assert refused.returncode == 4 and "revoked" in refused.stderr


def test_what_cards_do_is_known_to_the_platform(machine, web, transactional_db):
    make.cast()
    machine.cards("count 2", "busy 1 40")
    root = Api(make.token(make.admin()))
    token = root.post("agents:invite", {"node": "g1"}).json()["token"]
    assert machine.run("--server", web, "--once", TESSERA_AGENT_TOKEN=token).returncode == 0
    root.post("agents/g1:approve", {"seen": root.get("agents/g1").json()["seen"]})
    take_inventory()
    machine.start("--server", web)
    newest = wait_for(lambda: {row.gpu.index: row for row in CardNow.objects.select_related("gpu")}, 30)
    assert (newest[0].used_mib, newest[0].power_w, newest[0].source) == (1029, 250, "measured")
    assert newest[0].busy_percent is None, "a single look is no mean"
    before = newest[1].up_ms
    busy = wait_for(lambda: [row for row in CardNow.objects.filter(gpu__index=1) if row.up_ms > before], 30)
    assert busy[0].busy_percent == pytest.approx(40, abs=2)


@pytest.mark.parametrize("body", ["[]", "{}", '{"run": "a/1", "ticks": [{"seq": 1}]}', '{"run": "a/1", "ticks": 7}'])
def test_samples_that_are_no_sense_are_dropped_and_answered(cast, body):
    agent = make.agent(cast.node, make.report(make.reported_gpu(0)))
    sent = Api(make.AGENT_KEY).client.post(
        f"{BASE}agents/{agent.node_name}:samples", body, content_type="application/json", headers=KEY
    )
    assert (sent.status_code, sent.json()["taken"]) == (200, 0) and not CardNow.objects.exists()


def test_agents_send_less_often_where_there_are_many_and_hardly_where_nobody_wants_it(cast, settings, monkeypatch):
    agent = make.agent(cast.node, make.report(make.reported_gpu(0)))
    tick = {"run": "a/1", "ticks": [{"seq": 1, "age_ms": 0, "up_ms": 0}]}

    def ask():
        where = f"{BASE}agents/{agent.node_name}:samples"
        return Api(make.AGENT_KEY).client.post(where, tick, content_type="application/json", headers=KEY).json()

    assert ask() == {"taken": 1, "next": 2, "every_s": settings.TESSERA_SAMPLE_S}
    monkeypatch.setattr(pace, "BODIES_PER_S", 1 / 25)
    assert ask()["every_s"] == 25
    settings.TESSERA_SAMPLE_S = 0
    assert ask() == {"taken": 0, "next": 0, "every_s": pace.NEVER_S}


TICK = b'{"run": "a/1", "ticks": [{"seq": 1, "age_ms": 0, "up_ms": 0}]}'
BOMB = gzip.compress(b"x" * 10_000_000)


@pytest.mark.parametrize(("body", "status"), [("{", 400), ("x" * 65_537, 413)])
def test_a_body_that_is_no_json_or_too_large_is_refused(cast, body, status):
    assert send_samples(cast, body).status_code == status


PACKED = [(gzip.compress(TICK), 200), (TICK, 400), (BOMB, 413)]


@pytest.mark.parametrize(("body", "status"), PACKED, ids=["packed", "not packed", "too large"])
def test_a_packed_body_is_unpacked_up_to_the_same_size(cast, body, status):
    assert len(BOMB) < 65_536
    assert send_samples(cast, body, **{"Content-Encoding": "gzip"}).status_code == status


def send_samples(cast, body, **headers: str):
    make.agent(cast.node, make.report(make.reported_gpu(0)))
    where = f"{BASE}agents/n1:samples"
    return Api(make.AGENT_KEY).client.post(where, body, content_type="application/json", headers=KEY | headers)


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
