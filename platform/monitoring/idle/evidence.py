"""Whether what a job holds does nothing: decided from samples of a window of time. Pure.

What is not known is no evidence: with too little of it nobody is called idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class Signal(StrEnum):
    """What shows that somebody or something is at work."""

    GPU = "gpu"
    GPU_MEMORY = "gpu_memory"
    PROCESSES = "processes"
    CPU = "cpu"
    DISK = "disk"
    NETWORK = "network"
    KERNEL = "kernel"
    DOOR = "door"


class Why(StrEnum):
    """What keeps it from being known."""

    NO_SAMPLES = "no_samples"
    TOO_FEW = "too_few"
    STALE = "stale"
    RESTARTED = "restarted"
    GPU_UNKNOWN = "gpu_unknown"
    CPU_UNKNOWN = "cpu_unknown"
    KERNELS_SILENT = "kernels_silent"


@dataclass(frozen=True)
class Limits:
    """Below all of these nothing is at work. *_minute_*: of each minute; the others of the whole window.

    gpu: of the task's part of the card. cpu: of what it asked for, and never less than cpu_floor_milli.
    """

    gpu_percent: float = 2.0
    gpu_minute_percent: float = 5.0
    gpu_growth_mib: float = 16.0
    cpu_percent: float = 5.0
    cpu_minute_percent: float = 10.0
    cpu_floor_milli: float = 50.0
    disk_kib_s: float = 50.0
    net_kib_s: float = 50.0
    coverage: float = 0.9
    fresh_s: float = 60.0


@dataclass(frozen=True)
class Kernels:
    """What JupyterLab answered. asked_at: the last answer. active_at: the last output of a kernel or terminal."""

    asked_at: datetime
    busy: bool
    active_at: datetime | None


@dataclass(frozen=True)
class ShareWindow:
    """A task's part of one card, by tick. busy: percent of that part's time."""

    busy: Values
    used_mib: Values


@dataclass(frozen=True)
class TaskWindow:
    """Samples of one task, by tick; NaN is what is not known.

    cpu_asked: in thousandths of a core. restarted_at: when its machine's sampler last began anew. door_at: the last
    bytes through a page, a terminal or SSH. kernels: None for a notebook that did not answer.
    """

    cpu_asked: int
    cpu_milli: Values
    processes: Values
    read_kib_s: Values
    write_kib_s: Values
    net_rx_kib_s: Values
    net_tx_kib_s: Values
    shares: Sequence[ShareWindow]
    restarted_at: datetime | None = None
    door_at: datetime | None = None
    asks_kernels: bool = False
    kernels: Kernels | None = None


@dataclass(frozen=True)
class Window:
    """What all tasks of a job did from `start` on."""

    start: datetime
    step_s: int
    tasks: Sequence[TaskWindow]

    @property
    def slots(self) -> int:
        return min((len(task.cpu_milli) for task in self.tasks), default=0)

    def at(self, slot: int) -> datetime:
        """Return when a slot ends."""
        return self.start + timedelta(seconds=self.step_s * (slot + 1))


@dataclass(frozen=True)
class Seen:
    """What was seen, in figures: of the task that did most. None is what is not known."""

    coverage: float = 0.0
    gpu_percent: float | None = None
    gpu_mib: float | None = None
    cpu_percent: float | None = None
    disk_kib_s: float | None = None
    net_kib_s: float | None = None
    kernels: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the figures as they are kept and sent."""
        return {
            "coverage_percent": int(100 * self.coverage),
            "gpu_percent": _round(self.gpu_percent),
            "gpu_mib": _round(self.gpu_mib),
            "cpu_percent": _round(self.cpu_percent),
            "disk_kib_s": _round(self.disk_kib_s),
            "net_kib_s": _round(self.net_kib_s),
            "kernels": self.kernels,
        }


@dataclass(frozen=True)
class Idle:
    """Nothing was at work since. held: GPU memory is taken all the same."""

    since: datetime
    held: bool
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True)
class Busy:
    """at: when the signal was last seen."""

    signal: Signal
    at: datetime
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True)
class Unknown:
    why: Why
    seen: Seen = field(default_factory=Seen)


