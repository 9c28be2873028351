"""This machine's cards with their enforcement mode, and its NUMA nodes."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent import host
from agent.gpu.cards import Card, NoAnswer, read_cards
from agent.gpu.links import Matrix
from agent.rdma import list_hcas
from runtimes.contract.errors import Unavailable
from runtimes.contract.node import GpuView, HcaView, NumaView
from runtimes.gpu_sharing import MIG, MIG_WORDS, ProbeFacts, SliceTrial, choose_mode

TestSlice = Callable[[str, str], SliceTrial]


@dataclass(frozen=True)
class NodeCards:
    """A machine's cards, real ones in NVML's PCI order. numa: ids of the simulated NUMA nodes, sorted."""

    gpus: tuple[GpuView, ...] = ()
    links: Matrix = ()
    pcie: Matrix = ()
    driver: str = "none"
    numa: tuple[int, ...] = ()


def read_real_cards(
    libvgpu: str | None = None, test_slice: TestSlice | None = None, sys_root: str = "/sys"
) -> NodeCards | None:
    """Read the cards by NVML, None without an NVIDIA driver.

    test_slice: called with driver version and card uuid, without HAMi-core. Raises Unavailable if the driver fails:
    cards are not gone then.
    """
    try:
        found = read_cards(sys_root)
    except NoAnswer as error:
        raise Unavailable(str(error)) from error
    offered = found.offered() if found else None
    if offered is None or not offered.cards:
        return None
    loaded = libvgpu is not None and can_load_library(libvgpu)
    sound = [card for card in offered.cards if not card.fault and not card.part_of]
    tested = test_slice(offered.driver, sound[0].uuid) if test_slice and sound and not loaded else None
    mode, evidence = choose_mode(ProbeFacts(offered.driver, libvgpu, loaded, tested))
    gpus = tuple(build_gpu_view(card, mode, evidence) for card in offered.cards)
    return NodeCards(gpus, offered.links, offered.pcie, offered.driver)


def list_numa(sys_root: str = "/sys", allowed: set[int] | None = None) -> tuple[NumaView, ...]:
    """Return NUMA nodes with usable cores; only node 0 if the kernel names none."""
    return tuple(NumaView(n.id, n.cpus, n.memory_mib, n.socket) for n in host.list_numa(sys_root, allowed))


def read_hcas(gpus: Sequence[GpuView], sys_root: str = "/sys") -> tuple[HcaView, ...]:
    """Return this machine's RDMA adapters, and how near each is to these cards."""
    found = list_hcas([(gpu.bus, gpu.numa) for gpu in gpus], sys_root)
    return tuple(HcaView(h.name, h.bus, h.numa, h.link, h.rate_gbps, h.active, h.near) for h in found)


def spread_numa(ids: tuple[int, ...], real: Sequence[NumaView]) -> tuple[NumaView, ...]:
    """Divide real cores and memory among simulated NUMA nodes."""
    cpus = [cpu for node in real for cpu in node.cpus]
    memory = sum(node.memory_mib for node in real)
    bounds = [len(cpus) * i // len(ids) for i in range(len(ids) + 1)]
    return tuple(NumaView(id, tuple(cpus[bounds[i] : bounds[i + 1]]), memory // len(ids)) for i, id in enumerate(ids))


def can_load_library(library: str) -> bool:
    """Return whether a library can be preloaded; the loader only prints errors."""
    run = subprocess.run(["/bin/true"], env={"LD_PRELOAD": library}, capture_output=True, timeout=10, check=False)
    return run.returncode == 0 and b"cannot be preloaded" not in run.stderr


def build_gpu_view(card: Card, mode: str, evidence: str) -> GpuView:
    """Convert a card of the agent. mode, evidence: for whole cards."""
    if card.part_of:
        mode, evidence = MIG, MIG_WORDS
    return GpuView(
        uuid=card.uuid,
        index=card.index,
        model=card.model,
        product=card.product,
        memory_mib=card.memory_mib,
        reserved_mib=card.reserved_mib,
        numa=card.numa,
        bus=card.bus,
        simulated=False,
        mode=mode,
        evidence=evidence,
        fault=card.fault,
    )
