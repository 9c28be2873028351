"""Agents by REST: an agent speaks for its own machine only, and never raises what an admin approved."""

import pytest
from django.utils import timezone

from cluster.models import Agent, Enrolment, Gpu
from events.models import Event
from runtimes.contract.node import NodeView
from scheduler.inventory.nodes import convert_card, record_inventory
from scheduler.reconcile.compare import load_rows
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
OTHER_KEY = "tag_" + "o" * 43


@pytest.fixture
def root(cast):
    return Api(make.token(make.admin()))


@pytest.fixture
def agent(cast):
    """Of the machine g1, which the engine lists without cards."""
    make.agent("g1")
    return Api(make.AGENT_KEY)


def take_inventory(*names: str) -> None:
    record_inventory([NodeView(name, "10.0.0.1", "boot", 8_000, 65_536, (), (), ()) for name in names or ("g1",)])


def approve(root: Api, name: str = "g1"):
    return root.post(f"agents/{name}:approve", {"seen": root.get(f"agents/{name}").json()["seen"]})


def cards(name: str = "g1") -> dict:
    rows = Gpu.objects.present().filter(node__name=name)
    return {gpu.index: (gpu.model, gpu.sellable_mib, gpu.healthy) for gpu in rows}


def codes(answer) -> list[str]:
    return [one["code"] for one in answer.json()["held_back"]]


def test_an_admin_invites_a_machine_and_its_agent_enrols_once(root):
    invited = root.post("agents:invite", {"node": "g1"})
    token = invited.json()["token"]
    assert invited.status_code == 201 and token in invited.json()["command"]
    enrolled = Api().post("agents:enrol", {"token": token, "key": make.AGENT_KEY})
    assert enrolled.status_code == 200 and enrolled.json()["node"] == "g1"
    assert Api().post("agents:enrol", {"token": token, "key": make.AGENT_KEY}).status_code == 200  # the answer was lost
    again = Api().post("agents:enrol", {"token": token, "key": OTHER_KEY})
    assert (again.status_code, again.json()["code"]) == (403, "enrolment_used")
    assert "g1" in again.json()["detail"]
    stored = [*Agent.objects.values_list("digest", flat=True), *Enrolment.objects.values_list("digest", flat=True)]
    assert not {token, make.AGENT_KEY} & set(stored)


def test_a_token_that_is_unknown_old_or_replaced_lets_nobody_in(root):
    first = root.post("agents:invite", {"node": "g1"}).json()["token"]
    second = root.post("agents:invite", {"node": "g1"}).json()["token"]
    for token in ("ten_made-up", first):
        assert Api().post("agents:enrol", {"token": token, "key": make.AGENT_KEY}).json()["code"] == "bad_enrolment"
    Enrolment.objects.update(expires_at=timezone.now())
    late = Api().post("agents:enrol", {"token": second, "key": make.AGENT_KEY})
    assert late.json()["code"] == "enrolment_expired" and not Agent.objects.exists()


def test_a_key_of_another_machine_or_of_no_length_is_refused(root, agent):
    token = root.post("agents:invite", {"node": "g2"}).json()["token"]
    copied = Api().post("agents:enrol", {"token": token, "key": make.AGENT_KEY})
    assert (copied.status_code, copied.json()["code"]) == (409, "agent_key_taken")
    short = Api().post("agents:enrol", {"token": token, "key": "tag_short"})
    assert (short.status_code, short.json()["errors"][0]["pointer"]) == (400, "/key")
    assert Api().post("agents:enrol", {"token": token, "key": OTHER_KEY}).status_code == 200


def test_nobody_but_an_admin_invites_approves_or_revokes(agent, ada, bob, eve):
    auditor = Api(make.token(make.user("greta", platform_role="auditor")))
    for caller in (ada, bob, eve, auditor):
        assert caller.post("agents:invite", {"node": "g2"}).status_code == 403
        assert caller.post("agents/g1:approve", {"seen": ""}).status_code == 403
        assert caller.delete("agents/g1").status_code == 403


def test_an_agent_speaks_for_its_own_machine_only(agent):
    make.agent("g2", key=OTHER_KEY)
    answer = agent.post("agents/g2:report", make.report(make.reported_gpu()))
    assert (answer.status_code, answer.json()["code"]) == (403, "not_your_machine")
    assert "g1" in answer.json()["detail"] and Agent.objects.get(node_name="g2").report == {}
    assert agent.post("agents/nowhere:report", make.report()).json()["code"] == "not_your_machine"