Finding = Idle | Busy | Unknown


def derive_idle(window: Window, limits: Limits, now: datetime) -> Finding:
    """Say whether a job was idle in the whole window: only as a whole, and only if enough of the window was seen.

    A signal of work counts however little was seen.
    """
    seen = _summarise(window)
    signals = [found for task in window.tasks for found in _list_signals(task, window, limits)]
    if signals:
        signal, at = max(signals, key=lambda found: found[1])
        return Busy(signal, min(at, now), seen)
    why = _find_unknown(window, limits, now)
    if why is not None:
        return Unknown(why, seen)
    return Idle(_find_begin(window), bool(seen.gpu_mib), seen)


def _find_begin(window: Window) -> datetime:
    """Return when the first tick began in which all tasks were seen."""
    first = max(int(np.flatnonzero(_mark_known(task))[0]) for task in window.tasks)
    return window.at(first - 1)


def _find_unknown(window: Window, limits: Limits, now: datetime) -> Why | None:
    """Return what keeps an answer from being given."""
    if not window.slots or not any(task.shares for task in window.tasks):
        return Why.NO_SAMPLES
    for task in window.tasks:
        known = _mark_known(task)
        if not known.any():
            return _name_missing(task)
        if (now - window.at(int(np.flatnonzero(known)[-1]))).total_seconds() > limits.fresh_s:
            return Why.STALE
        if task.restarted_at is not None and task.restarted_at > window.start:
            return Why.RESTARTED
        if known.mean() < limits.coverage:
            return Why.TOO_FEW
        if task.asks_kernels and not _has_answered(task, now, limits):
            return Why.KERNELS_SILENT
    return None


def _mark_known(task: TaskWindow) -> NDArray[np.bool_]:
    """Return in which ticks the GPU's and the processor's work were both seen."""
    known = ~np.isnan(task.cpu_milli)
    for share in task.shares:
        known = known & ~np.isnan(share.busy)
    return known


def _name_missing(task: TaskWindow) -> Why:
    if any(np.isnan(share.busy).all() for share in task.shares) and not np.isnan(task.cpu_milli).all():
        return Why.GPU_UNKNOWN
    if np.isnan(task.cpu_milli).all() and not any(np.isnan(share.busy).all() for share in task.shares):
        return Why.CPU_UNKNOWN
    return Why.NO_SAMPLES


def _has_answered(task: TaskWindow, now: datetime, limits: Limits) -> bool:
    """Whether JupyterLab was asked lately. It is asked each minute."""
    patience = timedelta(seconds=60 + limits.fresh_s)
    return task.kernels is not None and now - task.kernels.asked_at <= patience


def _list_signals(task: TaskWindow, window: Window, limits: Limits) -> list[tuple[Signal, datetime]]:
    """Return each signal of work in the window, and when it was last seen."""
    found = _list_signs_of_people(task, window)
    for share in task.shares:
        found += _find_work(Signal.GPU, share.busy, limits.gpu_percent, limits.gpu_minute_percent, window)
        found += _find_growth(share.used_mib, limits.gpu_growth_mib, window)
    asked = 100 * task.cpu_milli / max(task.cpu_asked, 1)
    floor = 100 * limits.cpu_floor_milli / max(task.cpu_asked, 1)
    cpu = max(limits.cpu_percent, floor), max(limits.cpu_minute_percent, floor)
    found += _find_work(Signal.CPU, asked, *cpu, window)
    for moved in (task.read_kib_s, task.write_kib_s):
        found += _find_work(Signal.DISK, moved, limits.disk_kib_s, limits.disk_kib_s, window)
    for moved in (task.net_rx_kib_s, task.net_tx_kib_s):
        found += _find_work(Signal.NETWORK, moved, limits.net_kib_s, limits.net_kib_s, window)
    return found + _find_changes(task.processes, window)


