import pytest

from common.resources import is_instance
from runtimes.local.node.simulated_cards import CARDS, UnknownProfile, list_known_names, simulate_cards
from tests.runtimes.local.fake_nvml import TOPOLOGIES, parse_topology
from tests.runtimes.worlds import LocalWorld


def test_two_plain_cards():
    found = simulate_cards("2xV100-32GB", "n1")
    assert [gpu.model for gpu in found.gpus] == ["V100-32GB"] * 2
    assert found.links == (("X", "PHB"), ("PHB", "X")) and found.numa == ()
    assert all(gpu.simulated and gpu.mode == "simulated" and "simulated" in gpu.evidence for gpu in found.gpus)


def test_a_simulated_v100_sells_what_a_real_one_does():
    assert CARDS["V100-32GB"].memory_mib - CARDS["V100-32GB"].reserved_mib == 32510


@pytest.mark.parametrize(
    ("text", "topology", "model"),
    [
        ("DGX-1V", "dgx1-v100", "V100-32GB"),
        ("8xA100-NVLink", "dgx-a100-nps4", "A100-40GB"),
        ("8xH100-NVLink", "hgx-h100", "H100-80GB"),
    ],
)
def test_topologies_are_those_of_published_machines(text, topology, model):
    matrix, numa = parse_topology((TOPOLOGIES / f"{topology}.txt").read_text())
    found = simulate_cards(text, "n1")
    assert [list(row) for row in found.links] == matrix and [gpu.numa for gpu in found.gpus] == numa
    assert {gpu.model for gpu in found.gpus} == {model} and len({gpu.bus for gpu in found.gpus}) == 8


def test_part_of_a_machine():
    found = simulate_cards("4xa100-nvlink", "n1")
    assert found.links[0] == ("X", "NV12", "NV12", "NV12") and found.numa == (1, 3)


def test_the_next_start_finds_the_same_cards():
    again = {gpu.uuid for gpu in simulate_cards("8xH100-80GB", "n1").gpus}
    assert again == {gpu.uuid for gpu in simulate_cards("8xH100-80GB", "n1").gpus} and len(again) == 8
    assert not again & {gpu.uuid for gpu in simulate_cards("8xH100-80GB", "n2").gpus}
    assert {gpu.uuid for gpu in simulate_cards("2xH100-80GB", "n1").gpus} < again


@pytest.mark.parametrize("text", ["", "none", "0"])
def test_no_cards(text):
    assert simulate_cards(text, "n1").gpus == ()


@pytest.mark.parametrize(
    "text", ["2xV100", "V200-1GB", "xx", "2x", "2 V100-32GB; rm", "99xT4-16GB", "0xT4-16GB", "9xA100-NVLink"]
)
def test_what_is_not_known_is_refused_with_what_is(text):
    with pytest.raises(UnknownProfile) as refused:
        simulate_cards(text, "n1")
    assert text in str(refused.value) or "T4" in str(refused.value)
    assert "can be simulated" in str(refused.value) or all(name in str(refused.value) for name in list_known_names())


def test_a_simulated_machine_shows_its_topology_on_the_node():
    world = LocalWorld(gpus_text="8xA100-NVLink")
    node = world.runtime.list_nodes()[0]
    assert [numa.id for numa in node.numa] == [1, 3, 5, 7] and len(node.gpus) == len(node.links) == 8
    world.close()


def test_of_cards_in_mig_mode_the_last_is_cut():
    made = simulate_cards("2xA100-MIG", "n1")
    names = [(gpu.index, gpu.model) for gpu in made.gpus]
    parts = ["A100-40GB-3g.20gb", "A100-40GB-2g.10gb", "A100-40GB-1g.5gb", "A100-40GB-1g.5gb"]
    assert names == [(0, "A100-40GB"), *((1100 + place, name) for place, name in enumerate(parts))]
    assert all(is_instance(gpu.product) and gpu.simulated for gpu in made.gpus[1:])
    assert made.links[1] == ("SYS", "X", "SYS", "SYS", "SYS") and len({gpu.uuid for gpu in made.gpus}) == 5
    assert [gpu.index for gpu in simulate_cards("A100-MIG", "n1").gpus] == [1000, 1001, 1002, 1003]
