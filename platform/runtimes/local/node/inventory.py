"""This machine's cards with their enforcement mode, and its NUMA nodes."""

import subprocess
from collections.abc import Callable, Sequence

from agent import host
from agent.gpu.cards import Card, Cards, NoAnswer, look
from agent.gpu.links import Matrix
from runtimes.contract.errors import Unavailable
from runtimes.contract.node import GpuView, NumaView
from runtimes.gpu_sharing import MIG, MIG_WORDS, ProbeFacts, SliceTrial, choose_mode

TrySlice = Callable[[str, str], SliceTrial]


def list_gpus(
    libvgpu: str | None = None, try_slice: TrySlice | None = None, sys_root: str = "/sys"
) -> tuple[tuple[GpuView, ...], Matrix, str] | None:
    """Return (cards in NVML's PCI order, links, driver version), None without an NVIDIA driver.

    try_slice: called with driver version and card uuid, without HAMi-core. Raises Unavailable if the driver fails:
    cards are not gone then.
    """
    seen = _look(sys_root)
    if seen is None or not seen.cards:
        return None
    loaded = libvgpu is not None and loads(libvgpu)
    sound = [card for card in seen.cards if not card.fault and not card.part_of]
    tried = try_slice(seen.driver, sound[0].uuid) if try_slice and sound and not loaded else None
    mode, evidence = choose_mode(ProbeFacts(seen.driver, libvgpu, loaded, tried))
    return tuple(view_of(card, mode, evidence) for card in seen.cards), seen.links, seen.driver


def list_pcie() -> Matrix:
    """Return PCIe paths between the cards of `list_gpus`. Raises Unavailable."""
    seen = _look()
    return seen.pcie if seen else ()


def list_numa(sys_root: str = "/sys", allowed: set[int] | None = None) -> tuple[NumaView, ...]:
    """Return NUMA nodes with usable cores; only node 0 if the kernel names none."""
    return tuple(NumaView(n.id, n.cpus, n.memory_mib, n.socket) for n in host.list_numa(sys_root, allowed))


def spread_numa(ids: tuple[int, ...], real: Sequence[NumaView]) -> tuple[NumaView, ...]:
    """Divide real cores and memory among simulated NUMA nodes."""
    cpus = [cpu for node in real for cpu in node.cpus]
    memory = sum(node.memory_mib for node in real)
    bounds = [len(cpus) * i // len(ids) for i in range(len(ids) + 1)]
    return tuple(NumaView(id, tuple(cpus[bounds[i] : bounds[i + 1]]), memory // len(ids)) for i, id in enumerate(ids))


def loads(library: str) -> bool:
    """Return whether a library can be preloaded; the loader only prints errors."""
    run = subprocess.run(["/bin/true"], env={"LD_PRELOAD": library}, capture_output=True, timeout=10, check=False)
    return run.returncode == 0 and b"cannot be preloaded" not in run.stderr


def view_of(card: Card, mode: str, evidence: str) -> GpuView:
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


def _look(sys_root: str = "/sys") -> Cards | None:
    try:
        seen = look(sys_root)
    except NoAnswer as error:
        raise Unavailable(str(error)) from error
    return seen.offered() if seen else None