def test_the_key_of_an_agent_opens_nothing_else_and_no_token_reports(agent, root):
    assert agent.get("nodes").json()["code"] == agent.delete("agents/g1").json()["code"] == "bad_token"
    assert root.post("agents/g1:report", make.report()).json()["code"] == "not_an_agent"
    assert agent.get("agents/g1:report").status_code == agent.delete("agents/g1:report").status_code == 405
    unknown = Api("tag_" + "u" * 43).post("agents/g1:report", make.report())
    assert (unknown.status_code, unknown.json()["code"]) == (401, "bad_agent_key")


def test_a_revoked_key_speaks_no_more_and_a_new_token_makes_a_new_key(agent, root):
    assert root.delete("agents/g1").status_code == 204
    assert agent.post("agents/g1:report", make.report()).status_code == 401
    assert root.get("agents/g1").json()["state"] == "revoked"
    make.agent("g1", key=OTHER_KEY)
    assert Api(OTHER_KEY).post("agents/g1:report", make.report()).status_code == 200
    assert agent.post("agents/g1:report", make.report()).status_code == 401


def test_cards_take_work_when_an_admin_approved_them(agent, root):
    answer = agent.post("agents/g1:report", make.report(make.reported_gpu(0), make.reported_gpu(1)))
    assert codes(answer) == ["new_card", "new_card"]
    take_inventory()
    assert cards() == {}
    assert approve(root).json()["held_back"] == []
    take_inventory()
    assert cards() == {0: ("V100-32GB", 32_511, True), 1: ("V100-32GB", 32_511, True)}
    (event,) = Event.objects.filter(kind="agent", verb="approved")
    assert event.actor == "rita" and len(event.params["gpus"]) == 2


def test_an_approval_is_of_what_was_seen(agent, root):
    agent.post("agents/g1:report", make.report(make.reported_gpu(0)))
    seen = root.get("agents/g1").json()["seen"]
    agent.post("agents/g1:report", make.report(make.reported_gpu(0, memory_mib=327_680)))
    answer = root.post("agents/g1:approve", {"seen": seen})
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_state")
    assert Agent.objects.get().approved == {}


def test_capacity_times_ten_waits_and_what_was_approved_goes_on(agent, root):
    agent.post("agents/g1:report", make.report(make.reported_gpu(0)))
    approve(root)
    larger = make.report(make.reported_gpu(0, memory_mib=327_680), make.reported_gpu(1))
    assert codes(agent.post("agents/g1:report", larger)) == ["more_memory", "new_card"]
    take_inventory()
    assert cards() == {0: ("V100-32GB", 32_511, True)}
    other = make.report(make.reported_gpu(0, model="H100-80GB", product="NVIDIA H100"))
    assert codes(agent.post("agents/g1:report", other)) == ["other_model"]
    take_inventory()
    assert cards() == {0: ("V100-32GB", 32_511, True)}


def test_a_card_that_shrinks_is_believed_at_once(agent, root):
    agent.post("agents/g1:report", make.report(make.reported_gpu(0)))
    approve(root)
    assert codes(agent.post("agents/g1:report", make.report(make.reported_gpu(0, memory_mib=16_384)))) == []
    take_inventory()
    assert cards()[0][1] == 16_384 - 257
    assert codes(agent.post("agents/g1:report", make.report(make.reported_gpu(0)))) == []


def test_the_machines_cores_and_memory_are_the_engines_word(agent, root):
    host = {"cpu_milli": 640_000, "memory_mib": 2_621_440}
    agent.post("agents/g1:report", make.report(host=host))
    take_inventory()
    shown = root.get("nodes/g1").json()
    assert (shown["cpu"]["value"], shown["memory"]["value"]) == (8_000, 65_536)


def test_a_broken_card_is_out_of_service_and_the_others_stay(agent, root):
    whole = make.report(make.reported_gpu(0), make.reported_gpu(1))
    agent.post("agents/g1:report", whole)
    approve(root)
    broken = make.report(make.reported_gpu(0), make.reported_gpu(1, fault="It fell off the bus."))
    agent.post("agents/g1:report", broken)
    take_inventory()
    assert [sound for *_, sound in cards().values()] == [True, False]
    (shown,) = (gpu for gpu in root.get("gpus", {"node": "g1"}).json()["results"] if gpu["index"] == 1)
    assert (shown["healthy"], shown["fault"]) == (False, "It fell off the bus.")
    assert root.get("agents/g1").json()["faults"] == ["GPU 1: It fell off the bus."]


