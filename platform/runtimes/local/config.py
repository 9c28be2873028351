"""Options of the local runtime, and what each task's plan needs to know of the node."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtimes.contract.node import GpuView
from runtimes.local.node.isolation_probe import Isolation, MemoryControl
from runtimes.private_networks import read_all_opened

LOG_CAPS = {"rate": 1 << 20, "burst": 8 << 20, "total": 200 << 20, "line": 16384, "tail": 1 << 20}


@dataclass
class NodeConfig:
    """Options of the local runtime.

    data_dir: hidden from jobs. run_dir: for sockets. files_dir: areas, default data_dir/files. slice_library: a folder,
    "" for data_dir's, or "off". gpus_text: simulated without NVIDIA driver. processes_most: of a task, with threads, 0
    for no limit. gpu_above_s: allowed time above a GPU slice. mps: if a test works. isolation, memory: override
    probing. start_patience_s: until a start without a shim has failed. images_mib: of the store of images, 0 for none.
    registry_ca, registry_plain: as of runtimes.images.digest_lookup.Reach. networks: jobs have their own, where that
    works. private: what they reach of private networks, in TESSERA_JOBS_PRIVATE's form.
    """

    data_dir: Path
    log_dir: Path
    run_dir: Path
    gpus_text: str = "2xV100-32GB"
    node_name: str = field(default_factory=platform.node)
    libvgpu: str | None = None
    slice_library: str = ""
    files_dir: Path | None = None
    isolation: Isolation | None = None
    memory: MemoryControl | None = None
    start_patience_s: float = 10.0
    log_caps: Mapping[str, int] = field(default_factory=LOG_CAPS.copy)
    processes_most: int = 4096
    gpu_above_s: float = 6.0
    mps: bool = False
    images_mib: int = 100 << 10
    registry_ca: str = ""
    registry_plain: Sequence[str] = ()
    networks: bool = False
    private: Sequence[str] = ()

    def __post_init__(self) -> None:
        paths = self.data_dir, self.log_dir, self.run_dir
        self.data_dir, self.log_dir, self.run_dir = (Path(path).resolve() for path in paths)
        self.opened = read_all_opened(self.private)

    @property
    def areas_dir(self) -> Path:
        return Path(self.files_dir or self.data_dir / "files").resolve()

    @property
    def tasks_dir(self) -> Path:
        return self.data_dir / "tasks"

    @property
    def networks_dir(self) -> Path:
        return self.data_dir / "networks"

    @property
    def images_dir(self) -> Path:
        return self.data_dir / "images"

    @property
    def hidden(self) -> list[str]:
        """Paths that jobs do not see."""
        return [str(path) for path in (self.data_dir, self.run_dir, self.log_dir, self.areas_dir)]


@dataclass(frozen=True)
class NodeContext:
    """What a node gives each task. files: root of the storage areas, None if jobs cannot reach it."""

    config: NodeConfig
    isolation: Isolation
    memory: MemoryControl
    cards: Mapping[str, GpuView]
    files: str | None
