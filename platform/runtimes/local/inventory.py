"""What this machine has: cores, memory, NUMA nodes from /proc and /sys; cards and their links from NVML."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pynvml

from runtimes.base import GpuView, NumaView, Unavailable
from runtimes.gpu_sharing import ProbeFacts, SliceTrial, choose_mode

NO_DRIVER = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
DISTANCES = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
NOMINAL_GB = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 141, 180, 192, 288)
NVLINKS = 36  # no card has more; asking further is answered with an error
FAMILY = re.compile(
    r"(RTX PRO \d{4}|RTX A?\d{4}(?: Ti)?(?: SUPER)?|GTX \d{4}(?: Ti)?|GB?[HB]?\d{3}|[HBVPALKTM]\d{1,4}[A-Z]?)\b"
)

Links = tuple[tuple[str, ...], ...]
TrySlice = Callable[[str, str], SliceTrial]


def list_gpus(
    libvgpu: str | None = None, try_slice: TrySlice | None = None, sys_root: str = "/sys"
) -> tuple[tuple[GpuView, ...], Links, str] | None:
    """(cards in PCI order of NVML, links between them, driver version); None where no NVIDIA driver answers.

    try_slice: called with driver version and the uuid of a card, where nothing stronger is there than our own library.

    Raises Unavailable when there is a driver and it fails: that is no reason to believe the cards are gone.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in NO_DRIVER:
            return None
        raise Unavailable(f"NVML does not start: {error}") from error
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        handles = [handle for handle in handles if not _is_mig(handle)]  # its instances are not offered yet
        loaded = libvgpu is not None and loads(libvgpu)
        tried = (
            try_slice(driver, _text(pynvml.nvmlDeviceGetUUID(handles[0])))
            if try_slice and handles and not loaded
            else None
        )
        mode, evidence = choose_mode(ProbeFacts(driver, libvgpu, loaded, tried))
        gpus = tuple(_gpu(handle, mode, evidence, sys_root) for handle in handles)
        return (gpus, _links(handles), driver) if gpus else None
    except pynvml.NVMLError as error:
        raise Unavailable(f"NVML fails: {error}") from error
    finally:
        pynvml.nvmlShutdown()


