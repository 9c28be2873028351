"""Simulated cards for `--gpus`, on machines without any: GpuViews, links and NUMA nodes.

Memory as NVML reports it; instances as in NVIDIA's MIG user guide. Topologies: DGX-1 V100 (NVIDIA/go-gpuallocator;
NVIDIA/nccl#671), DGX A100 (NVIDIA/nccl#1505, four of eight NUMA nodes carry cards), DGX H100 (vllm-project/vllm#13855).
"""

import hashlib
import re
from dataclasses import dataclass, replace

from agent.gpu.links import add_unlinked
from agent.gpu.mig_instances import index_of, model_of
from runtimes.contract.node import GpuView
from runtimes.gpu_sharing import SIMULATED
from runtimes.local.node.cards_and_numa import NodeCards

TEXT = re.compile(r"(?:(?P<count>\d{1,2})\s*x\s*)?(?P<name>[A-Za-z0-9-]+)", re.IGNORECASE)
NO_CARDS = ("", "0", "none")
MOST_CARDS = 16


class UnknownProfile(ValueError):
    """Unknown cards; the message lists known ones."""


@dataclass(frozen=True)
class Card:
    model: str
    product: str
    memory_mib: int
    reserved_mib: int


@dataclass(frozen=True)
class Machine:
    """A published machine's topology."""

    card: Card
    links: tuple[tuple[str, ...], ...]
    numa: tuple[int, ...]
    buses: tuple[str, ...]
    pcie: tuple[tuple[str, ...], ...] = ()


CARDS = {
    card.model: card
    for card in (
        Card("V100-16GB", "Tesla V100-SXM2-16GB", 16384, 224),
        Card("V100-32GB", "Tesla V100-SXM2-32GB", 32768, 258),
        Card("T4-16GB", "Tesla T4", 15360, 450),
        Card("A10-24GB", "NVIDIA A10", 23028, 474),
        Card("A30-24GB", "NVIDIA A30", 24576, 512),
        Card("A100-40GB", "NVIDIA A100-SXM4-40GB", 40960, 429),
        Card("A100-80GB", "NVIDIA A100-SXM4-80GB", 81920, 693),
        Card("L40S-48GB", "NVIDIA L40S", 46068, 606),
        Card("H100-80GB", "NVIDIA H100 80GB HBM3", 81559, 551),
        Card("H200-141GB", "NVIDIA H200", 143771, 616),
        Card("RTX4090-24GB", "NVIDIA GeForce RTX 4090", 24564, 463),
    )
}

_DGX_1 = """
X   NV1 NV1 NV2 NV2 SYS SYS SYS
NV1 X   NV2 NV1 SYS NV2 SYS SYS
NV1 NV2 X   NV2 SYS SYS NV1 SYS
NV2 NV1 NV2 X   SYS SYS SYS NV1
NV2 SYS SYS SYS X   NV1 NV1 NV2
SYS NV2 SYS SYS NV1 X   NV2 NV1
SYS SYS NV1 SYS NV1 NV2 X   NV2
SYS SYS SYS NV1 NV2 NV1 NV2 X
"""

_DGX_1_PCIE = """
X   PIX PHB PHB SYS SYS SYS SYS
PIX X   PHB PHB SYS SYS SYS SYS
PHB PHB X   PIX SYS SYS SYS SYS
PHB PHB PIX X   SYS SYS SYS SYS
SYS SYS SYS SYS X   PIX PHB PHB
SYS SYS SYS SYS PIX X   PHB PHB
SYS SYS SYS SYS PHB PHB X   PIX
SYS SYS SYS SYS PHB PHB PIX X
"""


def _rows(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in text.strip().splitlines())


def _all_to_all(count: int, word: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple("X" if i == j else word for j in range(count)) for i in range(count))


