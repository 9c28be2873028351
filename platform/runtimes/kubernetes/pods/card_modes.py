"""The parts of a pod that depend on how its node hands out cards, limits slices and pins cores.

Cards come by the agent's device plugin or by NVIDIA's container toolkit. Not run on hardware.

Sources: NVIDIA container toolkit, nri-support; kai-scheduler/gpu-fractioning; HAMi-core's README; the balloons policy
of containers/nri-plugins.
"""

from collections.abc import Mapping

from runtimes.contract.errors import Rejected
from runtimes.contract.node import BALLOONS, GpuView
from runtimes.contract.task import GpuShare, TaskSpec
from runtimes.gpu_sharing import HAMI, NVFRACTION, SLICE, TOOLKIT, build_slice_environment
from runtimes.kubernetes.pods import names

Cards = Mapping[str, GpuView]

TOOLKIT_CARD = "nvidia.com/gpu"
TOOLKIT_ANNOTATION = "nvidia.cdi.k8s.io/container.main"
FRACTION = "nvidia.com/container.main"
FRACTION_CARD = "k8s.device-plugin.nvidia.com/gpu"
BALLOON_ANNOTATION = "balloon.balloons.resource-policy.nri.io"
HAMI_LIBRARY, HAMI_REGION = "/usr/local/vgpu/libvgpu.so", "/tessera/vgpu.cache"


def build_card_requests(spec: TaskSpec, cards: Cards) -> dict[str, str]:
    """Return the extended resources that pin its cards, by current index: drivers renumber."""
    held = {}
    for share in spec.gpus:
        card = cards[share.uuid]
        if card.pin != TOOLKIT:
            memory_mib = card.memory_mib - card.reserved_mib if share.whole else share.memory_mib
            held[names.name_card_resource(card.index)] = str(names.count_card_units(memory_mib))
    return held


def check_cards(spec: TaskSpec, cards: Cards) -> None:
    """Raise Rejected if the cards' modes differ or cannot be cut."""
    used = [cards[share.uuid] for share in spec.gpus]
    if len({card.pin for card in used}) > 1 or len({card.mode for card in used}) > 1:
        raise Rejected(f"The cards of {spec.node} are not all given out in the same way.")
    if any(card.pin == TOOLKIT and card.mode != NVFRACTION for card in used) and _is_cut(spec.gpus):
        raise Rejected(f"{spec.node} gives whole cards only: NVIDIA's toolkit holds no slice to its memory.")


def build_annotations(spec: TaskSpec, cards: Cards) -> dict[str, str]:
    """Return annotations: the cards from NVIDIA's toolkit, and the cores of their NUMA node if it is one."""
    found = _build_card_annotations(spec.gpus, [cards[share.uuid] for share in spec.gpus])
    if spec.cpu_pinning == BALLOONS and len(near := set(spec.numa)) == 1:
        found[f"{BALLOON_ANNOTATION}/container.main"] = f"numa{near.pop()}"
    return found


def build_card_environment(spec: TaskSpec, cards: Cards) -> tuple[dict[str, str], dict[str, str]]:
    """Return (overridable defaults, fixed variables). NVIDIA's runtime adds no card, whatever the image asks."""
    hints, fixed = build_slice_environment(spec.gpus, cards, libvgpu=HAMI_LIBRARY, region=HAMI_REGION)
    if fixed.pop("LD_PRELOAD", None):  # the agent's CDI spec preloads it
        fixed["GPU_CORE_UTILIZATION_POLICY"] = "force"  # else its limiter waits for a monitor
    if promises := _promises(spec.gpus, cards):
        fixed["TESSERA_PROMISED"] = promises
    return hints, fixed | {"NVIDIA_VISIBLE_DEVICES": "void"}


def compute_cpu_request(spec: TaskSpec) -> int:
    """Return requested millicores; without overcommit the limit, as the kubelet's static CPU manager needs."""
    return max(spec.cpu_milli * 100 // max(spec.cpu_overcommit_percent, 100), 1)


def _takes_all(share: GpuShare, card: GpuView) -> bool:
    """Return whether the device plugin sees a whole card: less than a unit is left."""
    units = names.count_card_units(card.memory_mib - card.reserved_mib)
    return share.whole or names.count_card_units(share.memory_mib) >= units


def _is_cut(shares: tuple[GpuShare, ...]) -> bool:
    return any(not share.whole for share in shares)


def _promises(shares: tuple[GpuShare, ...], cards: Cards) -> str:
    """Return the variables that the agent's CDI spec must set: supervisor.sh needs them."""
    given = [cards[share.uuid] for share in shares if cards[share.uuid].pin != TOOLKIT]
    words = [f"TESSERA_GPU_{card.index}={card.uuid}" for card in given if not card.simulated]
    cut = [cards[share.uuid] for share in shares if not _takes_all(share, cards[share.uuid])]
    kept = {card.mode for card in cut} & {HAMI, SLICE}
    return " ".join([*words, *(f"TESSERA_SLICE_BY={mode}" for mode in sorted(kept))])


def _build_card_annotations(shares: tuple[GpuShare, ...], cards: list[GpuView]) -> dict[str, str]:
    if not cards or cards[0].pin != TOOLKIT:
        return {}
    if cards[0].mode == NVFRACTION and _is_cut(shares):
        devices = ",".join(f"{FRACTION_CARD}={card.uuid}" for card in cards)
        memory, percent = min(share.memory_mib for share in shares), min(share.compute_percent for share in shares)
        return {
            f"{FRACTION}.gpus.devices": devices,  # a bare uuid means the management device, without limits
            f"{FRACTION}.gpu-memory.request": f"{memory}Mi",
            f"{FRACTION}.gpu-memory.limit": f"{memory}Mi",
            f"{FRACTION}.gpu-compute.mode": "sm-sharing",
            f"{FRACTION}.gpu-compute.portion": f"{percent / 100:g}",
        }
    return {TOOLKIT_ANNOTATION: ",".join(f"{TOOLKIT_CARD}={card.uuid}" for card in cards)}
