"""RDMA adapters (HCAs) of this machine, and how near each is to its cards. Also used by the local runtime.

Source: sysfs's `class/infiniband`, and the words of `nvidia-smi topo -m`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ACTIVE = "ACTIVE"
RDMA_CM = "rdma_cm"
"""The device by which connections are made, of all adapters."""
PATHS = 4
"""Of a card and an adapter below one switch: each has its port and itself."""


@dataclass(frozen=True)
class Hca:
    """An adapter as RDMA's libraries name it.

    link: InfiniBand or Ethernet (RoCE). active: some port of it has a link. devices: in /dev/infiniband.
    near: PIX, PXB, PHB, NODE or SYS for each card, in the order of the report.
    """

    name: str
    bus: str
    numa: int | None
    link: str
    rate_gbps: int
    active: bool
    devices: tuple[str, ...]
    near: tuple[str, ...] = ()


def list_hcas(cards: Sequence[tuple[str, int | None]], sys_root: str = "/sys") -> tuple[Hca, ...]:
    """List this machine's adapters by name. cards: PCI bus id and NUMA node of each."""
    verbs = {_read(path / "ibdev"): path.name for path in Path(sys_root, "class/infiniband_verbs").glob("uverbs*")}
    found = sorted(Path(sys_root, "class/infiniband").glob("*"), key=lambda path: _natural(path.name))
    connections = (RDMA_CM,) if Path(sys_root, "class/misc", RDMA_CM).exists() else ()
    devices = {path.name: (verbs[path.name], *connections) for path in found if path.name in verbs}
    return tuple(_read_hca(path, devices.get(path.name, ()), cards, sys_root) for path in found)


def measure_distance(one: Path, other: Path, *, same_numa: bool) -> str:
    """Return how far two PCI devices are from each other. one, other: their folders below `devices`, links resolved."""
    ours, theirs = (_bridges(path) for path in (one, other))
    shared = sum(1 for _ in _common(ours, theirs))
    if not shared:
        return "NODE" if same_numa else "SYS"
    if shared == 1:
        return "PHB"  # the host's bridge alone
    return "PIX" if len(ours) + len(theirs) - 2 * shared <= PATHS else "PXB"


def _read_hca(folder: Path, devices: tuple[str, ...], cards: Sequence[tuple[str, int | None]], sys_root: str) -> Hca:
    device = (folder / "device").resolve()
    ports = sorted((folder / "ports").glob("*"), key=lambda port: _natural(port.name))
    active = [port for port in ports if ACTIVE in _read(port / "state").upper().split()]
    numa = _number(_read(device / "numa_node"), least=0)
    told = (active or ports or [folder])[0]
    return Hca(
        name=folder.name,
        bus=device.name,
        numa=numa,
        link=_read(told / "link_layer"),
        rate_gbps=_number(_read(told / "rate").partition(" ")[0].partition(".")[0]) or 0,
        active=bool(active),
        devices=devices,
        near=tuple(
            measure_distance(
                Path(sys_root, "bus/pci/devices", bus).resolve(), device, same_numa=numa is not None and numa == near
            )
            for bus, near in cards
        ),
    )


def _bridges(device: Path) -> list[str]:
    """Return the way from the host's bridge to a device: ["pci0000:16", "0000:16:01.0", "0000:17:00.0"]."""
    parts = device.parts
    roots = [place for place, part in enumerate(parts) if part.startswith("pci")]
    return list(parts[roots[-1] :]) if roots else []


def _common(ours: Iterable[str], theirs: Iterable[str]) -> Iterable[str]:
    for mine, other in zip(ours, theirs, strict=False):
        if mine != other:
            return
        yield mine


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(text: str, least: int = 0) -> int | None:
    try:
        return number if (number := int(text)) >= least else None
    except ValueError:
        return None


def _natural(name: str) -> tuple[str, int]:
    """Sort mlx5_10 behind mlx5_9."""
    found = re.fullmatch(r"(.*?)(\d*)", name)
    return (found[1], int(found[2] or 0)) if found else (name, 0)
