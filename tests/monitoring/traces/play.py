"""Look at a trace as the ladder does, each twenty seconds, and say when it would act."""

from datetime import UTC, datetime, timedelta

import numpy as np

from monitoring.idle.clock import Clock, step_clock
from monitoring.idle.evidence import Kernels, Limits, ShareWindow, TaskWindow, Window, derive_idle
from tests.monitoring.traces.corpus import SLOTS, STEP_S, TaskTrace, Trace

BEGAN = datetime(2026, 1, 5, 8, tzinfo=UTC)
LOOK_TICKS = 2


def find_act(trace: Trace, *, window_s: int, act_s: int, limits: Limits | None = None) -> int | None:
    """Return the second in which it would be acted on; None: never."""
    clock, limits = Clock(), limits or Limits()
    for tick in range(LOOK_TICKS, SLOTS + 1, LOOK_TICKS):
        now = BEGAN + timedelta(seconds=tick * STEP_S)
        clock = step_clock(clock, derive_idle(cut_window(trace, tick, window_s), limits, now), now)
        if clock.since is not None and clock.measure_idle_s(now) >= act_s:
            return tick * STEP_S
    return None


def cut_window(trace: Trace, tick: int, window_s: int) -> Window:
    """Return what was seen until a tick. What lies before the trace was not seen."""
    begin, length = tick - window_s // STEP_S, window_s // STEP_S
    tasks = [_cut_task(trace, task, tick, begin, length) for task in trace.tasks]
    return Window(_when(begin), STEP_S, tasks)


def _cut_task(trace: Trace, task: TaskTrace, tick: int, begin: int, length: int) -> TaskWindow:
    def cut(values):
        missing = max(0, -begin)
        return np.concatenate([np.full(missing, np.nan), values[max(0, begin) : tick]])[:length]

    doors = [at for at in trace.doors if at < tick]
    restarts = [at for at in task.restarts if at < tick]
    return TaskWindow(
        cpu_asked=4000,
        cpu_milli=cut(task.cpu_milli),
        processes=cut(task.processes),
        read_kib_s=cut(task.read),
        write_kib_s=cut(task.write),
        net_rx_kib_s=cut(task.received),
        net_tx_kib_s=cut(np.full(SLOTS, np.nan)),
        shares=[ShareWindow(cut(task.busy), cut(task.used_mib))],
        restarted_at=_when(restarts[-1]) if restarts else None,
        door_at=_when(doors[-1]) if doors else None,
        asks_kernels=trace.notebook,
        kernels=_ask(trace, tick),
    )


def _ask(trace: Trace, tick: int) -> Kernels | None:
    """Return what JupyterLab answered at the last full minute."""
    asked = tick - tick % 6
    if not trace.notebook or trace.silent:
        return None
    worked = [(begin, min(end, asked)) for begin, end in trace.kernels if begin < asked]
    active = _when(max(end for _, end in worked)) if worked else None
    return Kernels(_when(asked), any(begin <= asked < end for begin, end in trace.kernels), active)


def _when(tick: int) -> datetime:
    return BEGAN + timedelta(seconds=tick * STEP_S)
