"""Values of the cards under the names of NVIDIA's DCGM, as its exporter tells them: dashboards and rules for it go on.

Source of names and units: field identifiers in NVIDIA's DCGM API reference. What NVML does not tell is absent.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from agent.gpu.cards import NoAnswer, decode_text, open_nvml
from agent.gpu.counters.gpm import RATES, RATIOS, Means, MeansReader
from agent.gpu.links import read_bus_id
from agent.gpu.mig_instances import is_cut

PREFIX, PROFILED_PREFIX = "DCGM_FI_DEV_", "DCGM_FI_PROF_"
CORRECTED, UNCORRECTED, SINCE_BOOT = 0, 1, 0
"""Kinds of memory errors, and of their counters, of NVML."""


@dataclass(frozen=True)
class Field:
    """A value of a card. read: asks NVML, None where it is not asked for this alone. counter: it only grows."""

    name: str
    words: str
    read: Callable[[Any], float] | None = None
    counter: bool = False


@dataclass(frozen=True)
class CardValues:
    """What a card tells now: {name of a field: value}. profiled: the same of PROFILED."""

    index: int
    uuid: str
    product: str
    bus: str
    values: dict[str, float]
    profiled: dict[str, float] = dataclasses.field(default_factory=dict)


FIELDS = (
    Field("SM_CLOCK", "Clock of the multiprocessors, in MHz.", lambda card: _read_clock(card, pynvml.NVML_CLOCK_SM)),
    Field("MEM_CLOCK", "Clock of the memory, in MHz.", lambda card: _read_clock(card, pynvml.NVML_CLOCK_MEM)),
    Field(
        "GPU_TEMP",
        "Temperature, in degrees Celsius.",
        lambda card: pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU),
    ),
    Field("POWER_USAGE", "Power, in watts.", lambda card: pynvml.nvmlDeviceGetPowerUsage(card) / 1000),
    Field(
        "TOTAL_ENERGY_CONSUMPTION",
        "Energy since the driver was loaded, in mJ.",
        lambda card: pynvml.nvmlDeviceGetTotalEnergyConsumption(card),
        counter=True,
    ),
    Field(
        "GPU_UTIL",
        "Part of the time in which a program ran on the card, in percent.",
        lambda card: pynvml.nvmlDeviceGetUtilizationRates(card).gpu,
    ),
    Field(
        "MEM_COPY_UTIL",
        "Part of the time in which memory was read or written, in percent.",
        lambda card: pynvml.nvmlDeviceGetUtilizationRates(card).memory,
    ),
    Field("FB_FREE", "GPU memory that is free, in MiB.", lambda card: pynvml.nvmlDeviceGetMemoryInfo(card).free >> 20),
    Field("FB_USED", "GPU memory in use, in MiB.", lambda card: pynvml.nvmlDeviceGetMemoryInfo(card).used >> 20),
    Field(
        "ECC_SBE_VOL_TOTAL",
        "Memory errors that were corrected, since the driver was loaded.",
        lambda card: pynvml.nvmlDeviceGetTotalEccErrors(card, CORRECTED, SINCE_BOOT),
        counter=True,
    ),
    Field(
        "ECC_DBE_VOL_TOTAL",
        "Memory errors that could not be corrected, since the driver was loaded.",
        lambda card: pynvml.nvmlDeviceGetTotalEccErrors(card, UNCORRECTED, SINCE_BOOT),
        counter=True,
    ),
    Field(
        "CORRECTABLE_REMAPPED_ROWS",
        "Rows of memory that were replaced for errors that were corrected.",
        lambda card: pynvml.nvmlDeviceGetRemappedRows(card)[0],
        counter=True,
    ),
    Field(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "Rows of memory that were replaced for errors that could not be corrected.",
        lambda card: pynvml.nvmlDeviceGetRemappedRows(card)[1],
        counter=True,
    ),
    Field(
        "ROW_REMAP_FAILURE",
        "1 if a bad row could not be replaced.",
        lambda card: pynvml.nvmlDeviceGetRemappedRows(card)[3],
    ),
)
PROFILED = {
    "graphics": Field("GR_ENGINE_ACTIVE", "Part of the time in which any engine of compute or graphics was active."),
    "sm": Field("SM_ACTIVE", "Part of the time in which a multiprocessor had work, of all of them."),
    "tensor": Field("PIPE_TENSOR_ACTIVE", "Part of the time in which tensor cores were active."),
    "dram": Field("DRAM_ACTIVE", "Part of the memory's bandwidth that was used."),
    "pcie_tx": Field("PCIE_TX_BYTES", "Sent over PCIe, in bytes a second."),
    "pcie_rx": Field("PCIE_RX_BYTES", "Received over PCIe, in bytes a second."),
    "nvlink_tx": Field("NVLINK_TX_BYTES", "Sent over NVLink, in bytes a second."),
    "nvlink_rx": Field("NVLINK_RX_BYTES", "Received over NVLink, in bytes a second."),
}
"""By name of GPM's metrics: means since the reading before, where the card has GPM."""
SCALES = {**dict.fromkeys(RATIOS, 0.01), **dict.fromkeys(RATES, 2.0**20)}
XID_ERRORS = Field("XID_ERRORS", "Number of the last error that the driver told, 0 if none was heard.")


def read_values(gpm: MeansReader) -> tuple[str, list[CardValues]]:
    """Return (the driver's version, what each answering card tells). Nothing without a driver that answers.

    gpm: keeps what the next reading is compared with.
    """
    try:
        with open_nvml() as answers:
            if not answers:
                return "", []
            driver = decode_text(pynvml.nvmlSystemGetDriverVersion())
            found = (_read_card(index, gpm) for index in range(pynvml.nvmlDeviceGetCount()))
            return driver, [card for card in found if card is not None]
    except NoAnswer:
        return "", []


def _read_card(index: int, gpm: MeansReader) -> CardValues | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid, product = (decode_text(ask(handle)) for ask in (pynvml.nvmlDeviceGetUUID, pynvml.nvmlDeviceGetName))
        place, bus = pynvml.nvmlDeviceGetIndex(handle), read_bus_id(handle)
    except pynvml.NVMLError:
        return None
    values = {}
    for field in FIELDS:
        if field.read is None or (field.name.endswith("_UTIL") and is_cut(handle)):
            continue  # of a card that is cut NVML tells no activity
        try:
            values[field.name] = float(field.read(handle))
        except pynvml.NVMLError:
            continue
    return CardValues(place, uuid, product, bus, values, profile(gpm.read(uuid, handle)))


def profile(means: Means | None) -> dict[str, float]:
    """Return GPM's means under the names of PROFILED, in its units."""
    found = {} if means is None else means.values
    return {PROFILED[name].name: value * SCALES[name] for name, value in found.items()}


def _read_clock(handle: Any, kind: int) -> int:
    return pynvml.nvmlDeviceGetClockInfo(handle, kind)
