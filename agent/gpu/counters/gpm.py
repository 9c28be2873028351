"""What a card's parts did between two looks, by NVML's GPM: Hopper and newer, also of instances of MIG.

GPM compares two samples of the driver's counters, so that its means are of the whole time between them, and times that
time they add up to totals. Source: GPM functions in NVIDIA's NVML API reference. Not run on hardware yet.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pynvml

RATIOS = {
    "graphics": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    "sm": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "tensor": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}
"""Percents: any engine of compute or graphics, multiprocessors, tensor cores, bandwidth of the memory."""
RATES = {
    "pcie_tx": pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    "pcie_rx": pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    "nvlink_tx": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    "nvlink_rx": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
}
"""MiB a second."""
METRICS = RATIOS | RATES
MOST = {name: 100.0 if name in RATIOS else 2.0**30 for name in METRICS}
"""Beyond it a value is none."""
IN_MS, IN_KIB = dict.fromkeys(RATIOS, 10.0), dict.fromkeys(RATES, 1024.0)
"""What a second of 1 % is of full activity, and a second of 1 MiB a second of traffic."""


@dataclass(frozen=True)
class Means:
    """Of the time since the look before. values: by name of METRICS, what was told and is in range."""

    span_s: float
    values: Mapping[str, float]


class MeansReader(Protocol):
    """Who tells what a card's parts did between two looks."""

    def read(self, uuid: str, card: Any, instance: Any = None) -> Means | None:
        """Return what happened since the look before; None at the first one, and where nothing is known.

        card: its handle, within open NVML. instance: of one of MIG that is asked for, whose uuid it is then.
        """


class GpmReader:
    """Keeps a sample of each card until the next look, and NVML open from the first one on. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._kept: dict[str, tuple[float, Any]] = {}
        self._without: set[str] = set()
        self._open = False

    def read(self, uuid: str, card: Any, instance: Any = None) -> Means | None:
        """As MeansReader; None where NVML tells nothing, too."""
        if uuid in self._without:
            return None
        try:
            self._keep_open()
            at, sample = self._clock(), _take(card, instance)
        except pynvml.NVMLError:
            if uuid not in self._kept:
                self._without.add(uuid)
            return None
        before = self._kept.get(uuid)
        self._kept[uuid] = at, sample
        if before is None:
            return None
        try:
            return Means(at - before[0], _compare(before[1], sample))
        except pynvml.NVMLError:
            return None
        finally:
            pynvml.nvmlGpmSampleFree(before[1])

    def _keep_open(self) -> None:
        """What a sample is made of goes with NVML's last end."""
        if not self._open:
            pynvml.nvmlInit()
            self._open = True


def add_means(totals: Mapping[str, float], means: Means | None, units: Mapping[str, float] = IN_MS) -> dict[str, float]:
    """Return {name of units: milliseconds of full activity, or KiB}, moved on. What was not told keeps its total."""
    if means is None:
        return dict(totals)
    grown = {name: units[name] * means.span_s * value for name, value in means.values.items() if name in units}
    return {**totals, **{name: totals.get(name, 0.0) + value for name, value in grown.items()}}


def _take(card: Any, instance: Any) -> Any:
    """Raise NVMLError where there is no GPM."""
    if not pynvml.nvmlGpmQueryDeviceSupport(card).isSupportedDevice:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        if instance is None:
            return pynvml.nvmlGpmSampleGet(card, sample)
        return pynvml.nvmlGpmMigSampleGet(card, pynvml.nvmlDeviceGetGpuInstanceId(instance), sample)
    except pynvml.NVMLError:
        pynvml.nvmlGpmSampleFree(sample)
        raise


def _compare(before: Any, after: Any) -> dict[str, float]:
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
    asked.sample1, asked.sample2 = before, after
    for place, metric in enumerate(METRICS.values()):
        asked.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(asked)
    return {
        name: float(told.value)
        for name, told in zip(METRICS, asked.metrics, strict=False)
        if told.nvmlReturn == pynvml.NVML_SUCCESS and 0 <= told.value <= MOST[name]
    }
