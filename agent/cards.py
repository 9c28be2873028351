"""The cards of this machine as NVML tells of them: what each is, what is wrong with it, and how they are linked.

The local runtime of the platform reads its cards here, too; nothing of the platform is known here.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pynvml

from agent import instances
from agent.links import Matrix, apart, bus_of, read_links, read_pcie

NO_DRIVER = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
NOMINAL_GB = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 141, 180, 192, 288)
FAMILY = re.compile(
    r"(RTX PRO \d{4}|RTX A?\d{4}(?: Ti)?(?: SUPER)?|GTX \d{4}(?: Ti)?|GB?[HB]?\d{3}|[HBVPALKTM]\d{1,4}[A-Z]?)\b"
)
REMAP_FAILED = "The card could not replace a bad row of its memory. It must be exchanged."
RETIREMENT_PENDING = "A page of its memory is bad and taken out of use only when the card is reset. Reset it."
PART = "It shares the memory of an instance with others. Cut the card so that each instance is one (nvidia-smi mig -C)."


class NoAnswer(Exception):
    """There is a driver and it fails. That is no reason to believe that the cards are gone."""


@dataclass(frozen=True)
class Card:
    """One card, or one instance of a card that MIG cuts. Sellable memory is `memory_mib - reserved_mib`.

    model: short, as people ask for it ("V100-32GB"); product: the driver's own name. numa: None when unknown. bus: as
    in /sys. mig: it is cut into instances by MIG, which are given out in its stead. fault: one sentence that says why
    nothing should run on it, "" where all is well. part_of: uuid of the card of which it is an instance, else "".
    """

    uuid: str
    index: int
    model: str
    product: str
    memory_mib: int
    reserved_mib: int
    numa: int | None
    bus: str
    mig: bool = False
    fault: str = ""
    part_of: str = ""


@dataclass(frozen=True)
class Lost:
    """A place where there should be a card, and NVML cannot say which. why: NVML's words."""

    index: int
    why: str


@dataclass(frozen=True)
class Cards:
    """What one look found: cards, and after them the instances of those that are cut. links, pcie: square matrices over
    `cards`, in words of `nvidia-smi topo -m`; NVLink hides the PCIe path of a pair in the first.
    """

    cards: tuple[Card, ...]
    links: Matrix
    pcie: Matrix
    driver: str
    lost: tuple[Lost, ...] = ()

    def offered(self) -> "Cards":
        """Less the cards that are cut into instances: these are given out."""
        kept = [place for place, card in enumerate(self.cards) if not card.mig]
        links, pcie = (tuple(tuple(rows[i][j] for j in kept) for i in kept) for rows in (self.links, self.pcie))
        return Cards(tuple(self.cards[place] for place in kept), links, pcie, self.driver, self.lost)