def list_pcie() -> Links:
    """The PCIe paths between the cards of `list_gpus`, in its order: NVLink hides them there. Raises Unavailable."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unavailable(f"NVML does not start: {error}") from error
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        handles = [handle for handle in handles if not _is_mig(handle)]
        return tuple(tuple("X" if one is two else _distance(one, two) for two in handles) for one in handles)
    except pynvml.NVMLError as error:
        raise Unavailable(f"NVML fails: {error}") from error
    finally:
        pynvml.nvmlShutdown()


def list_numa(sys_root: str = "/sys", allowed: set[int] | None = None) -> tuple[NumaView, ...]:
    """The machine's NUMA nodes with the cores that we may use; one node 0 where the kernel tells none."""
    allowed = os.sched_getaffinity(0) if allowed is None else allowed
    nodes = []
    for path in sorted(Path(sys_root, "devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cpus = tuple(cpu for cpu in parse_cpus((path / "cpulist").read_text()) if cpu in allowed)
        found = re.search(r"MemTotal:\s+(\d+) kB", (path / "meminfo").read_text())
        memory_mib = int(found[1]) >> 10 if found else 0
        nodes.append(NumaView(int(path.name[4:]), cpus, memory_mib, _socket(sys_root, cpus)))
    if len(nodes) < 2:  # then all memory is there, also what the kernel adds later
        return (NumaView(0, tuple(sorted(allowed)), total_memory_mib()),)
    return tuple(nodes)


def spread_numa(ids: tuple[int, ...], real: tuple[NumaView, ...]) -> tuple[NumaView, ...]:
    """The NUMA nodes of a simulated machine: the real cores and memory, dealt out in order."""
    cpus = [cpu for node in real for cpu in node.cpus]
    memory = sum(node.memory_mib for node in real)
    bounds = [len(cpus) * i // len(ids) for i in range(len(ids) + 1)]
    return tuple(NumaView(id, tuple(cpus[bounds[i] : bounds[i + 1]]), memory // len(ids)) for i, id in enumerate(ids))


def parse_cpus(text: str) -> list[int]:
    """`0-3,8` is [0, 1, 2, 3, 8]."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def total_memory_mib() -> int:
    """What the machine, or the control group we live in, has."""
    found = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    amounts = [int(found[1]) >> 10] if found else []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            amounts.append(int(Path(path).read_text()) >> 20)
        except (OSError, ValueError):
            pass  # no such controller here, or "max"
    return min(amounts)


def cpu_milli(cpus: int) -> int:
    """Thousandths of a core: those we may run on, or what our control group grants if that is less."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cpus * 1000, int(quota) * 1000 // int(period))
    except (OSError, ValueError):
        return cpus * 1000


def short_model(product: str, memory_mib: int) -> str:
    """`NVIDIA H100 80GB HBM3` is `H100-80GB`: how people ask for it. An unknown product keeps its name."""
    family = FAMILY.search(product.replace("-", " "))
    named = re.search(r"\b(\d+) ?GB\b", product)
    size = int(named[1]) if named else next((gb for gb in NOMINAL_GB if gb << 10 >= memory_mib), memory_mib >> 10)
    name = family[1] if family else re.sub(r"^(NVIDIA|Tesla|GeForce|Quadro)\s+", "", product)
    return re.sub(r"[^A-Za-z0-9-]+", "", name) + f"-{size}GB"


def loads(library: str) -> bool:
    """Whether the loader takes the library into a program: it complains on stderr and goes on when it cannot."""
    run = subprocess.run(["/bin/true"], env={"LD_PRELOAD": library}, capture_output=True, timeout=10, check=False)
    return run.returncode == 0 and b"cannot be preloaded" not in run.stderr


def _gpu(handle, mode: str, evidence: str, sys_root: str) -> GpuView:
    product = _text(pynvml.nvmlDeviceGetName(handle))
    total, reserved = _memory(handle)
    bus = _bus(handle)
    return GpuView(
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        index=pynvml.nvmlDeviceGetIndex(handle),
        model=short_model(product, total),
        product=product,
        memory_mib=total,
        reserved_mib=reserved,
        numa=_numa(handle, bus, sys_root),
        bus=bus,
        simulated=False,
        mode=mode,
        evidence=evidence,
    )


def _memory(handle) -> tuple[int, int]:
    """(total, reserved) MiB. Older drivers do not tell what they reserve: there it is 0."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return memory.total >> 20, -(-memory.reserved >> 20)
    except pynvml.NVMLError:
        return pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20, 0


def _numa(handle, bus: str, sys_root: str) -> int | None:
    """-1 and silence both mean unknown, as in a virtual machine; then any node will do."""
    try:
        node = int(Path(sys_root, "bus/pci/devices", bus, "numa_node").read_text())
        return node if node >= 0 else None
    except (OSError, ValueError):
        pass
    try:
        words = pynvml.nvmlDeviceGetMemoryAffinity(handle, 1, pynvml.NVML_AFFINITY_SCOPE_NODE)
    except pynvml.NVMLError:
        return None
    return (words[0] & -words[0]).bit_length() - 1 if words[0] else None


def _socket(sys_root: str, cpus: tuple[int, ...]) -> int | None:
    try:
        path = Path(sys_root, f"devices/system/cpu/cpu{cpus[0]}/topology/physical_package_id")
        package = int(path.read_text())
    except (IndexError, OSError, ValueError):
        return None
    return package if package >= 0 else None


def _links(handles: list) -> Links:
    buses = [_bus(handle) for handle in handles]
    nvlinks = [_nvlinks(handle) for handle in handles]
    return tuple(
        tuple(
            "X" if i == j else _nv(i, j, nvlinks, buses) or _distance(handles[i], handles[j])
            for j in range(len(handles))
        )
        for i in range(len(handles))
    )


def _nv(i: int, j: int, nvlinks: list[list[str]], buses: list[str]) -> str:
    """NV and how many: straight to the other card, or both through the switch."""
    count = nvlinks[i].count(buses[j]) or min(nvlinks[i].count("switch"), nvlinks[j].count("switch"))
    return f"NV{count}" if count else ""


def _nvlinks(handle) -> list[str]:
    """The far end of each active link: a card's bus id, or "switch"."""
    ends = []
    for link in range(NVLINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link) != pynvml.NVML_FEATURE_ENABLED:
                continue
            ends.append("switch" if _is_switch(handle, link) else _remote_bus(handle, link))
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED) and not ends:
                break  # it has no links, or no more
    return ends


def _is_switch(handle, link: int) -> bool:
    try:
        kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
    except pynvml.NVMLError:
        return False  # older drivers: the bus id decides
    return kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH


def _remote_bus(handle, link: int) -> str:
    return _short_bus(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)


def _distance(one, other) -> str:
    try:
        return DISTANCES[pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)]
    except (pynvml.NVMLError, KeyError):
        return "SYS"  # unknown counts as far


def _is_mig(handle) -> bool:
    try:
        return pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError:
        return False


def _bus(handle) -> str:
    return _short_bus(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def _short_bus(bus: str | bytes) -> str:
    """`00000000:1B:00.0` is `0000:1b:00.0`, as in /sys."""
    return _text(bus).lower()[-12:]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
