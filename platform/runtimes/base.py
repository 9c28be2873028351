"""What a runtime is: it lists nodes, lists containers, starts one, stops one. Nothing more.

Everything here is a value. A `node` is its name, a task is its uuid in hex (32 digits), units are in the names.
Reconciling above is level-triggered: list, compare, act; so `start` and `stop` may be called any number of times.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from runtimes.images import RegistryLogin
from runtimes.places import Place

Phase = Literal["starting", "running", "exited", "lost"]
Tone = Literal["ok", "note", "bad"]


class Unavailable(Exception):
    """The engine does not answer. Do nothing: the next round repairs."""


class Rejected(Exception):
    """The engine will never run this task. End it, and keep these words: they are the engine's own."""


class NodeRefused(Rejected):
    """Not on this node: it is gone, or lacks what the task was given there. Another one may run it."""


@dataclass(frozen=True)
class Capabilities:
    """containers: whether a task may bring an image. name: "local", "kubernetes" or "fake". view: dotted name of the
    class whose instances follow the engine (see LiveView), made with the runtime; "" where it is asked each second.
    own_addresses: whether each task has an address, and so all ports, to itself.
    examine: dotted name of the function that looks whether the engine is set up as we need it: (runtime, numbers of
    teams, probe: bool) to Findings, where probe allows it to run something for that; "" where nothing is to be set up.
    belongings: dotted name of the class of Belongings, made with the runtime; "" where all of it is in a directory.
    resizes: whether the slice of a task that runs can be made another size.
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
    """One thing that was looked at. tone: "note" works, and should be known. remedy: what mends it, "" where nothing
    needs to be mended.
    """

    about: str
    tone: Tone
    words: str
    remedy: str = ""


@dataclass(frozen=True)
class Belonging:
    """Something that an installation made in its engine. uid: of this very one. words: what goes with it. risk: what
    else may go with it that nobody wants to lose, "" for nothing.
    """

    name: str
    uid: str
    words: str
    risk: str = ""


class Belongings(Protocol):
    """All that an installation made in its engine. name: of the installation."""

    name: str

    def list_belongings(self) -> list[Belonging]: ...

    def remove(self, one: Belonging) -> None:
        """Ask for it; it may take a while, and may be asked for again. Raises Unavailable."""

    def is_gone(self, one: Belonging) -> bool: ...


@dataclass(frozen=True)
class NumaView:
    """socket: the physical package that its cores are on, None when unknown."""

    id: int
    cpus: tuple[int, ...]
    memory_mib: int
    socket: int | None = None


@dataclass(frozen=True)
class GpuView:
    """One physical (or simulated) card, or an instance of one that MIG cuts. It sells `memory_mib - reserved_mib`.

    model: short, as people ask for it ("V100-32GB"); product: the driver's own name.
    numa: None when unknown, which means "any". bus: PCI bus id, "" when there is none.
    mode: the strongest memory enforcement found by probing (simulated, watchdog, slice, hami, nvfraction, mig);
    evidence: one sentence that says how it was found. fault: why nothing should run on it, "" where all is well.
    pin: how a container gets it where it is not started by us: "plugin" (a device plugin serves each card), "toolkit"
    (NVIDIA's container toolkit reads which ones from the container's order).
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
"""The kinds of what a node may hold: what a job finds under `data`, and the image of its container."""


@dataclass(frozen=True)
class HeldView:
    """Something that the node need not fetch any more. key: by `places.data_key` or `images.image_key`."""

    kind: str
    key: str
    bytes: int


