"""What the cards do now: memory in use, how busy, how warm, how much power."""

from collections.abc import Callable
from typing import Any

import pynvml

from agent.cards import NoAnswer, nvml, text

Sample = dict[str, str | int | None]


def take_samples() -> list[Sample]:
    """One of each card that answers; [] where none does. What a card does not tell is None."""
    try:
        with nvml() as answers:
            found = [_sample(index) for index in range(pynvml.nvmlDeviceGetCount())] if answers else []
    except NoAnswer:
        return []
    return [sample for sample in found if sample is not None]


def _sample(index: int) -> Sample | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = text(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        return None  # the report says what is wrong with it
    return {
        "uuid": uuid,
        "used_mib": _tell(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used >> 20),
        "busy_percent": _tell(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "temperature_c": _tell(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        "power_w": _tell(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) // 1000),
    }


def _tell(ask: Callable[[], Any]) -> int | None:
    try:
        return int(ask())
    except pynvml.NVMLError:
        return None
