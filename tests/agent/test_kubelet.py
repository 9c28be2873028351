"""The cards beside a kubelet: what it hears of them, what its containers get, and what survives its restart."""

import json
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import DecodeError

from agent.gpu.cards import Card, Cards
from agent.kubelet import cdi
from agent.kubelet.device_plugin import read_allocate_request
from agent.kubelet.device_plugins import CUT_SINCE, NO_TOOLKIT, NOT_KNOWN, DevicePlugins
from agent.kubelet.offers import GONE, RDMA_RESOURCE, RDMA_TASKS
from agent.kubelet.units import count_units, resource_name
from agent.rdma import Hca
from tests.fake_kubelet import FakeKubelet


def card(index: int = 0, **fields) -> Card:
    known = {"model": "A100-40GB", "product": "NVIDIA A100", "memory_mib": 40960, "reserved_mib": 429, "bus": ""}
    return Card(uuid=f"GPU-A{index}000000-0001", index=index, numa=index, **{**known, **fields})


def cards(*found: Card) -> Cards:
    rows = tuple(tuple("X" if one is two else "NV12" for two in found) for one in found)
    return Cards(found, rows, rows, "580.95.05")


ONE, TWO = card(0), card(1)
FIRST, SECOND = resource_name(0), resource_name(1)
KNOWN = {"0": ONE.uuid, "1": TWO.uuid, "2": card(2).uuid}