@dataclass(frozen=True)
class NodeView:
    """A machine as the runtime sees it now.

    links: square matrix over `gpus`, words of `nvidia-smi topo -m`: X, NV12, PIX, PXB, PHB, NODE, SYS.
    pcie: the same matrix with the PCIe path of each pair, which `links` hides where there is NVLink; () when unknown.
    facts: short words for the node page: memory_limit, process_limit, isolation, cpu_pinning, kernel, driver, python.
    held: what it holds of what others would fetch; None where this runtime cannot tell.
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
    """What a task holds of one card; `whole` when nobody else may be on it.

    card: as it was approved and is known now, for a runtime that does not see cards itself; None where it is gone.
    """

    uuid: str
    index: int
    memory_mib: int
    compute_percent: int
    whole: bool
    card: GpuView | None = None


@dataclass(frozen=True)
class Mount:
    """A directory that a task finds beside its code.

    place: a home or a team's folder, and `source` is relative inside it, made for its owner where it is missing; None
    makes `source` an absolute path of the host. target: relative to the work directory, or absolute and seen by this
    task alone (that needs namespaces).
    """

    place: Place | None
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Checkpoint:
    """How a task saves its work before it is stopped.

    dir: relative to where the task works, in its home (~/runs), or absolute as the task sees it. signal: such as
    "SIGUSR1", sent first to each of its processes that listens for it, "" for none. grace_s: how long it may take then,
    before SIGTERM; without a signal, or where nobody listens, after SIGTERM.
    """

    dir: str
    signal: str
    grace_s: int


@dataclass(frozen=True)
class Peer:
    """A task of a gang, as the others find it. slots: how many programs it is meant for, one for each of its cards.

    address: of its machine; a runtime with `own_addresses` knows a better one, by its uuid.
    ports: {declared: where it listens}.
    """

    address: str
    role: str = "main"
    slots: int = 1
    ports: dict[int, int] = field(default_factory=dict)
    uuid: str = ""


BALLOONS, STATIC = "balloons", "static"
"""What keeps tasks to their cores on a node of Kubernetes: nri-plugins, or the kubelet's own static CPU manager."""


@dataclass(frozen=True)
class TaskSpec:
    """All that a runtime needs to run one task, once.

    label: for people ("job-412 main.0"). epoch: of the scheduler that placed it.
    run: shell text, given to bash (else sh) as `-c`. workdir: absolute, or relative to the unpacked code.
    code_path: a .tar.gz on this machine, unpacked beside the task. numa: of each of its cards the NUMA node, near which
    its cores should be; () is anywhere.
    env: the user's own; names refused by `gpu_sharing.forbidden_env` are left out.
    peers: its whole gang in order of rank, itself included; the first one is the master. ports: given to this task; the
    first one is where the master listens, the same in all tasks of a gang.
    image: of the container, "" for the runtime's own choice. logins: its team's at registries, to fetch it with.
    cpu_overcommit_percent: so often its node promises a core.
    platform_env: the platform's own, wins over the user's and may be TESSERA_*. port_map: declared port → the one to
    listen on instead, told as TESSERA_PORT_<declared>. cpu_pinning: what its node does with cores, as its facts say.
    mps: whether its card's slices may share compute by NVIDIA's MPS, where its machine allows that; else in turns.
    looked_at: by this process's monotonic clock, when it was known that nobody had ever asked for its end; None: it is
    not.
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
    """What a task holds of a card that it shares, the newest sample. used_mib: the larger of what the driver tells and
    what its slice's account counts. refused: requests for more that its slice refused. watched: whether anybody looks:
    false from when the watch ends until it is back. compute: "turns" where nothing limits it, "mps" where NVIDIA's
    MPS does. over: why the task is to end for it, "" while it need not; only where the runtime cannot see it itself.
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
    """What became of a task. `exited` is proof that no process of it is left; `lost` means nobody can say yet.

    exit_code: None when unknown or killed by `signal`. cause: "", out_of_memory, gpu_out_of_memory, time_limit,
    start_failed, image_pull, never_started, stopped, container_lost, refused_by_node (it never ran, and may elsewhere),
    evicted (its machine, or who empties it, ended it), node_lost; of one that starts, why it never will run.
    detail: the engine's own words, for the event.
    checkpointed_at: the newest change in its checkpoint directory, at most 10 s late; None where it names none, or
    nothing is in there. gpu_use: of the cards that it shares with others, at most 2 s late, where that is watched.
    fetching_since: since when its image is fetched to its node, while it starts.
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
    """The contract, proved for every implementation by tests/runtimes/contract."""

    capabilities: Capabilities

    def list_nodes(self) -> list[NodeView]: ...

    def list_containers(self) -> list[ContainerView]:
        """Every task that was started or stopped here and is not yet forgotten."""

    def start(self, spec: TaskSpec) -> None:
        """Start it once. A task that exists, runs or has ended is success. Raises Unavailable, Rejected."""

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        """Ask it to end: SIGTERM, then SIGKILL after grace_s; returns at once. Before that, and unless grace_s is 0, it
        is asked to save its work and given the time that its checkpoint names.

        A task that never started leaves a tombstone, so that a late start can never run it. A stop of an older epoch
        than the task's own is ignored: whoever sent it has not heard of this task. gid: of its team, where it is known.
        unless_ran: what ever ran, or may have by now, is left alone.
        """

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        """Give a running task more of the cards that it shares, by their uuids, or less, down to what it uses: all of
        it or nothing. Raises Rejected with words where that is not so, and Unavailable. The account is the caller's.

        serial: of the wish, more with each one of a task. An older one than was done is ignored: its call was late.
        """

    def forget(self, uuid: str) -> None:
        """Its end is recorded: remove what it left on the node. Logs stay. Does nothing while it lives.

        A forgotten task is not listed any more, and a late start of it still runs nothing.
        """


class LiveView(Protocol):
    """A runtime's containers, told by the engine as things happen. A context manager: it follows while it is open."""

    def __enter__(self) -> "LiveView": ...

    def __exit__(self, *_: object) -> None: ...

    def list_containers(self) -> list[ContainerView]:
        """As the runtime's own, from what has been told so far. Raises Unavailable before the first whole list."""

    def is_there(self, uuid: str) -> bool:
        """Asks the engine itself, for what is not in the list. Raises Unavailable."""

    def wait(self, seconds: float) -> bool:
        """Until something changed, at most so long; whether it did."""

    def age_s(self) -> float:
        """Since the engine last said anything, even that nothing changed: how blind we may be."""

    def tidy(self) -> None:
        """Clean up what nobody needs any more. Raises Unavailable."""

    def measures(self) -> dict[str, float]:
        """{name with labels, as Prometheus reads it: value}."""


