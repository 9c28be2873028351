"""What NVML tells becomes nodes and links, for machines that others have published (see topologies/)."""

import os
from pathlib import Path

import pynvml
import pytest

from agent import host
from agent.gpu import cards
from runtimes.contract.errors import Unavailable
from runtimes.contract.node import NumaView
from runtimes.gpu_sharing import HAMI, MIG, WATCHDOG, SliceTrial
from runtimes.local.node import cards_and_numa
from runtimes.local.node.simulated_cards import MACHINES
from tests.runtimes.local.fake_nvml import TOPOLOGIES, parse_topology, use_fake_nvml


def read_cards(tmp_path, **options):
    return cards_and_numa.read_real_cards(sys_root=str(tmp_path), **options)


@pytest.mark.parametrize(
    ("name", "card", "switched", "numa"),
    [
        ("dgx1-v100", "V100", False, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("dgx-a100-nps4", "A100", True, [3, 3, 1, 1, 7, 7, 5, 5]),
        ("hgx-h100", "H100", True, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("8x4090", "4090", False, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("vm-pcie", "4090", False, [None] * 8),
    ],
)
def test_links_and_numa_of_published_machines(monkeypatch, tmp_path, name, card, switched, numa):
    nvml = use_fake_nvml(monkeypatch, name, card, switched=switched)
    found = read_cards(tmp_path)
    gpus, matrix, driver = found.gpus, found.links, found.driver
    assert [list(row) for row in matrix] == parse_topology((TOPOLOGIES / f"{name}.txt").read_text())[0]
    assert [gpu.numa for gpu in gpus] == numa and driver == "580.95.05"
    assert nvml.open == 0 and not any(gpu.simulated for gpu in gpus)


def test_links_of_an_old_driver_that_does_not_name_the_far_end(monkeypatch, tmp_path):
    use_fake_nvml(monkeypatch).old_driver = True
    found = read_cards(tmp_path)
    gpus, matrix = found.gpus, found.links
    assert matrix[0] == ("X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS") and gpus[0].reserved_mib == 0


def test_what_a_card_is(monkeypatch, tmp_path):
    use_fake_nvml(monkeypatch)
    gpu = read_cards(tmp_path).gpus[3]
    assert (gpu.uuid, gpu.index, gpu.bus) == ("GPU-00000003-0000", 3, "0000:a3:00.0")
    assert (gpu.model, gpu.product) == ("V100-32GB", "Tesla V100-SXM2-32GB")
    assert gpu.memory_mib - gpu.reserved_mib == 32510


@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("-1", None)])
def test_numa_from_sys_wins(monkeypatch, tmp_path, text, expected):
    use_fake_nvml(monkeypatch)
    device = tmp_path / "bus/pci/devices/0000:a0:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text(text)
    assert read_cards(tmp_path).gpus[0].numa == expected


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED])
def test_without_a_driver_there_are_no_real_cards(monkeypatch, tmp_path, error):
    use_fake_nvml(monkeypatch, missing=error)
    assert read_cards(tmp_path) is None