@pytest.fixture
def sockets():
    """A short path: that of a socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="tsk"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def kubelet(sockets):
    fake = FakeKubelet(sockets)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def make_node(sockets, tmp_path):
    made = []

    def make(known=KNOWN, **options) -> DevicePlugins:
        places = tmp_path / "places.json"
        places.write_text(json.dumps(known))
        made.append(DevicePlugins(sockets, tmp_path / "cdi", places, **{"simulated": True, **options}))
        made[-1].start()
        return made[-1]

    yield make
    for node in made:
        node.stop()


@pytest.fixture
def node(make_node, kubelet):
    """With two cards that the kubelet knows."""
    node = make_node()
    node.update(cards(ONE, TWO))
    kubelet.wait_for(lambda: {FIRST, SECOND} <= kubelet.lists.keys())
    return node


def spec_of(tmp_path) -> dict:
    spec = json.loads((tmp_path / "cdi/tessera.json").read_text())
    assert (spec["cdiVersion"], spec["kind"]) == ("0.6.0", "tessera.sh/gpu")
    return {device["name"]: device["containerEdits"] for device in spec["devices"]}


def test_each_card_is_a_resource_of_its_own_in_units_of_memory(node, kubelet):
    assert FIRST == "tessera.sh/g-0"
    devices = kubelet.lists[SECOND]
    assert len(devices) == (40960 - 429) // 256 == count_units(40531) and kubelet.health(SECOND) == {"Healthy"}
    assert len({device.ID for device in devices}) == len(devices)
    assert [[n.ID for n in kubelet.lists[name][0].topology.nodes] for name in (FIRST, SECOND)] == [[0], [1]]


def test_as_many_slices_as_fit_into_a_card_fit_in_units():
    for sellable in (32_510, 40_531, 81_008):
        for parts in range(1, 9):
            assert parts * count_units(sellable // parts) <= count_units(sellable)


def test_a_container_gets_exactly_this_card(node, kubelet, tmp_path):
    ids = [device.ID for device in kubelet.lists[SECOND]]
    assert kubelet.allocate(SECOND, ids) == [[f"tessera.sh/gpu={TWO.uuid}"]]
    part = [f"tessera.sh/gpu={TWO.uuid}", "tessera.sh/gpu=slice"]
    assert kubelet.allocate(SECOND, ids[:3], ids[3:5]) == [part, part]
    spec = spec_of(tmp_path)
    assert spec[TWO.uuid] == {"env": ["NVIDIA_VISIBLE_DEVICES=void", f"TESSERA_GPU_1={TWO.uuid}"]}
    assert spec["none"] == {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}
    assert spec["slice"] == {"env": ["TESSERA_SLICE_BY=watchdog"]}


def test_units_of_another_card_are_refused(node, kubelet):
    foreign = [device.ID for device in kubelet.lists[FIRST]][:1]
    for ids in (foreign, []):
        with pytest.raises(grpc.RpcError) as refused:
            kubelet.allocate(SECOND, ids)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_broken_card_is_unhealthy_and_the_other_stays(node, kubelet):
    ids = [device.ID for device in kubelet.lists[FIRST]]
    node.update(cards(replace(ONE, fault="It is lost."), TWO))
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Unhealthy"})
    assert kubelet.health(SECOND) == {"Healthy"}
    with pytest.raises(grpc.RpcError, match=r"It is lost\."):
        kubelet.allocate(FIRST, ids)
    node.update(cards(ONE, TWO))
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Healthy"})


def test_a_card_that_is_not_told_any_more_takes_nothing(node, kubelet):
    node.update(cards(TWO))
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Unhealthy"})
    assert node.plugins[FIRST].offer.fault == GONE


def test_a_card_that_comes_later_is_registered_and_described(node, kubelet, tmp_path):
    late = card(2)
    node.update(cards(ONE, TWO, late))
    kubelet.wait_for(lambda: resource_name(2) in kubelet.lists)
    assert set(spec_of(tmp_path)) == {ONE.uuid, TWO.uuid, late.uuid, "slice", "none"}


HCA = Hca("mlx5_0", "0000:08:00.0", 0, "InfiniBand", 400, True, ("uverbs0", "rdma_cm"), ("PIX", "SYS"))


def test_rdma_adapters_are_one_resource_for_all_tasks(node, kubelet, tmp_path):
    """Simulated ones are empty devices; one without a link is given to nobody."""
    node.update(replace(cards(ONE, TWO), hcas=(HCA, replace(HCA, name="mlx5_1", active=False, devices=("uverbs1",)))))
    kubelet.wait_for(lambda: RDMA_RESOURCE in kubelet.lists)
    ids = [device.ID for device in kubelet.lists[RDMA_RESOURCE]]
    assert RDMA_RESOURCE == "tessera.sh/rdma" and len(set(ids)) == RDMA_TASKS
    assert kubelet.allocate(RDMA_RESOURCE, ids[:1], ids[5:6]) == [["tessera.sh/gpu=rdma"]] * 2
    nodes = [{"path": f"/dev/infiniband/{name}", "hostPath": "/dev/null"} for name in ("rdma_cm", "uverbs0")]
    assert spec_of(tmp_path)["rdma"] == {"deviceNodes": nodes}
    node.update(replace(cards(ONE, TWO), hcas=(replace(HCA, active=False),)))
    kubelet.wait_for(lambda: kubelet.health(RDMA_RESOURCE) == {"Unhealthy"})
    assert "rdma" not in spec_of(tmp_path)
    with pytest.raises(grpc.RpcError, match="has a link"):
        kubelet.allocate(RDMA_RESOURCE, ids[:1])


def part(place: int, **fields) -> Card:
    """An instance of the first card."""
    named = {"model": "A100-40GB-1g.5gb", "product": "NVIDIA A100 MIG 1g.5gb", "memory_mib": 4864, "reserved_mib": 0}
    return replace(ONE, uuid=f"MIG-{place}", index=1000 + place, part_of=ONE.uuid, **{**named, **fields})


CUT = replace(ONE, mig=True)
PLACES = KNOWN | {"1000": "MIG-0", "1003": "MIG-3"}


def test_of_a_card_that_mig_cuts_the_instances_are_offered(make_node, kubelet, tmp_path):
    node = make_node(known=PLACES)
    node.update(cards(CUT, TWO, part(0), part(3)))
    first, second = resource_name(1000), resource_name(1003)
    kubelet.wait_for(lambda: {SECOND, first, second} <= kubelet.lists.keys())
    assert FIRST not in kubelet.registered and second == "tessera.sh/g-1003"
    ids = [device.ID for device in kubelet.lists[second]]
    assert len(ids) == 4864 // 256 and kubelet.health(second) == {"Healthy"}
    assert kubelet.allocate(second, ids) == [["tessera.sh/gpu=MIG-3"]]
    assert spec_of(tmp_path)["MIG-3"] == {"env": ["NVIDIA_VISIBLE_DEVICES=void", "TESSERA_GPU_1003=MIG-3"]}


def test_a_card_that_is_cut_anew_gives_its_old_instances_to_nobody(make_node, kubelet):
    node = make_node(known=PLACES)
    node.update(cards(CUT, part(0), part(3)))
    kubelet.wait_for(lambda: {resource_name(1000), resource_name(1003)} <= kubelet.lists.keys())
    larger = replace(part(0), uuid="MIG-larger", memory_mib=9728)
    node.update(cards(CUT, larger))
    kubelet.wait_for(
        lambda: kubelet.health(resource_name(1003)) == {"Unhealthy"} == kubelet.health(resource_name(1000))
    )
    node.acknowledge(cards(CUT, larger)), node.acknowledge(cards(CUT, larger))
    kubelet.wait_for(lambda: kubelet.health(resource_name(1000)) == {"Healthy"})
    assert len(kubelet.lists[resource_name(1000)]) == 9728 // 256


def test_an_instance_needs_a_spec_of_the_toolkits_that_names_it(make_node, kubelet, tmp_path):
    node = make_node(known=PLACES, simulated=False)
    (tmp_path / "cdi").mkdir()
    spec = tmp_path / "cdi/nvidia.yaml"
    spec.write_text("kind: nvidia.com/gpu\ndevices:\n- name: MIG-3\n")
    seen = node.update(cards(CUT, TWO, part(0), part(3), part(5, fault="It is lost.")))
    assert [card.fault for card in seen.cards] == ["", "", CUT_SINCE, "", "It is lost."]
    kubelet.wait_for(lambda: {SECOND, *map(resource_name, (1000, 1003, 1005))} <= kubelet.lists.keys())
    assert kubelet.health(resource_name(1000)) == {"Unhealthy"} and kubelet.health(resource_name(1003)) == {"Healthy"}
    ids = [device.ID for device in kubelet.lists[resource_name(1003)]]
    assert kubelet.allocate(resource_name(1003), ids) == [["nvidia.com/gpu=MIG-3", "tessera.sh/gpu=MIG-3"]]


def test_after_a_restart_of_the_kubelet_all_register_again(node, kubelet):
    for _ in range(2):
        kubelet.stop()
        kubelet.registered.clear()
        kubelet.start()
        kubelet.wait_for(lambda: {FIRST, SECOND} <= kubelet.lists.keys())
        assert sorted(kubelet.registered) == [FIRST, SECOND]
        ids = [device.ID for device in kubelet.lists[FIRST]]
        assert kubelet.allocate(FIRST, ids) == [[f"tessera.sh/gpu={ONE.uuid}"]]


def test_cards_wait_for_a_kubelet_that_comes_later(make_node, sockets):
    node = make_node()
    node.update(cards(ONE))
    late = FakeKubelet(sockets)
    late.start()
    try:
        late.wait_for(lambda: FIRST in late.lists)
    finally:
        late.stop()


def test_the_end_removes_the_sockets(node, kubelet, sockets):
    node.stop()
    assert [path.name for path in sockets.iterdir()] == ["kubelet.sock"]


def test_a_place_gives_nothing_out_until_the_platform_knows_its_card(make_node, kubelet, tmp_path):
    node = make_node(known={"0": "GPU-that-fell-out", "1": TWO.uuid})
    node.update(cards(ONE, TWO))
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Unhealthy"} and kubelet.health(SECOND) == {"Healthy"})
    node.acknowledge(cards(ONE, TWO))
    assert node.plugins[FIRST].offer.fault == NOT_KNOWN
    node.acknowledge(cards(ONE, TWO))
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Healthy"})
    assert json.loads((tmp_path / "places.json").read_text()) == {"0": ONE.uuid, "1": TWO.uuid}


def test_cards_that_move_up_meet_nobody_elses_work(node, kubelet):
    ids = [device.ID for device in kubelet.lists[FIRST]]
    moved = replace(TWO, index=0)
    node.update(cards(moved))
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Unhealthy"} == kubelet.health(SECOND))
    with pytest.raises(grpc.RpcError):
        kubelet.allocate(FIRST, ids)
    node.acknowledge(cards(moved)), node.acknowledge(cards(moved))
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Healthy"})
    ids = [device.ID for device in kubelet.lists[FIRST]]
    assert kubelet.allocate(FIRST, ids) == [[f"tessera.sh/gpu={TWO.uuid}"]]


def test_real_cards_need_the_toolkits_spec_and_say_so(make_node, kubelet, tmp_path):
    node = make_node(simulated=False)
    assert node.update(cards(ONE)).cards[0].fault == NO_TOOLKIT
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Unhealthy"})
    (tmp_path / "cdi/nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    assert node.update(cards(ONE)).cards[0].fault == ""
    kubelet.wait_for(lambda: kubelet.health(FIRST) == {"Healthy"})
    ids = [device.ID for device in kubelet.lists[FIRST]]
    assert kubelet.allocate(FIRST, ids) == [[f"nvidia.com/gpu={ONE.uuid}", f"tessera.sh/gpu={ONE.uuid}"]]


def test_hami_is_mounted_into_slices_where_the_admin_gives_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cdi, "LOCK", tmp_path / "vgpulock")
    library = tmp_path / "libvgpu.so"
    library.touch()
    cdi.write_spec(tmp_path / "cdi", [ONE], cdi.Keeper(hami=library))
    edits = spec_of(tmp_path)["slice"]
    assert edits["env"] == ["TESSERA_SLICE_BY=hami"]
    mounts = {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]}
    assert mounts["/usr/local/vgpu/libvgpu.so"] == str(library)
    assert Path(mounts["/etc/ld.so.preload"]).read_text() == "/usr/local/vgpu/libvgpu.so\n"
    writable = {mount["containerPath"] for mount in edits["mounts"] if "ro" not in mount["options"]}
    assert writable == {str(cdi.LOCK)}


def test_our_own_library_comes_by_a_hook_before_the_program_starts(tmp_path):
    home = tmp_path / "slice"
    cdi.write_spec(tmp_path / "cdi", [ONE], cdi.Keeper(home=home, context_bytes=7))
    edits = spec_of(tmp_path)["slice"]
    assert edits["env"] == ["TESSERA_SLICE_BY=slice"] and "mounts" not in edits
    hooks = {hook["hookName"]: hook["args"] for hook in edits["hooks"]}
    assert hooks["createContainer"] == ["slicehook", "enter", str(home), "7"]
    assert hooks["poststop"] == ["slicehook", "leave", str(home)]
    assert {hook["path"] for hook in edits["hooks"]} == {str(home / "slicehook")}


@pytest.mark.parametrize("data", [b"\x0a\x05\x0a", b"\x0b", b"\xff" * 11, b"\x0a\x04\x0a\x02\xff\xfe", b"\x0d\x01"])
def test_bytes_that_are_no_message_are_refused(data):
    with pytest.raises(DecodeError):
        read_allocate_request(data)


def test_fields_that_are_not_known_are_passed_over():
    told = b"\x10\x96\x01" + b"\x1d....", b"\x21........"  # a number, and two of fixed length
    assert read_allocate_request(b"".join(told) + b"\x0a\x03\x0a\x01a") == [["a"]]


@pytest.mark.timeout(90)
def test_the_agents_own_process_gives_its_cards_to_the_kubelet(machine, script, kubelet, sockets, tmp_path):
    places = {index: f"GPU-a1000000-0000-4000-8000-{index:012x}" for index in range(8)}
    machine.state.mkdir(mode=0o700)
    (machine.state / "places.json").write_text(json.dumps(places))
    script.on("POST /agents/g1:report", (200, {"held_back": [], "next_in_s": 600}))
    agent = machine.start(
        "--server", script.url, "--simulated", "--kubelet", str(sockets), "--cdi", str(tmp_path / "cdi"),
        TESSERA_AGENT_TOKEN="ten_word",
    )  # fmt: skip
    kubelet.wait_for(lambda: sum(kubelet.health(name) == {"Healthy"} for name in kubelet.lists) == 8, 40)
    lost = resource_name(5)
    assert len(kubelet.lists[lost]) == 158
    machine.cards("xid 5 79")
    kubelet.wait_for(lambda: kubelet.health(lost) == {"Unhealthy"})
    assert sum(kubelet.health(name) == {"Healthy"} for name in kubelet.lists) == 7
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(20) == 0