@contextmanager
def nvml() -> Iterator[bool]:
    """NVML is open inside; False where no NVIDIA driver answers. Raises NoAnswer where there is one and it fails."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value not in NO_DRIVER:
            raise NoAnswer(f"NVML does not start: {error}") from error
        yield False
        return
    try:
        yield True
    except pynvml.NVMLError as error:
        raise NoAnswer(f"NVML fails: {error}") from error
    finally:
        pynvml.nvmlShutdown()


def look(sys_root: str = "/sys") -> Cards | None:
    """The cards in NVML's order; None where no NVIDIA driver answers. Raises NoAnswer, too where no card answers.

    A card that fails is among the lost ones, and the others are as usable as before.
    """
    with nvml() as answers:
        if not answers:
            return None
        driver, found, parts, lost = text(pynvml.nvmlSystemGetDriverVersion()), [], list[Card | Lost](), []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                card = read_card(handle, sys_root)
                parts += read_instances(handle, card) if card.mig else []
                found.append((handle, card))
            except pynvml.NVMLError as error:
                lost.append(Lost(index, str(error)))
        if lost and not found:
            raise NoAnswer(f"NVML fails for every card: {lost[0].why}")
        handles = [handle for handle, _ in found]
        made = [part for part in parts if isinstance(part, Card)]
        links, pcie = (apart(rows, len(made)) for rows in (read_links(handles), read_pcie(handles)))
        lost += [part for part in parts if isinstance(part, Lost)]
        return Cards((*(card for _, card in found), *made), links, pcie, driver, tuple(lost))


def read_card(handle: Any, sys_root: str = "/sys") -> Card:
    """Raises NVMLError where the card does not answer."""
    product = text(pynvml.nvmlDeviceGetName(handle))
    total, reserved = _memory(handle)
    bus = bus_of(handle)
    return Card(
        uuid=text(pynvml.nvmlDeviceGetUUID(handle)),
        index=pynvml.nvmlDeviceGetIndex(handle),
        model=short_model(product, total),
        product=product,
        memory_mib=total,
        reserved_mib=reserved,
        numa=_numa(handle, bus, sys_root),
        bus=bus,
        mig=instances.is_cut(handle),
        fault=_fault(handle),
    )


def read_instances(handle: Any, card: Card) -> list[Card | Lost]:
    """Of a card that is cut. They have its bus, its NUMA node and its fault. Raises NVMLError where it does not answer;
    one that does not is lost alone.
    """
    found: list[Card | Lost] = []
    for place in instances.list_places(handle):
        index = instances.index_of(card.index, place)
        try:
            if (instance := instances.find_instance(handle, place)) is not None:
                found.append(_read_instance(instance, card, index))
        except (pynvml.NVMLError, instances.Unusable) as error:
            found.append(Lost(index, str(error)))
    return found


def short_model(product: str, memory_mib: int) -> str:
    """`NVIDIA H100 80GB HBM3` is `H100-80GB`: how people ask for it. An unknown product keeps its name."""
    family = FAMILY.search(product.replace("-", " "))
    named = re.search(r"\b(\d+) ?GB\b", product)
    size = int(named[1]) if named else next((gb for gb in NOMINAL_GB if gb << 10 >= memory_mib), memory_mib >> 10)
    name = family[1] if family else re.sub(r"^(NVIDIA|Tesla|GeForce|Quadro)\s+", "", product)
    return re.sub(r"[^A-Za-z0-9-]+", "", name) + f"-{size}GB"


def text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _read_instance(instance: Any, card: Card, index: int) -> Card:
    """Raises NVMLError, Unusable."""
    profile = instances.profile_of(text(pynvml.nvmlDeviceGetName(instance)))
    total, reserved = _memory(instance)
    return replace(
        card,
        uuid=instances.check_uuid(text(pynvml.nvmlDeviceGetUUID(instance))),
        index=index,
        model=instances.model_of(card.model, profile),
        product=f"{card.product} MIG {profile}",
        memory_mib=total,
        reserved_mib=reserved,
        mig=False,
        fault=card.fault or (PART if instances.is_part(profile) else ""),
        part_of=card.uuid,
    )


def _memory(handle: Any) -> tuple[int, int]:
    """(total, reserved) MiB. Older drivers do not tell what they reserve: there it is 0."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return memory.total >> 20, -(-memory.reserved >> 20)
    except pynvml.NVMLError:
        return pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20, 0


def _numa(handle: Any, bus: str, sys_root: str) -> int | None:
    """-1 and silence both mean unknown, as in a virtual machine; then any node will do."""
    try:
        node = int(Path(sys_root, "bus/pci/devices", bus, "numa_node").read_text())
        return node if node >= 0 else None
    except (OSError, ValueError):
        pass
    try:
        words = pynvml.nvmlDeviceGetMemoryAffinity(handle, 1, pynvml.NVML_AFFINITY_SCOPE_NODE)
    except pynvml.NVMLError:
        return None
    return (words[0] & -words[0]).bit_length() - 1 if words[0] else None


def _fault(handle: Any) -> str:
    """What the driver itself says of bad memory: Ampere and newer replace rows, older cards retire pages. An error
    that was corrected or contained leaves the card usable. Source: NVIDIA GPU Memory Error Management.
    """
    try:
        *_, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
        return REMAP_FAILED if failed else ""
    except pynvml.NVMLError:
        pass  # it has no such rows
    try:
        pending = pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle) == pynvml.NVML_FEATURE_ENABLED
    except pynvml.NVMLError:
        return ""
    return RETIREMENT_PENDING if pending else ""
