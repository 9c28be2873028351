"""Current GPU use: memory, utilization, temperature, power, and the samples of utilization that the driver keeps."""

from collections.abc import Callable
from typing import Any

import pynvml

from agent.gpu.cards import NoAnswer, decode_text, open_nvml
from agent.gpu.counters.fields import read_counters
from agent.gpu.counters.gpm import MeansReader
from agent.gpu.mig_instances import is_cut, list_instances
from agent.gpu.share_busy import read_process_samples

Sample = dict[str, Any]


def report_samples() -> list[Sample]:
    """Return what each answering card and instance tells now; unknown values are None."""
    return _ask_each(lambda handle, _: _sample(handle))


def take_samples(gpm: MeansReader | None = None) -> list[Sample]:
    """As `report_samples`, with clock_mhz, energy_mj, `utilization`: (microseconds since 1970, percent) of the last
    seconds, if known, `processes`: the same of processes, None if they are not told, `counters` (counters/fields.py),
    `means`: what `gpm` tells since its look before, and `is_instance`: of MIG.
    """
    return _ask_each(lambda handle, card: _sample_in_full(handle, card, gpm))


def _ask_each(ask: Callable[[Any, Any], Sample | None]) -> list[Sample]:
    """ask: called with a card or an instance, and the instance's card."""
    try:
        with open_nvml() as answers:
            handles = _handles() if answers else []
            return [sample for handle, card in handles if (sample := ask(handle, card)) is not None]
    except NoAnswer:
        return []


def _handles() -> list[tuple[Any, Any]]:
    """Return cards, and instances with their card."""
    found: list[tuple[Any, Any]] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            card = pynvml.nvmlDeviceGetHandleByIndex(index)
            parts = list_instances(card) if is_cut(card) else ()
            found += [(card, None), *((part, card) for part in parts)]
        except pynvml.NVMLError:
            continue
    return found


def _sample(handle: Any) -> Sample | None:
    try:
        uuid = decode_text(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        return None
    return {
        "uuid": uuid,
        "used_mib": _read_or_none(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used >> 20),
        "busy_percent": _read_or_none(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "temperature_c": _read_or_none(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        "power_w": _read_or_none(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) // 1000),
    }


def _sample_in_full(handle: Any, card: Any, gpm: MeansReader | None) -> Sample | None:
    """card: of an instance, whose counters are nobody's but the card's."""
    sample = _sample(handle)
    if sample is None:
        return None
    means = None
    if gpm is not None:
        means = gpm.read(sample["uuid"], handle) if card is None else gpm.read(sample["uuid"], card, handle)
    return sample | {
        "clock_mhz": _read_or_none(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        "energy_mj": _read_or_none(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
        "utilization": _read_utilization(handle),
        "processes": read_process_samples(handle, 0),
        "counters": read_counters(handle) if card is None else {},
        "means": means,
        "is_instance": card is not None,
    }


def _read_utilization(handle: Any) -> list[tuple[int, int]]:
    try:
        _, found = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    except pynvml.NVMLError:
        return []
    return [(int(one.timeStamp), int(one.sampleValue.uiVal)) for one in found]


def _read_or_none(ask: Callable[[], Any]) -> int | None:
    try:
        return int(ask())
    except pynvml.NVMLError:
        return None
