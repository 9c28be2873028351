"""Tasks and nodes for the tests of the Kubernetes runtime."""

from dataclasses import replace
from pathlib import Path

from runtimes.contract.node import BALLOONS, STATIC, GpuView
from runtimes.contract.task import Checkpoint, GpuShare, Mount, Peer, TaskSecret, TaskSpec
from runtimes.gpu_sharing import HAMI, MIG, NVFRACTION, PLUGIN, SLICE, TOOLKIT
from runtimes.kubernetes.pods.files_volume import Storage
from runtimes.kubernetes.pods.manifest import InstallConfig
from runtimes.storage.areas import AreaId

CONFIG = InstallConfig("tessera", "registry.local/base:1", tolerated=("kwok.x-k8s.io/node",))
SHARED = Path("/srv/tessera")
STORAGE = Storage("shared", SHARED, SHARED / "files", SHARED / "code")
STORED = replace(CONFIG, storage=STORAGE)
UUID = "0123456789abcdef0123456789abcdef"


def card(uuid: str, index: int = 0, *, simulated: bool = False, mode: str = "watchdog", pin: str = PLUGIN) -> GpuView:
    return GpuView(uuid, index, "A100-80GB", "NVIDIA A100", 81920, 693, 0, "", simulated, mode, "Found.", pin=pin)


ONE, TWO = "GPU-3f2a9c10-55aa-0000-0000-000000000001", "GPU-9b00de11-77bb-0000-0000-000000000002"
PART = GpuView(
    "MIG-3f2a9c10-55aa-5000-0000-000000000005", 1205, "A100-40GB-1g.5gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, 0,
    0, "", False, MIG, "Found.",
)  # fmt: skip
CARDS = {uuid: card(uuid, index) for index, uuid in enumerate((ONE, TWO))}


def share(uuid: str, memory_mib: int, percent: int, *, whole: bool = False) -> GpuShare:
    return GpuShare(uuid, CARDS[uuid].index, memory_mib, percent, whole)


def task(run: str = "python train.py", **fields) -> TaskSpec:
    known = TaskSpec(UUID, "job-412 main.0", 1700000000123, "n1", run, uid=20001, gid=20000, user="ada", team="blue")
    return replace(known, **fields)


TASKS = {
    "cpu_only": task(env={"LR": "0.1", "HOMES": "$(HOME) and $$"}, cpu_milli=1500, memory_mib=2048),
    "a_quarter": task(gpus=(share(ONE, 20306, 25),), cpu_overcommit_percent=200),
    "two_whole_cards": task(gpus=tuple(share(uuid, 81227, 100, whole=True) for uuid in CARDS), cpu_milli=8000),
    "with_a_checkpoint": task(
        image="registry.local/torch@sha256:" + "a" * 64,
        workdir="src",
        max_time_s=3600,
        grace_s=10,
        checkpoint=Checkpoint("ckpt", "SIGUSR1", 120),
        ports=(29500,),
        port_map={8888: 31001},
        platform_env={"TESSERA_UPSTREAM_TOKEN": "secret"},
    ),
    "with_secrets": task(secrets=(TaskSecret("HUB_TOKEN", "c4nary"), TaskSecret("KEY", "c4nary", is_variable=False))),
    "a_gang": task(
        "mpirun train",
        rank=0,
        role="launcher",
        ports=(23000,),
        peers=(Peer("n1", "launcher", uuid=UUID), Peer("n1", "gpu_worker", 2, {2222: 2222}, "f" * 32)),
    ),
}

WITH_FILES = task(
    workdir="src",
    code_path=f"{SHARED}/code/{'c' * 64}.tar.gz",
    mounts=(
        Mount(AreaId("team", 20000), "sets/images", "data/images", True),
        Mount(AreaId("home", 20001), "out", "out", False),
        Mount(AreaId("dataset", "d" * 32), "7", "in/corpus", True),
        Mount(None, f"{SHARED}/notebook-environment/1", f"{SHARED}/notebook-environment/1", True),
    ),
    checkpoint=Checkpoint("~/runs/a", "", 30),
    work_folders={"AFTER_PREPARE_OUTPUTS": ".after/prepare"},
)
"""For an installation with a volume: STORED."""
QUARTER, WHOLE = (share(ONE, 20306, 25),), tuple(share(uuid, 81227, 100, whole=True) for uuid in CARDS)
MODES = {
    "slice": (task(gpus=QUARTER), {ONE: card(ONE, mode=SLICE)}),
    "hami": (task(gpus=QUARTER), {ONE: card(ONE, mode=HAMI)}),
    "nvfraction": (task(gpus=QUARTER), {ONE: card(ONE, mode=NVFRACTION, pin=TOOLKIT)}),
    "whole_by_the_toolkit": (
        task(gpus=WHOLE),
        {uuid: card(uuid, index, pin=TOOLKIT) for index, uuid in enumerate(CARDS)},
    ),
    "mig": (task(gpus=(GpuShare(PART.uuid, PART.index, 4864, 100, True),)), {PART.uuid: PART}),
    "rdma": (task(gpus=QUARTER, hcas=("mlx5_0", "mlx5_3")), {ONE: card(ONE)}),
    "balloons": (task(gpus=QUARTER, numa=(1,), cpu_pinning=BALLOONS), {ONE: card(ONE)}),
    "static": (task(gpus=QUARTER, cpu_milli=4000, cpu_pinning=STATIC), {ONE: card(ONE)}),
}
"""{mode: (task, cards of its node)}: each is a file of pods/ as well."""