class PtySize(NamedTuple):
    columns: int
    rows: int


class Session(Protocol):
    """One program that was started inside a running task, as long as somebody holds on to it.

    It ends with its task, and when the one who holds it closes or dies: SIGHUP first, then SIGKILL. Then what it left
    running stays if it holds none of the session's streams, and ends if it does.
    """

    async def read(self, n: int = 65536) -> bytes:
        """At most n bytes of its standard output; with a pty of all that it writes. b"" is the end."""

    async def read_error(self, n: int = 65536) -> bytes:
        """At most n bytes of its standard error; b"" is the end, and comes at once with a pty."""

    async def write(self, data: bytes) -> None:
        """To its standard input; waits while the program does not read. Input that nobody reads any more is lost."""

    async def write_eof(self) -> None:
        """No more input: the pipe is closed; on a pty it is told as Ctrl-D."""

    def resize(self, size: PtySize) -> None:
        """The window has this size now; without a pty it means nothing."""

    def send_signal(self, number: int) -> None:
        """To its process group. Nothing happens when it has ended."""

    async def wait(self) -> int:
        """The exit code when it has ended; a negative number is the signal that ended it."""

    async def close(self) -> None:
        """Hang up. Any number of times."""


class Access(Protocol):
    """The way into a running task. A task is its uuid in hex. Both raise Rejected where there is no such task, or it
    has ended, and Unavailable where nobody answers.
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
        """Run a program with the account, limits, environment and view of the task.

        env: on top of the task's own. cwd: relative to where the task works, None is just there.
        Raises Rejected too where the program cannot be started, with the system's words.
        """

    async def dial(self, uuid: str, port: int) -> socket.socket:
        """A connected, non-blocking socket to what listens on this port of loopback, if a process of this very task
        does. Raises ConnectionRefusedError where none of them listens.
        """
