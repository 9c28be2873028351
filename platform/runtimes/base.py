"""The contract between the platform and a runtime: list nodes and containers, start and stop tasks.

A node is its name, a task its uuid in hex. Callers reconcile, so all calls may be repeated.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from runtimes.images.names import RegistryLogin
from runtimes.storage.areas import AreaId

Phase = Literal["starting", "running", "exited", "lost"]
Tone = Literal["ok", "note", "bad"]


class Unavailable(Exception):
    """The engine does not answer; the next reconcile round retries."""


class Rejected(Exception):
    """The engine will never run this task; the message is the engine's own."""


class NodeRefused(Rejected):
    """This node cannot run the task; another may."""


@dataclass(frozen=True)
class Capabilities:
    """What a runtime can do, with dotted names of its optional parts ("" for none).

    containers: a task may bring an image. own_addresses: each task has an address and all its ports. resizes: slices of
    running tasks. view: LiveView class; without it the runtime is polled. examine: health check, (runtime, numbers of
    teams, probe) to Findings; probe may run something. belongings: Belongings class.
    """

    containers: bool
    name: str
    view: str = ""
    own_addresses: bool = False
    examine: str = ""
    belongings: str = ""
    resizes: bool = False


@dataclass(frozen=True)
class Finding:
    """A health check result. tone: "note" works but matters. remedy: the fix, or ""."""

    about: str
    tone: Tone
    words: str
    remedy: str = ""


@dataclass(frozen=True)
class Belonging:
    """An object that an installation created in its engine. words: what goes with it. risk: lost data, or ""."""

    name: str
    uid: str
    words: str
    risk: str = ""


class Belongings(Protocol):
    """All that the installation `name` created in its engine, for uninstalling."""

    name: str

    def list_belongings(self) -> list[Belonging]: ...

    def remove(self, one: Belonging) -> None:
        """Request removal; repeatable. Raises Unavailable."""

    def is_gone(self, one: Belonging) -> bool: ...


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


@dataclass(frozen=True)
class GpuShare:
    """A task's share of a card; `whole` excludes others. card: for runtimes that see no cards, None if gone."""

    uuid: str
    index: int
    memory_mib: int
    compute_percent: int
    whole: bool
    card: GpuView | None = None


@dataclass(frozen=True)
class Mount:
    """A directory in a task.

    place: area that `source` is relative to, created if missing; None: `source` is a host path.
    target: relative to the work directory, or absolute, which needs namespaces.
    """

    place: AreaId | None
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Checkpoint:
    """How a task saves its work before it is stopped.

    dir: relative to the work directory, in the home (~/runs), or absolute in the task. signal: sent first to processes
    that handle it, or "". grace_s: until SIGTERM then; otherwise after SIGTERM.
    """

    dir: str
    signal: str
    grace_s: int


@dataclass(frozen=True)
class Peer:
    """A task of a gang, as others find it. slots: one for each card. address: of its machine, unless the runtime has
    `own_addresses`. ports: {declared: actual}.
    """

    address: str
    role: str = "main"
    slots: int = 1
    ports: dict[int, int] = field(default_factory=dict)
    uuid: str = ""


BALLOONS, STATIC = "balloons", "static"
"""What pins tasks to cores on a Kubernetes node: nri-plugins, or the kubelet's static CPU manager."""


@dataclass(frozen=True)
class TaskSpec:
    """All that a runtime needs to run one task, once.

    label: for people ("job-412 main.0"). epoch: of the scheduler. run: shell text. workdir: absolute, or relative to
    the code. code_path: a .tar.gz here. env: the user's, without `gpu_sharing.forbidden_env`. platform_env: overrides
    env. numa: near which NUMA node cores should be, for each card; () is anywhere. peers: the gang by rank; the first
    is master. ports: the master listens on the first, equal in the gang. port_map: declared → actual, in
    TESSERA_PORT_<declared>. image: "" for the default. cpu_pinning: of its node. mps: share compute by NVIDIA's MPS if
    possible, else take turns. looked_at: monotonic time when no stop had been requested, None if unknown.
    """

    uuid: str
    label: str
    epoch: int
    node: str
    run: str
    env: dict[str, str] = field(default_factory=dict)
    workdir: str | None = None
    code_path: str | None = None
    gpus: tuple[GpuShare, ...] = ()
    cpu_milli: int = 1000
    memory_mib: int = 512
    numa: tuple[int, ...] = ()
    uid: int = 0
    gid: int = 0
    user: str = ""
    team: str = ""
    max_time_s: int | None = None
    grace_s: int = 10
    rank: int = 0
    role: str = "main"
    peers: tuple[Peer, ...] = ()
    ports: tuple[int, ...] = ()
    image: str = ""
    logins: tuple[RegistryLogin, ...] = ()
    cpu_overcommit_percent: int = 100
    platform_env: dict[str, str] = field(default_factory=dict)
    port_map: dict[int, int] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    checkpoint: Checkpoint | None = None
    cpu_pinning: str = ""
    mps: bool = True
    looked_at: float | None = None