def test_a_card_of_another_machine_counts_there(agent, root):
    agent.post("agents/g1:report", make.report(make.reported_gpu(0)))
    approve(root)
    take_inventory()
    make.agent("g2", make.report(make.reported_gpu(0)), key=OTHER_KEY)
    (held,) = root.get("agents/g2").json()["held_back"]
    assert held["code"] == "card_elsewhere" and "g1" in held["text"]
    approve(root, "g2")
    take_inventory("g1", "g2")
    assert (len(cards("g1")), len(cards("g2"))) == (1, 0)


def test_two_liars_who_claim_one_card_do_not_stop_the_inventory(agent, root):
    agent.post("agents/g1:report", make.report(make.reported_gpu(0)))
    make.agent("g2", make.report(make.reported_gpu(0)), key=OTHER_KEY)
    approve(root, "g1"), approve(root, "g2")
    take_inventory("g1", "g2")
    assert (len(cards("g1")), len(cards("g2"))) == (1, 0)


def test_a_card_that_moved_to_another_machine_moves_with_its_approval(agent, root):
    agent.post("agents/g1:report", make.report(make.reported_gpu(0)))
    approve(root)
    take_inventory()
    agent.post("agents/g1:report", make.report())
    take_inventory()
    make.agent("g2", make.report(make.reported_gpu(0)), key=OTHER_KEY)
    approve(root, "g2")
    take_inventory("g1", "g2")
    assert (len(cards("g1")), len(cards("g2"))) == (0, 1)


def test_instances_of_a_card_are_approved_as_cards_are_and_go_when_it_is_cut_anew(agent, root):
    part = {"model": "V100-32GB-1g.4gb", "product": "NVIDIA V100 MIG 1g.4gb", "memory_mib": 4000, "reserved_mib": 0}
    cut = make.reported_gpu(0, mig=True)
    parts = [make.reported_gpu(n, uuid=f"MIG-0000000{n}-0000", part_of=cut["uuid"], **part) for n in (1000, 1001)]
    found = {"mode": "slice", "evidence": "It was tried."}
    assert codes(agent.post("agents/g1:report", make.report(cut, *parts))) == ["new_card", "new_card"]
    approve(root)
    agent.post("agents/g1:report", make.report(cut, *parts, make.reported_gpu(2), enforcement=found))
    approve(root)
    take_inventory()
    assert {n: mib for n, (_, mib, _) in cards().items()} == {2: 32_511, 1000: 4000, 1001: 4000}
    modes = dict(Gpu.objects.filter(node__name="g1").values_list("index", "enforcement"))
    assert modes == {2: "slice", 1000: "mig", 1001: "mig"}
    larger = {**parts[0], "memory_mib": 8000}
    assert codes(agent.post("agents/g1:report", make.report(cut, larger))) == ["more_memory"]
    take_inventory()
    assert {n: mib for n, (_, mib, _) in cards().items()} == {1000: 4000}
    agent.post("agents/g1:report", make.report(cut))
    take_inventory()
    assert cards() == {}


def test_cards_in_mig_mode_are_shown_and_not_offered(agent, root):
    said = make.report(make.reported_gpu(0, mig=True), make.reported_gpu(1))
    assert [one["index"] for one in agent.post("agents/g1:report", said).json()["held_back"]] == [1]
    approve(root)
    take_inventory()
    assert list(cards()) == [1] and root.get("agents/g1").json()["gpus"][0]["mig"] is True
    assert root.get("nodes/g1").json()["topology"]["links"] == [["X"]]


def test_what_holds_slices_and_cores_there_is_what_the_agent_found(agent, root):
    found = {"mode": "slice", "evidence": "It was tried."}
    host = {**make.report()["host"], "cpu_pinning": "static"}
    said = make.report(make.reported_gpu(0), enforcement=found, gpu_pin="toolkit", host=host)
    agent.post("agents/g1:report", said)
    approve(root)
    take_inventory()
    gpu = Gpu.objects.get(node__name="g1")
    assert (gpu.enforcement, gpu.evidence) == ("slice", "It was tried.")
    assert (gpu.node.facts["gpu_pin"], gpu.node.facts["cpu_pinning"]) == ("toolkit", "static")
    assert (convert_card(gpu).mode, convert_card(gpu).pin) == ("slice", "toolkit")
    agent.post("agents/g1:report", {**said, "simulated": True})
    take_inventory()
    gpu.refresh_from_db()
    assert gpu.simulated and gpu.enforcement == "simulated"  # whatever it was called before
    answer = agent.post("agents/g1:report", {**said, "enforcement": {**found, "mode": "unbreakable"}})
    assert answer.json()["errors"][0]["pointer"] == "/enforcement/mode"


