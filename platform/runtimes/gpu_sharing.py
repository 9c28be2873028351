"""Enforcement modes for slices of a card, and their environment variables. Pure.

Sources: HAMi-core's README, NVIDIA's CUDA and container toolkit documentation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtimes.contract.node import GpuView
from runtimes.contract.task import GpuShare

SIMULATED, WATCHDOG, HAMI, SLICE = "simulated", "watchdog", "hami", "slice"
NVFRACTION, MIG = "nvfraction", "mig"
"""The driver's own limits (r615 and newer), and MIG instances; neither needs a library."""
MIG_WORDS = "The hardware keeps this instance of a card to its memory and its compute (MIG). Not run on hardware yet."
PLUGIN, TOOLKIT = "plugin", "toolkit"
"""How a container gets its cards, see GpuView.pin."""

# Setting these could raise a limit or take another card.
FORBIDDEN_ENV = (
    "NVIDIA_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_",
    "CUDA_MPS_",
    "CUDA_DISABLE_CONTROL",
    "CUDA_OVERSUBSCRIBE",
    "CUDA_REDIRECT",
    "CUDA_TASK_PRIORITY",
    "GPU_CORE_UTILIZATION_POLICY",
    "ACTIVE_OOM_KILLER",
    "LIBCUDA_LOG_LEVEL",
    "LD_PRELOAD",
    "LD_AUDIT",
    "TESSERA_",
)


def is_forbidden_env(name: str) -> bool:
    """Return whether jobs may not set a variable."""
    return name.upper().startswith(FORBIDDEN_ENV)


@dataclass(frozen=True)
class SliceTrial:
    """Self-test result of the slice library. words: for the node page. context_bytes: 0 if unknown."""

    works: bool
    words: str
    context_bytes: int = 0


@dataclass(frozen=True)
class ProbeFacts:
    """Findings on a node. libvgpu: the administrator's HAMi-core. slice: None if not needed."""

    driver: str = ""
    libvgpu: str | None = None
    libvgpu_loads: bool = False
    slice: SliceTrial | None = None


def choose_mode(facts: ProbeFacts) -> tuple[str, str]:
    """Return (mode, evidence): the strongest memory enforcement for real cards.

    HAMi-core goes first, as an administrator chose it. No runtime uses the driver's limits (r615) yet.
    """
    if facts.libvgpu and facts.libvgpu_loads:
        return HAMI, f"HAMi-core was given by the administrator and loads: {facts.libvgpu}."
    if facts.slice and facts.slice.works:
        return SLICE, facts.slice.words
    if facts.libvgpu:
        why = f"HAMi-core was given as {facts.libvgpu} and does not load; memory is only watched."
    else:
        why = f"Driver {facts.driver}, no HAMi-core given: memory is not enforced, only watched every 2 s."
    return WATCHDOG, f"{why} {facts.slice.words}" if facts.slice else why


def needs_slice(shares: Sequence[GpuShare], cards: Mapping[str, GpuView]) -> bool:
    """Return whether a task shares a card in mode `slice`."""
    return any(not share.whole and cards[share.uuid].mode == SLICE for share in shares)


def list_watched_limits(shares: Sequence[GpuShare], cards: Mapping[str, GpuView]) -> dict[str, int]:
    """Return MiB by uuid of shared real cards, for the watchdog."""
    return {share.uuid: share.memory_mib for share in shares if not share.whole and not cards[share.uuid].simulated}


def build_slice_environment(
    shares: Sequence[GpuShare], cards: Mapping[str, GpuView], *, libvgpu: str | None = None, region: str = ""
) -> tuple[dict[str, str], dict[str, str]]:
    """Return (overridable variables, fixed variables).

    libvgpu: path of HAMi-core. region: counters of this job; in the shared default, the first job's limits would rule.
    """
    if not shares:
        return {}, {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    uuids = ",".join(share.uuid for share in shares)
    fixed = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": uuids,
        "NVIDIA_VISIBLE_DEVICES": uuids,
        "TESSERA_GPU_MEMORY_MIB": ",".join(str(share.memory_mib) for share in shares),
        "TESSERA_GPU_COMPUTE_PERCENT": ",".join(str(share.compute_percent) for share in shares),
        "TESSERA_GPU_SIMULATED": "1" if any(cards[share.uuid].simulated for share in shares) else "0",
    }
    if all(share.whole for share in shares):
        return {}, fixed
    if all(cards[share.uuid].mode == SLICE for share in shares):
        return {}, fixed  # frameworks see the slice only; a fraction would apply twice
    if libvgpu and all(cards[share.uuid].mode == HAMI for share in shares):
        fixed |= _hami(shares, libvgpu, region)
    return _framework_hints(shares, cards), fixed


def _hami(shares: Sequence[GpuShare], libvgpu: str, region: str) -> dict[str, str]:
    limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{share.memory_mib}m" for i, share in enumerate(shares)}
    limits |= {f"CUDA_DEVICE_SM_LIMIT_{i}": str(share.compute_percent) for i, share in enumerate(shares)}
    return limits | {
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": region,
        "CUDA_REDIRECT": libvgpu,
        "LD_PRELOAD": libvgpu,
        "LIBCUDA_LOG_LEVEL": "1",
    }


def _framework_hints(shares: Sequence[GpuShare], cards: Mapping[str, GpuView]) -> dict[str, str]:
    """Let frameworks report lack of memory before the job is killed."""
    smallest = min(shares, key=lambda share: share.memory_mib)
    total = cards[smallest.uuid].memory_mib
    return {
        "CUPY_GPU_MEMORY_LIMIT": str(smallest.memory_mib << 20),
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{smallest.memory_mib / total:.4f}",
    }
