"""How a slice of a card is enforced, and the environment that goes with it. Pure: values in, values out.

Sources: HAMi-core's README (its variables), NVIDIA's CUDA and container toolkit documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtimes.base import GpuShare, GpuView

SIMULATED, WATCHDOG, HAMI, SLICE = "simulated", "watchdog", "hami", "slice"
NVFRACTION, MIG = "nvfraction", "mig"
"""The driver's own limits (r615 and newer), and an instance of a card that MIG cuts: kept by no library."""
MIG_WORDS = "The hardware keeps this instance of a card to its memory and its compute (MIG). Not run on hardware yet."
PLUGIN, TOOLKIT = "plugin", "toolkit"
"""How a container gets its cards, see GpuView.pin."""

# A user who sets one of these would raise his own limit or take another card. A name ends here or goes on.
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


def forbidden_env(name: str) -> bool:
    """Whether a user may not set this variable for a job."""
    return name.upper().startswith(FORBIDDEN_ENV)


@dataclass(frozen=True)
class SliceTrial:
    """What came of running a program under our own library. words: one sentence, for the node page. context_bytes:
    what a context takes of the card, 0 where the driver does not tell.
    """

    works: bool
    words: str
    context_bytes: int = 0


@dataclass(frozen=True)
class ProbeFacts:
    """What was found on the node. libvgpu: the path that the admin gave, None without; libvgpu_loads: tried out;
    slice: what came of trying our own library, None where it was not needed.
    """

    driver: str = ""
    libvgpu: str | None = None
    libvgpu_loads: bool = False
    slice: SliceTrial | None = None


def choose_mode(facts: ProbeFacts) -> tuple[str, str]:
    """(mode, evidence): the strongest enforcement of memory that this node has for real cards.

    What the admin gave by name goes first. The driver's own limits (r615) would go before all of these, and no runtime
    of ours drives them here yet. Instances of cards that MIG cuts need none of it (`MIG`).
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
    """Whether a task gets our library: it holds a share of a card in mode `slice`. Its whole cards count then too."""
    return any(not share.whole and cards[share.uuid].mode == SLICE for share in shares)


def watched_limits(shares: Sequence[GpuShare], cards: Mapping[str, GpuView]) -> dict[str, int]:
    """MiB by uuid that the watchdog holds a task to: its slices of real cards."""
    return {
        share.uuid: share.memory_mib for share in shares if not share.whole and not cards[share.uuid].simulated
    }  # a whole card is its own limit


def slice_environment(
    shares: Sequence[GpuShare], cards: Mapping[str, GpuView], *, libvgpu: str | None = None, region: str = ""
) -> tuple[dict[str, str], dict[str, str]]:
    """(defaults that a job may override, variables that it may not).

    libvgpu: path of HAMi-core, used where the card's mode is hami. region: a file of the job's own for its counters;
    the library's default is shared by everybody, and the first one's limits would rule.
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
        return {}, fixed  # frameworks see the slice itself: a share of it would be a share of a share
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
    """So that want of memory comes early and readable inside the framework, not as a kill from outside."""
    smallest = min(shares, key=lambda share: share.memory_mib)
    total = cards[smallest.uuid].memory_mib
    return {
        "CUPY_GPU_MEMORY_LIMIT": str(smallest.memory_mib << 20),
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{smallest.memory_mib / total:.4f}",
    }