def _list_signs_of_people(task: TaskWindow, window: Window) -> list[tuple[Signal, datetime]]:
    found = []
    if task.door_at is not None and task.door_at > window.start:
        found.append((Signal.DOOR, task.door_at))
    kernels = task.kernels
    if kernels is not None and kernels.busy and kernels.asked_at > window.start:
        found.append((Signal.KERNEL, kernels.asked_at))
    elif kernels is not None and kernels.active_at is not None and kernels.active_at > window.start:
        found.append((Signal.KERNEL, kernels.active_at))
    return found


def _find_work(
    signal: Signal, values: Values, mean_limit: float, minute_limit: float, window: Window
) -> list[tuple[Signal, datetime]]:
    """Find the last minute at or above its limit; if only the whole is, the last tick above the mean's."""
    known = ~np.isnan(values)
    if not known.any():
        return []
    sure = np.where(known, values, 0.0)
    a_minute = max(1, round(60 / window.step_s))
    ends = np.arange(len(values), 0, -a_minute)
    sums, counts = _sum_spans(sure, ends, a_minute), _sum_spans(known.astype(np.float64), ends, a_minute)
    above = np.flatnonzero((counts > 0) & (sums >= minute_limit * counts))
    if len(above):
        return [(signal, window.at(int(ends[above[0]]) - 1))]
    if sure.sum() < mean_limit * known.sum():
        return []
    return [(signal, window.at(int(np.flatnonzero(sure >= mean_limit)[-1])))]


def _sum_spans(values: Values, ends: NDArray[np.int_], length: int) -> Values:
    """Return the sums of the spans that end before each of `ends`."""
    upto = np.concatenate([[0.0], np.cumsum(values)])
    return upto[ends] - upto[np.maximum(ends - length, 0)]


def _find_growth(used: Values, limit: float, window: Window) -> list[tuple[Signal, datetime]]:
    """Find when memory last rose by more than a limit above the least that was seen before."""
    slots = np.flatnonzero(~np.isnan(used))
    if len(slots) < 2:
        return []
    known = used[slots]
    risen = np.flatnonzero(known - np.minimum.accumulate(known) > limit)
    grown = np.flatnonzero(np.diff(known) > 0) + 1
    both = grown[np.isin(grown, risen)]
    return [(Signal.GPU_MEMORY, window.at(int(slots[both[-1]])))] if len(both) else []


def _find_changes(counts: Values, window: Window) -> list[tuple[Signal, datetime]]:
    """Find when a process last came or went."""
    slots = np.flatnonzero(~np.isnan(counts))
    changed = np.flatnonzero(np.diff(counts[slots])) + 1
    return [(Signal.PROCESSES, window.at(int(slots[changed[-1]])))] if len(changed) else []


def _summarise(window: Window) -> Seen:
    """Return the window in figures, each of the task that did most."""
    tasks = window.tasks
    if not tasks or not window.slots:
        return Seen()
    return Seen(
        coverage=min(float(_mark_known(task).mean()) for task in tasks),
        gpu_percent=_most(share.busy for task in tasks for share in task.shares),
        gpu_mib=_sum_last(share.used_mib for task in tasks for share in task.shares),
        cpu_percent=_most(100 * task.cpu_milli / max(task.cpu_asked, 1) for task in tasks),
        disk_kib_s=_most(moved for task in tasks for moved in (task.read_kib_s, task.write_kib_s)),
        net_kib_s=_most(moved for task in tasks for moved in (task.net_rx_kib_s, task.net_tx_kib_s)),
        kernels=_describe_kernels(tasks),
    )


def _most(rows: Any) -> float | None:
    known = (values[~np.isnan(values)] for values in rows)
    return max((float(values.mean()) for values in known if len(values)), default=None)


def _sum_last(rows: Any) -> float | None:
    known = (values[~np.isnan(values)] for values in rows)
    last = [float(values[-1]) for values in known if len(values)]
    return sum(last) if last else None


def _describe_kernels(tasks: Sequence[TaskWindow]) -> str:
    asked = [task for task in tasks if task.asks_kernels]
    if not asked:
        return ""
    if any(task.kernels is None for task in asked):
        return "silent"
    return "busy" if any(task.kernels.busy for task in asked if task.kernels) else "quiet"


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
