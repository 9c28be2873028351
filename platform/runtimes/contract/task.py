"""All that a runtime needs to run a task: resources, files, its gang."""

from dataclasses import dataclass, field

from runtimes.contract.node import GpuView
from runtimes.images.names import RegistryLogin
from runtimes.storage.areas import AreaId


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


@dataclass(frozen=True)
class TaskSecret:
    """A secret, for a file of its name in TESSERA_SECRETS. is_variable: for an environment variable as well."""

    name: str
    value: str = field(repr=False)
    is_variable: bool = True


@dataclass(frozen=True)
class TaskSpec:
    """All that a runtime needs to run one task, once.

    label: for people ("job-412 main.0"). epoch: of the scheduler. run: shell text. workdir: absolute, or relative to
    the code. code_path: a .tar.gz here. env: the user's, without `is_forbidden_env`. platform_env: overrides env.
    work_folders: variables with folders below the top of the code, by their paths there.
    platform_url: of the platform's web server, which a task with a token reaches wherever it is, "" for others.
    shm_mib: size of /dev/shm, None for all of its memory. numa: near which NUMA node cores and memory should be, for
    each card, or for each core of a task without cards; () is anywhere. peers: the gang by rank; the first is master.
    ports: the master listens on the first, equal in the gang. port_map: declared → actual, in TESSERA_PORT_<declared>.
    image: "" for the default. cpu_pinning: of its node. mps: share compute by NVIDIA's MPS if possible, else take
    turns. hcas: names of the RDMA adapters nearest to its cards, None if it asked for none. secrets: kept in memory
    only, in nothing that is written or told of the task. simulated_trace: what simulated cards do under it.
    environment: of Python, mounted in the task's own folder whatever its target says. looked_at: monotonic time when no
    stop had been requested, None if unknown.
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
    shm_mib: int | None = None
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
    secrets: tuple[TaskSecret, ...] = ()
    cpu_overcommit_percent: int = 100
    platform_env: dict[str, str] = field(default_factory=dict)
    work_folders: dict[str, str] = field(default_factory=dict)
    platform_url: str = ""
    port_map: dict[int, int] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    environment: Mount | None = None
    checkpoint: Checkpoint | None = None
    cpu_pinning: str = ""
    mps: bool = True
    hcas: tuple[str, ...] | None = None
    simulated_trace: str = ""
    looked_at: float | None = None