def test_a_driver_that_fails_is_no_proof_that_the_cards_are_gone(monkeypatch, tmp_path):
    use_fake_nvml(monkeypatch, missing=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    with pytest.raises(Unavailable, match="NVML"):
        read_cards(tmp_path)


def test_a_card_in_mig_mode_is_not_offered(monkeypatch, tmp_path):
    use_fake_nvml(monkeypatch, mig=(0, 1))
    found = read_cards(tmp_path)
    gpus, matrix = found.gpus, found.links
    assert [gpu.index for gpu in gpus] == [2, 3, 4, 5, 6, 7] and {len(row) for row in (matrix, *matrix)} == {6}


def test_the_instances_of_a_card_stand_in_its_place(monkeypatch, tmp_path):
    use_fake_nvml(
        monkeypatch, "dgx-a100-nps4", "A100", switched=True, mig=(0,), instances={(0, 0): "1g.5gb", (0, 4): "2g.10gb"}
    )
    tried = []
    found = read_cards(tmp_path, test_slice=lambda _, uuid: tried.append(uuid) or SliceTrial(False, "No."))
    gpus, matrix = found.gpus, found.links
    assert [gpu.index for gpu in gpus] == [1, 2, 3, 4, 5, 6, 7, 1000, 1004]
    one, two = gpus[7:]
    assert (one.model, two.model, one.mode, two.mode) == ("A100-40GB-1g.5gb", "A100-40GB-2g.10gb", MIG, MIG)
    assert (one.uuid, one.memory_mib, one.numa, one.bus) == ("MIG-00000000-0000", 4864, 3, "0000:a0:00.0")
    assert gpus[0].mode == WATCHDOG and tried == ["GPU-00000001-0000"]
    assert matrix[7] == ("SYS",) * 7 + ("X", "SYS") and matrix[0][:2] == ("X", "NV12")


def test_the_mode_is_what_was_probed(monkeypatch, tmp_path):
    use_fake_nvml(monkeypatch)
    watched = read_cards(tmp_path).gpus[0]
    assert watched.mode == WATCHDOG and "only watched" in watched.evidence
    (tmp_path / "libvgpu.so").write_bytes(b"no library")
    assert read_cards(tmp_path, libvgpu=str(tmp_path / "libvgpu.so")).gpus[0].mode == WATCHDOG
    libc = next(Path("/lib").glob("*-linux-gnu*/libc.so.6"))
    assert read_cards(tmp_path, libvgpu=str(libc)).gpus[0].mode == HAMI


@pytest.mark.parametrize(
    ("product", "mib", "model"),
    [
        ("Tesla V100-SXM2-32GB", 32768, "V100-32GB"),
        ("Tesla V100-PCIE-16GB", 16160, "V100-16GB"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100-80GB"),
        ("NVIDIA A100-SXM4-40GB", 40960, "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", 81920, "A100-80GB"),
        ("NVIDIA H200", 143771, "H200-141GB"),
        ("NVIDIA B200", 183359, "B200-180GB"),
        ("Tesla T4", 15360, "T4-16GB"),
        ("NVIDIA A10", 23028, "A10-24GB"),
        ("NVIDIA L40S", 46068, "L40S-48GB"),
        ("NVIDIA GeForce RTX 4090", 24564, "RTX4090-24GB"),
        ("NVIDIA GeForce RTX 2080 Ti", 11264, "RTX2080Ti-11GB"),
        ("NVIDIA RTX A6000", 49140, "RTXA6000-48GB"),
        ("Quadro Something", 8192, "Something-8GB"),
    ],
)
def test_the_short_name_is_what_people_ask_for(product, mib, model):
    assert cards.short_model(product, mib) == model


def test_numa_nodes_are_read_from_sys(tmp_path):
    for node, cpus in ((0, "0-1,4"), (1, "2-3")):
        path = tmp_path / f"devices/system/node/node{node}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(f"{cpus}\n")
        (path / "meminfo").write_text(f"Node {node} MemTotal:       2097152 kB\nNode {node} MemFree: 1 kB\n")
    nodes = cards_and_numa.list_numa(str(tmp_path), allowed={0, 2, 3, 4})
    assert nodes == (NumaView(0, (0, 4), 2048), NumaView(1, (2, 3), 2048))


def test_the_socket_of_a_numa_node_is_that_of_its_cores(tmp_path):
    for node, socket in ((0, 0), (1, 0), (2, 1)):
        path = tmp_path / f"devices/system/node/node{node}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(f"{node}\n")
        (path / "meminfo").write_text("")
        core = tmp_path / f"devices/system/cpu/cpu{node}/topology"
        core.mkdir(parents=True)
        (core / "physical_package_id").write_text(f"{socket}\n")
    assert [node.socket for node in cards_and_numa.list_numa(str(tmp_path), allowed={0, 1, 2})] == [0, 0, 1]


def test_the_pcie_paths_are_told_where_nvlink_hides_them(monkeypatch, tmp_path):
    known = MACHINES["V100-NVLink"].pcie
    under = {(i, j): word for i, row in enumerate(known) for j, word in enumerate(row)}
    nvml = use_fake_nvml(monkeypatch, under=under)
    assert read_cards(tmp_path).pcie == known and nvml.open == 0


def test_one_numa_node_has_all_that_we_may_use(tmp_path):
    (node,) = cards_and_numa.list_numa(str(tmp_path))
    assert set(node.cpus) == os.sched_getaffinity(0) and node.memory_mib == host.read_memory_mib()


def test_a_simulated_machine_deals_out_the_real_cores():
    real = (NumaView(0, (0, 1, 2, 3), 4096),)
    assert cards_and_numa.spread_numa((1, 3), real) == (NumaView(1, (0, 1), 2048), NumaView(3, (2, 3), 2048))
    empty = cards_and_numa.spread_numa((1, 3, 5, 7, 9), real)
    assert sorted(cpu for node in empty for cpu in node.cpus) == [0, 1, 2, 3] and len(empty) == 5


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8", [0, 1, 2, 3, 8]), ("5\n", [5]), ("\n", [])])
def test_lists_of_cores(text, cpus):
    assert host.parse_cpus(text) == cpus
