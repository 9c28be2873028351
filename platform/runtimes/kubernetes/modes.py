"""What of a pod depends on how its node gives cards out, holds slices to their memory, and keeps tasks to their cores.

Cards come by the agent's device plugin, one resource for each, and the node's CDI specs add what a mode needs; or by
NVIDIA's container toolkit where a node says so, which reads an annotation through NRI. A mode of the driver's own reads
annotations too. Not run on hardware: all of it; the device plugin and mode `slice` ran with doubles on a real kubelet.

Sources: NVIDIA container toolkit, nri-support; kai-scheduler/gpu-fractioning; HAMi-core's README; the balloons policy
of containers/nri-plugins.
"""

from collections.abc import Mapping

from runtimes.base import BALLOONS, GpuShare, GpuView, Rejected, TaskSpec
from runtimes.gpu_sharing import HAMI, NVFRACTION, SLICE, TOOLKIT, slice_environment
from runtimes.kubernetes import names

Cards = Mapping[str, GpuView]

TOOLKIT_CARD = "nvidia.com/gpu"
TOOLKIT_NOTE = "nvidia.cdi.k8s.io/container.main"
FRACTION = "nvidia.com/container.main"
FRACTION_CARD = "k8s.device-plugin.nvidia.com/gpu"
BALLOON_NOTE = "balloon.balloons.resource-policy.nri.io"
HAMI_LIBRARY, HAMI_REGION = "/usr/local/vgpu/libvgpu.so", "/tessera/vgpu.cache"


def card_requests(spec: TaskSpec, cards: Cards) -> dict[str, str]:
    """The extended resources that pin its cards. A card's number is the one that it has now: drivers count anew when
    one is gone. A whole card is all of its units, also where an administrator keeps some memory back.
    """
    held = {}
    for share in spec.gpus:
        card = cards[share.uuid]
        if card.pin != TOOLKIT:
            memory_mib = card.memory_mib - card.reserved_mib if share.whole else share.memory_mib
            held[names.card_resource(card.index)] = str(names.card_units(memory_mib))
    return held


def check_cards(spec: TaskSpec, cards: Cards) -> None:
    """Raises Rejected where its cards cannot be given together, or not as it wants them."""
    used = [cards[share.uuid] for share in spec.gpus]
    if len({card.pin for card in used}) > 1 or len({card.mode for card in used}) > 1:
        raise Rejected(f"The cards of {spec.node} are not all given out in the same way.")
    if any(card.pin == TOOLKIT and card.mode != NVFRACTION for card in used) and _is_cut(spec.gpus):
        raise Rejected(f"{spec.node} gives whole cards only: NVIDIA's toolkit holds no slice to its memory.")


def annotations(spec: TaskSpec, cards: Cards) -> dict[str, str]:
    return _card_notes(spec.gpus, [cards[share.uuid] for share in spec.gpus]) | _core_notes(spec)


def card_environment(spec: TaskSpec, cards: Cards) -> tuple[dict[str, str], dict[str, str]]:
    """(defaults that a job may override, variables that it may not). NVIDIA's runtime is told to add no card, so an
    image's own `all` loses.
    """
    hints, fixed = slice_environment(spec.gpus, cards, libvgpu=HAMI_LIBRARY, region=HAMI_REGION)
    if fixed.pop("LD_PRELOAD", None):  # the agent's CDI spec has it preloaded, whatever the environment
        fixed["GPU_CORE_UTILIZATION_POLICY"] = "force"  # else its limiter waits for a monitor that is not there
    if promises := _promises(spec.gpus, cards):
        fixed["TESSERA_PROMISED"] = promises
    return hints, fixed | {"NVIDIA_VISIBLE_DEVICES": "void"}


def cpu_request(spec: TaskSpec) -> int:
    """Thousandths of a core that it asks for, of `cpu_milli` at most. Where nothing is promised twice it asks for all
    that it may use: so the kubelet's static manager gives it cores of its own, if they are whole ones.
    """
    return max(spec.cpu_milli * 100 // max(spec.cpu_overcommit_percent, 100), 1)


def _takes_all(share: GpuShare, card: GpuView) -> bool:
    """Whether the device plugin gives it as a whole card: what is left is less than a unit, and nobody's."""
    return names.card_units(share.memory_mib) >= names.card_units(card.memory_mib - card.reserved_mib) or share.whole


def _is_cut(shares: tuple[GpuShare, ...]) -> bool:
    return any(not share.whole for share in shares)


def _promises(shares: tuple[GpuShare, ...], cards: Cards) -> str:
    """What the container must find in its environment, from the agent's CDI spec: supervisor.sh starts nothing without.
    A runtime that knows no CDI, or a node that lost what holds slices, would start it all the same.
    """
    given = [cards[share.uuid] for share in shares if cards[share.uuid].pin != TOOLKIT]
    words = [f"TESSERA_GPU_{card.index}={card.uuid}" for card in given if not card.simulated]
    cut = [cards[share.uuid] for share in shares if not _takes_all(share, cards[share.uuid])]
    kept = {card.mode for card in cut} & {HAMI, SLICE}
    return " ".join([*words, *(f"TESSERA_SLICE_BY={mode}" for mode in sorted(kept))])


def _card_notes(shares: tuple[GpuShare, ...], cards: list[GpuView]) -> dict[str, str]:
    if not cards or cards[0].pin != TOOLKIT:
        return {}
    if cards[0].mode == NVFRACTION and _is_cut(shares):
        devices = ",".join(f"{FRACTION_CARD}={card.uuid}" for card in cards)
        memory, percent = min(share.memory_mib for share in shares), min(share.compute_percent for share in shares)
        return {
            f"{FRACTION}.gpus.devices": devices,  # a bare uuid would be the management device, which has no limit
            f"{FRACTION}.gpu-memory.request": f"{memory}Mi",
            f"{FRACTION}.gpu-memory.limit": f"{memory}Mi",
            f"{FRACTION}.gpu-compute.mode": "sm-sharing",
            f"{FRACTION}.gpu-compute.portion": f"{percent / 100:g}",
        }
    devices = ",".join(f"{TOOLKIT_CARD}={card.uuid}" for card in cards)
    return {TOOLKIT_NOTE: devices}


def _core_notes(spec: TaskSpec) -> dict[str, str]:
    """The balloon of the NUMA node that its cards are on; none for a task whose cards are on several."""
    near = set(spec.numa)
    if spec.cpu_pinning != BALLOONS or len(near) != 1:
        return {}
    return {f"{BALLOON_NOTE}/container.main": f"numa{near.pop()}"}