MACHINES = {
    "V100-NVLink": Machine(
        CARDS["V100-32GB"],
        _rows(_DGX_1),
        (0, 0, 0, 0, 1, 1, 1, 1),
        ("06", "07", "0a", "0b", "85", "86", "89", "8a"),
        _rows(_DGX_1_PCIE),
    ),
    "A100-NVLink": Machine(
        CARDS["A100-40GB"],
        _all_to_all(8, "NV12"),
        (3, 3, 1, 1, 7, 7, 5, 5),
        ("07", "0f", "47", "4e", "87", "90", "b7", "bd"),
    ),
    "H100-NVLink": Machine(
        CARDS["H100-80GB"],
        _all_to_all(8, "NV18"),
        (0, 0, 0, 0, 1, 1, 1, 1),
        ("1b", "43", "52", "61", "9d", "c3", "d1", "df"),
    ),
}
CUT = {
    "A100-MIG": (CARDS["A100-40GB"], (("3g.20gb", 20096), ("2g.10gb", 9984), ("1g.5gb", 4864), ("1g.5gb", 4864))),
}
"""Cards of which the last is divided by MIG, with the MiB of each instance."""
ALIASES = {"DGX-1V": "8xV100-NVLink", "DGX-A100": "8xA100-NVLink", "DGX-H100": "8xH100-NVLink"}


def list_known_names() -> list[str]:
    return [*CARDS, *MACHINES, *CUT, *ALIASES]


def simulate_cards(text: str, node: str) -> NodeCards:
    """Simulate `2xV100-32GB`, `8xA100-NVLink`, `2xA100-MIG`, `DGX-1V` or `none`. Raises UnknownProfile.

    uuids survive restarts: they depend on node, model and index.
    """
    text = text.strip()
    if text.lower() in NO_CARDS:
        return NodeCards()
    count, name = _parse(text)
    if name in CUT:
        return _cut(*CUT[name], simulate_cards(f"{count}x{CUT[name][0].model}", node))
    numa: tuple[int | None, ...] = (None,) * count
    if name in CARDS:
        card, links, buses = CARDS[name], _all_to_all(count, "PHB"), ("",) * count
        pcie: tuple[tuple[str, ...], ...] = ()
    else:
        machine = MACHINES[name]
        card, numa = machine.card, machine.numa[:count]
        links = tuple(row[:count] for row in machine.links[:count])
        pcie = tuple(row[:count] for row in machine.pcie[:count])
        buses = tuple(f"0000:{bus}:00.0" for bus in machine.buses[:count])
    gpus = tuple(_gpu(card, node, index, numa[index], buses[index]) for index in range(count))
    return NodeCards(gpus, links, pcie, numa=tuple(sorted({id for id in numa if id is not None})))


def _parse(text: str) -> tuple[int, str]:
    match = TEXT.fullmatch(ALIASES.get(text.upper(), text))
    by_lower = {name.lower(): name for name in (*CARDS, *MACHINES, *CUT)}
    name = by_lower.get(match["name"].lower()) if match else None
    if match is None or name is None:
        raise UnknownProfile(f"No such GPUs to simulate: {text!r}. Known are: {', '.join(list_known_names())}.")
    count, most = int(match["count"] or 1), 8 if name in MACHINES else MOST_CARDS
    if not 1 <= count <= most:
        raise UnknownProfile(f"{text!r}: between 1 and {most} of {name} can be simulated on one machine.")
    return count, name


def _cut(card: Card, parts: tuple[tuple[str, int], ...], whole: NodeCards) -> NodeCards:
    *kept, last = whole.gpus
    made = [
        replace(
            last,
            uuid=f"MIG-{last.uuid.removeprefix('GPU-')}-{place}",
            index=index_of(last.index, place),
            model=model_of(card.model, profile),
            product=f"{card.product} MIG {profile}",
            memory_mib=memory_mib,
            reserved_mib=0,
        )
        for place, (profile, memory_mib) in enumerate(parts)
    ]
    links = tuple(row[: len(kept)] for row in whole.links[: len(kept)])
    return NodeCards((*kept, *made), add_unlinked(links, len(made)))


def _gpu(card: Card, node: str, index: int, numa: int | None, bus: str) -> GpuView:
    digest = hashlib.sha256(f"{node}/{card.model}/{index}".encode()).hexdigest()
    return GpuView(
        uuid=f"GPU-sim-{digest[:8]}-{digest[8:12]}-{index:02d}",
        index=index,
        model=card.model,
        product=card.product,
        memory_mib=card.memory_mib,
        reserved_mib=card.reserved_mib,
        numa=numa,
        bus=bus,
        simulated=True,
        mode=SIMULATED,
        evidence="No NVIDIA driver answers on this machine: the card is simulated.",
    )