@dataclass(frozen=True)
class GpuUse:
    """A task's use of a shared card, newest sample.

    used_mib: larger of driver's figure and slice's account. refused: memory requests. watched: false while the watch is
    down. compute: "mps" or "turns". over: why the task must end, if the runtime cannot tell.
    """

    uuid: str
    limit_mib: int
    used_mib: int
    peak_mib: int
    refused: int
    watched: bool = True
    compute: str = "turns"
    over: str = ""


@dataclass(frozen=True)
class ContainerView:
    """State of a task's container. `exited` proves that no process is left; `lost` is unknown.

    exit_code: None if unknown or killed by `signal`. cause: "", out_of_memory, gpu_out_of_memory, time_limit,
    start_failed, image_pull, never_started, stopped, container_lost, refused_by_node (may run elsewhere), evicted,
    node_lost; while starting, why it never will. detail: the engine's message. checkpointed_at: up to 10 s late.
    gpu_use: up to 2 s late.
    """

    uuid: str
    node: str
    phase: Phase
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    detail: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    address: str = ""
    epoch: int = 0
    peak_memory_mib: int | None = None
    checkpointed_at: datetime | None = None
    gpu_use: tuple[GpuUse, ...] = ()
    fetching_since: datetime | None = None


class Runtime(Protocol):
    """The runtime contract; see tests/runtimes/contract."""

    capabilities: Capabilities

    def list_nodes(self) -> list[NodeView]: ...

    def list_containers(self) -> list[ContainerView]:
        """List all tasks started or stopped here and not forgotten."""

    def start(self, spec: TaskSpec) -> None:
        """Start a task once; repeatable. Raises Unavailable, Rejected."""

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        """Stop a task without waiting: checkpoint (unless grace_s is 0), SIGTERM, SIGKILL after grace_s.

        A task never started gets a tombstone against a late start. An older epoch than the task's is ignored: its
        sender does not know this task. gid: its team's, if known. unless_ran: skip if it may have run.
        """

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        """Resize a task's card shares, by uuid, all or none, never below use. Raises Rejected, Unavailable.

        serial: grows with each resize, so late calls are ignored. The caller accounts.
        """

    def forget(self, uuid: str) -> None:
        """Remove an ended task's remains from the node, except logs. A late start still runs nothing."""


class LiveView(Protocol):
    """Follows the engine's events while open, and keeps the list of containers."""

    def __enter__(self) -> "LiveView": ...

    def __exit__(self, *_: object) -> None: ...

    def list_containers(self) -> list[ContainerView]:
        """List known containers. Raises Unavailable before the first full list."""

    def is_there(self, uuid: str) -> bool:
        """Ask the engine whether an unlisted container exists. Raises Unavailable."""

    def wait(self, seconds: float) -> bool:
        """Wait for a change, at most so long; return whether one came."""

    def age_s(self) -> float:
        """Return seconds since the engine's last event or heartbeat."""

    def tidy(self) -> None:
        """Delete what is unneeded. Raises Unavailable."""

    def measures(self) -> dict[str, float]:
        """Return Prometheus metrics: {name with labels: value}."""


class PtySize(NamedTuple):
    columns: int
    rows: int


class Session(Protocol):
    """A program started inside a running task.

    Ends with the task, or when its holder closes or dies: SIGHUP, then SIGKILL. Children survive unless they hold the
    session's streams.
    """

    async def read(self, n: int = 65536) -> bytes:
        """Return stdout, or all output with a pty; b"" is the end."""

    async def read_error(self, n: int = 65536) -> bytes:
        """Return stderr; b"" is the end, at once with a pty."""

    async def write(self, data: bytes) -> None:
        """Write to stdin, waiting for the program; dropped once unreadable."""

    async def write_eof(self) -> None:
        """End input: close the pipe, or Ctrl-D on a pty."""

    def resize(self, size: PtySize) -> None:
        """Resize the pty, if any."""

    def send_signal(self, number: int) -> None:
        """Signal the process group, unless ended."""

    async def wait(self) -> int:
        """Return the exit code, or minus the signal's number."""

    async def close(self) -> None:
        """Hang up. Idempotent."""


class Access(Protocol):
    """Starts programs and reaches ports in running tasks, by uuid in hex.

    Raises Rejected for no such running task, Unavailable without an answer.
    """

    async def exec(
        self,
        uuid: str,
        argv: Sequence[str],
        *,
        pty: PtySize | None = None,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
    ) -> Session:
        """Run a program with the task's account, limits, environment and view of files.

        env: on top. cwd: relative to the work directory. Rejected also if it cannot be started.
        """

    async def dial(self, uuid: str, port: int) -> socket.socket:
        """Connect to a loopback port of this task; non-blocking. Raises ConnectionRefusedError without a listener of
        its own.
        """