def test_samples_come_with_the_report_and_change_nothing_else(agent, root, django_capture_on_commit_callbacks):
    said = make.report(make.reported_gpu(0))
    agent.post("agents/g1:report", said)
    sample = {"uuid": said["gpus"][0]["uuid"], "used_mib": 512, "busy_percent": 97, "temperature_c": 61, "power_w": 250}
    with django_capture_on_commit_callbacks() as called:
        agent.post("agents/g1:report", {**said, "samples": [sample]})
    assert called == []  # nobody is asked to look again
    assert root.get("agents/g1").json()["gpus"][0]["sample"] == sample


@pytest.mark.parametrize(
    ("wrong", "pointer", "code"),
    [
        ({"gpus": [make.reported_gpu(0), make.reported_gpu(1, index=0)]}, "/gpus/1/index", "card_twice"),
        ({"gpus": [make.reported_gpu(0)] * 2}, "/gpus/1/uuid", "card_twice"),
        ({"links": [["X", "SYS"]]}, "/links", "not_square"),
        ({"hcas": [{"name": "mlx5_0", "near": ["PIX"]}]}, "/hcas/0/near", "not_one_per_card"),
        ({"hcas": [{"name": "mlx5_0", "near": ["NV4"]}]}, "/hcas/0/near/0", "invalid_choice"),
        ({"gpus": [make.reported_gpu(0, uuid="../../etc")]}, "/gpus/0/uuid", "invalid"),
        ({"gpus": [make.reported_gpu(0, memory_mib=-1)]}, "/gpus/0/memory_mib", "min_value"),
        ({"gpus": [make.reported_gpu(n) for n in range(65)]}, "/gpus", "max_length"),
    ],
)
def test_what_contradicts_itself_is_refused_by_its_field(agent, wrong, pointer, code):
    answer = agent.post("agents/g1:report", make.report() | {"links": [], "pcie": []} | wrong)
    assert answer.status_code == 400 and Agent.objects.get().report == {}
    assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer.json()["errors"]
    assert code in [error["code"] for error in answer.json()["errors"]], answer.json()["errors"]


def test_ten_megabytes_are_too_much(agent):
    assert agent.post("agents/g1:report", "[" * 10_000_000).status_code == 413


def test_no_time_of_the_agent_is_believed(agent):
    agent.post("agents/g1:report", {**make.report(), "reported_at": "2099-01-01T00:00Z"})
    assert abs((Agent.objects.get().reported_at - timezone.now()).total_seconds()) < 60


def test_who_is_silent_is_shown_so(agent, root):
    assert root.get("agents/g1").json()["state"] == "new"
    agent.post("agents/g1:report", make.report())
    assert root.get("agents").json()["results"][0]["state"] == "reporting"
    Agent.objects.update(reported_at="2020-01-01T00:00Z")
    assert root.get("agents/g1").json()["state"] == "silent"


# ---- what slices use ----


def used(task, mib: int = 900, **more) -> dict:
    card = {"uuid": task.cards[0]["uuid"], "limit_mib": 1000, "used_mib": mib, "peak_mib": mib, "refused": 0}
    return {"slices": [{"task": task.uuid.hex, "cards": [card | more]}]}


@pytest.fixture
def own(cast):
    """The agent of the machine n1, where a task of ada runs on a slice."""
    make.agent("n1")
    (task, *_) = make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    return Api(make.AGENT_KEY), task


def test_what_a_slice_uses_is_kept(own):
    api, task = own
    assert api.post("agents/n1:slices", used(task, 700)).json() == {"taken": 1}
    task.refresh_from_db()
    (use,) = task.gpu_use
    assert (use["used_mib"], use["watched"], use["over"]) == (700, True, "")


def test_an_agent_tells_of_its_own_machines_tasks_and_their_own_slices_only(own):
    api, task = own
    assert api.post("agents/n2:slices", used(task)).status_code == 403
    api.post("agents/n1:slices", used(task, uuid="GPU-another"))
    task.refresh_from_db()
    assert task.gpu_use == []


def test_a_task_above_its_slice_is_to_end_and_that_is_not_taken_back(own):
    api, task = own
    api.post("agents/n1:slices", used(task, 1400, over="It used 1400 MiB."))
    api.post("agents/n1:slices", used(task, 10))
    task.refresh_from_db()
    assert task.gpu_use[0]["over"] == "It used 1400 MiB."
    (row,) = load_rows()
    assert row.stop == "gpu_out_of_memory"


def test_of_a_task_that_has_ended_nothing_is_kept(own):
    api, task = own
    make.move(task, "SUCCEEDED", "completed")
    assert api.post("agents/n1:slices", used(task)).json() == {"taken": 0}
