"""The machine's GPUs and MIG instances as NVML reports them. Also used by the local runtime."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pynvml

from agent.gpu import mig_instances
from agent.gpu.links import Matrix, add_unlinked, read_bus_id, read_links, read_pcie
from agent.rdma import Hca

NO_DRIVER = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
NOMINAL_GB = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 141, 180, 192, 288)
FAMILY = re.compile(
    r"(RTX PRO \d{4}|RTX A?\d{4}(?: Ti)?(?: SUPER)?|GTX \d{4}(?: Ti)?|GB?[HB]?\d{3}|[HBVPALKTM]\d{1,4}[A-Z]?)\b"
)
REMAP_FAILED = "The card could not replace a bad row of its memory. It must be exchanged."
RETIREMENT_PENDING = "A page of its memory is bad and taken out of use only when the card is reset. Reset it."
PART = "It shares the memory of an instance with others. Cut the card so that each instance is one (nvidia-smi mig -C)."


class NoAnswer(Exception):
    """The driver is there but fails: the cards may still exist."""


@dataclass(frozen=True)
class Card:
    """One card or MIG instance. Sellable memory is `memory_mib - reserved_mib`.

    model: short ("V100-32GB"). mig: it is cut; its instances are offered. fault: why nothing may run on it. part_of: an
    instance's card.
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
    """An index whose card NVML cannot identify. why: NVML's error."""

    index: int
    why: str


@dataclass(frozen=True)
class Cards:
    """One reading: cards, then MIG instances.

    links, pcie: matrices over `cards` in words of `nvidia-smi topo -m`; NVLink hides a pair's PCIe path in `links`.
    hcas: `near` of each is over `cards`.
    """

    cards: tuple[Card, ...]
    links: Matrix
    pcie: Matrix
    driver: str
    lost: tuple[Lost, ...] = ()
    hcas: tuple[Hca, ...] = ()

    def offered(self) -> "Cards":
        """Return it without cut cards, whose instances are offered."""
        kept = [place for place, card in enumerate(self.cards) if not card.mig]
        links, pcie = (tuple(tuple(rows[i][j] for j in kept) for i in kept) for rows in (self.links, self.pcie))
        hcas = tuple(replace(hca, near=tuple(hca.near[place] for place in kept)) for hca in self.hcas)
        return Cards(tuple(self.cards[place] for place in kept), links, pcie, self.driver, self.lost, hcas)


@contextmanager
def open_nvml() -> Iterator[bool]:
    """Open NVML; yields False without a driver. Raises NoAnswer."""
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


def read_cards(sys_root: str = "/sys") -> Cards | None:
    """Read all cards in NVML's order; None without a driver. Failing cards are `lost`.

    Raises NoAnswer if all fail.
    """
    with open_nvml() as answers:
        if not answers:
            return None
        driver, found, parts, lost = decode_text(pynvml.nvmlSystemGetDriverVersion()), [], list[Card | Lost](), []
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
        links, pcie = (add_unlinked(rows, len(made)) for rows in (read_links(handles), read_pcie(handles)))
        lost += [part for part in parts if isinstance(part, Lost)]
        return Cards((*(card for _, card in found), *made), links, pcie, driver, tuple(lost))


def read_card(handle: Any, sys_root: str = "/sys") -> Card:
    """Raise NVMLError."""
    product = decode_text(pynvml.nvmlDeviceGetName(handle))
    total, reserved = _memory(handle)
    bus = read_bus_id(handle)
    return Card(
        uuid=decode_text(pynvml.nvmlDeviceGetUUID(handle)),
        index=pynvml.nvmlDeviceGetIndex(handle),
        model=short_model(product, total),
        product=product,
        memory_mib=total,
        reserved_mib=reserved,
        numa=_numa(handle, bus, sys_root),
        bus=bus,
        mig=mig_instances.is_cut(handle),
        fault=_fault(handle),
    )


def read_instances(handle: Any, card: Card) -> list[Card | Lost]:
    """Read a card's MIG instances; failing ones are Lost. Raises NVMLError."""
    found: list[Card | Lost] = []
    for place in mig_instances.list_instance_places(handle):
        index = mig_instances.index_of(card.index, place)
        try:
            if (instance := mig_instances.find_instance(handle, place)) is not None:
                found.append(_read_instance(instance, card, index))
        except (pynvml.NVMLError, mig_instances.Unusable) as error:
            found.append(Lost(index, str(error)))
    return found


def short_model(product: str, memory_mib: int) -> str:
    """Shorten `NVIDIA H100 80GB HBM3` to `H100-80GB`; unknown names stay."""
    family = FAMILY.search(product.replace("-", " "))
    named = re.search(r"\b(\d+) ?GB\b", product)
    size = int(named[1]) if named else next((gb for gb in NOMINAL_GB if gb << 10 >= memory_mib), memory_mib >> 10)
    name = family[1] if family else re.sub(r"^(NVIDIA|Tesla|GeForce|Quadro)\s+", "", product)
    return re.sub(r"[^A-Za-z0-9-]+", "", name) + f"-{size}GB"


def decode_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _read_instance(instance: Any, card: Card, index: int) -> Card:
    profile = mig_instances.profile_of(decode_text(pynvml.nvmlDeviceGetName(instance)))
    total, reserved = _memory(instance)
    return replace(
        card,
        uuid=mig_instances.check_uuid(decode_text(pynvml.nvmlDeviceGetUUID(instance))),
        index=index,
        model=mig_instances.model_of(card.model, profile),
        product=f"{card.product} MIG {profile}",
        memory_mib=total,
        reserved_mib=reserved,
        mig=False,
        fault=card.fault or (PART if mig_instances.is_instance_profile(profile) else ""),
        part_of=card.uuid,
    )


def _memory(handle: Any) -> tuple[int, int]:
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return memory.total >> 20, -(-memory.reserved >> 20)
    except pynvml.NVMLError:
        return pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20, 0


def _numa(handle: Any, bus: str, sys_root: str) -> int | None:
    """Return the NUMA node; None if unknown, as in virtual machines."""
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
    """Return the driver's verdict on bad memory: row remapping (Ampere on) or page retirement.

    Source: NVIDIA GPU Memory Error Management.
    """
    try:
        *_, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
        return REMAP_FAILED if failed else ""
    except pynvml.NVMLError:
        pass  # no row remapping
    try:
        pending = pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle) == pynvml.NVML_FEATURE_ENABLED
    except pynvml.NVMLError:
        return ""
    return RETIREMENT_PENDING if pending else ""
