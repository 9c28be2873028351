"""A machine as a runtime reports it: processors, cards, and data that it already holds."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class NumaView:
    """A NUMA node. socket: physical package, None if unknown."""

    id: int
    cpus: tuple[int, ...]
    memory_mib: int
    socket: int | None = None


@dataclass(frozen=True)
class GpuView:
    """A card, real or simulated, or a MIG instance. `memory_mib - reserved_mib` can be allocated.

    model: short ("V100-32GB"). product: the driver's name. numa: None if unknown. bus: PCI bus id or "".
    mode: strongest memory enforcement found by probing (simulated, watchdog, slice, hami, nvfraction, mig).
    evidence: how it was found. fault: why nothing should run on it, or "".
    pin: how containers get it: "plugin" (device plugin) or "toolkit" (NVIDIA's container toolkit).
    """

    uuid: str
    index: int
    model: str
    product: str
    memory_mib: int
    reserved_mib: int
    numa: int | None
    bus: str
    simulated: bool
    mode: str
    evidence: str
    fault: str = ""
    pin: str = "plugin"


HCA_DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""From below one PCIe switch to across sockets."""


@dataclass(frozen=True)
class HcaView:
    """An RDMA adapter. link: InfiniBand or Ethernet. active: a port of it has a link.

    near: one of HCA_DISTANCES for each card of the node, as `nvidia-smi topo -m`.
    """

    name: str
    bus: str
    numa: int | None
    link: str
    rate_gbps: int
    active: bool
    near: tuple[str, ...]


DATA, IMAGE = "data", "image"
"""Kinds of content a node may hold: a job's `data`, and container images."""


@dataclass(frozen=True)
class HeldView:
    """Data or an image already on a node. key: `places.data_key` or `images.image_key`."""

    kind: str
    key: str
    bytes: int


@dataclass(frozen=True)
class NodeView:
    """A machine as the runtime sees it now.

    links: matrix over `gpus`, in the words of `nvidia-smi topo -m`. pcie: the same for PCIe paths, which NVLink hides;
    () if unknown. facts: for the node page. held: None if the runtime cannot know.
    """

    name: str
    address: str
    boot_id: str
    cpu_milli: int
    memory_mib: int
    numa: tuple[NumaView, ...]
    gpus: tuple[GpuView, ...]
    links: tuple[tuple[str, ...], ...]
    ready: bool = True
    facts: dict[str, str] = field(default_factory=dict)
    pcie: tuple[tuple[str, ...], ...] = ()
    held: tuple[HeldView, ...] | None = None
    hcas: tuple[HcaView, ...] = ()


BALLOONS, STATIC = "balloons", "static"
"""What pins tasks to cores on a Kubernetes node: nri-plugins, or the kubelet's static CPU manager."""

OWN_NETWORK = "own"
"""The fact `network` of a node whose jobs have networks of their own, so that each may use any port."""
