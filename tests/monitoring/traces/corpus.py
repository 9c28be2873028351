"""Forty days in the life of a job, each made by dice: 26 that are at work or cannot be known, 14 that are idle.

A trace lasts three hours of ticks of ten seconds. `idle_from` is the second from which on nothing works; None: never.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

STEP_S = 10
SLOTS = 3 * 360
HOUR = 360
"""Ticks of one hour."""
ASKED = 4000
Values = NDArray[np.float64]


@dataclass
class TaskTrace:
    """What one task does, by tick. busy: percent of its part of the card."""

    busy: Values
    used_mib: Values
    cpu_milli: Values
    processes: Values
    read: Values
    write: Values
    received: Values = field(default_factory=lambda: np.full(SLOTS, np.nan))
    restarts: list[int] = field(default_factory=list)

    def cut(self, begin: int, end: int) -> None:
        """Lose all that was seen in some ticks."""
        for values in (self.busy, self.used_mib, self.cpu_milli, self.processes, self.read, self.write):
            values[begin:end] = np.nan


@dataclass
class Trace:
    """kernels, doors: the ticks at which a kernel worked and a person was there. silent: JupyterLab never answers."""

    name: str
    tasks: list[TaskTrace]
    idle_from: int | None = None
    notebook: bool = False
    kernels: list[tuple[int, int]] = field(default_factory=list)
    doors: list[int] = field(default_factory=list)
    silent: bool = False


def build_corpus(seed: int) -> list[Trace]:
    """Return the 40 traces of a seed."""
    return [
        replace(make(random.Random(f"{seed}/{number}")), name=name)
        for number, (name, make) in enumerate([*AT_WORK.items(), *IDLE.items()])
    ]


def _quiet(dice: random.Random, *, used: float = 0.0, processes: int = 4) -> TaskTrace:
    """A task that does nothing: an idle server's processor time, and a byte now and then."""
    noise = np.random.default_rng(dice.randrange(2**32))
    return TaskTrace(
        busy=np.zeros(SLOTS),
        used_mib=np.full(SLOTS, float(used)),
        cpu_milli=noise.uniform(2, 35, SLOTS),
        processes=np.full(SLOTS, float(processes)),
        read=np.zeros(SLOTS),
        write=noise.choice([0.0, 0.0, 0.0, 4.0], SLOTS).astype(np.float64),
    )


def _training(dice: random.Random, busy: float = 90.0) -> TaskTrace:
    task = _quiet(dice, used=dice.uniform(4000, 30_000), processes=9)
    noise = np.random.default_rng(dice.randrange(2**32))
    task.busy = np.clip(noise.normal(busy, 5, SLOTS), 0, 100)
    task.cpu_milli = noise.uniform(900, 1400, SLOTS)
    return task


def _stops(task: TaskTrace, dice: random.Random, *, keeps: bool) -> tuple[TaskTrace, int]:
    """Let a task work for half an hour to an hour, and nothing afterwards. keeps: its GPU memory."""
    end = dice.randrange(HOUR // 2, HOUR)
    rest = _quiet(dice, used=float(task.used_mib[end - 1]) if keeps else 0.0, processes=int(task.processes[end]))
    for name in ("busy", "used_mib", "cpu_milli", "read", "write"):
        getattr(task, name)[end:] = getattr(rest, name)[end:]
    return task, end * STEP_S


def _bursts(task: TaskTrace, name: str, dice: random.Random, *, every: tuple[int, int], ticks: int, level: float):
    """Let something rise for some ticks again and again."""
    at = dice.randrange(*every)
    while at < SLOTS:
        getattr(task, name)[at : at + ticks] = level
        at += dice.randrange(*every)
    return task


def _trains(dice):
    return Trace("", [_training(dice)])


def _trains_lazily(dice):
    return Trace("", [_training(dice, busy=dice.uniform(8, 14))])


def _loads_data(dice):
    task = _quiet(dice, processes=17)
    task.cpu_milli[:] = dice.uniform(2500, 3900)
    task.read[:] = dice.uniform(2000, 90_000)
    return Trace("", [task])


def _downloads(dice):
    task = _quiet(dice)
    task.received[:] = dice.uniform(400, 50_000)
    return Trace("", [task])


def _unpacks_many_small_files(dice):
    return Trace("", [_bursts(_quiet(dice), "write", dice, every=(30, 110), ticks=6, level=300.0)])


def _debugs_by_hand(dice):
    trace = Trace("", [_quiet(dice, used=6000)])
    trace.doors = list(range(dice.randrange(100), SLOTS, dice.randrange(60, 150)))
    return trace


def _debugs_in_a_kernel(dice):
    """A breakpoint in a cell: its kernel is busy, and nothing else moves."""
    return Trace("", [_quiet(dice, used=9000)], notebook=True, kernels=[(0, SLOTS)])


def _evaluates_on_the_processor(dice):
    task = _quiet(dice, used=12_000)
    task.cpu_milli[:] = dice.uniform(1000, 3900)
    return Trace("", [task])


def _evaluates_on_one_of_many_cores(dice):
    task = _quiet(dice, used=12_000)
    task.cpu_milli[:] = dice.uniform(260, 420)
    return Trace("", [task])


def _evaluates_each_quarter(dice):
    return Trace("", [_bursts(_quiet(dice, used=800), "cpu_milli", dice, every=(60, 120), ticks=9, level=3000.0)])


def _saw_tooth(dice):
    return Trace("", [_bursts(_quiet(dice, used=5000), "busy", dice, every=(12, 40), ticks=3, level=95.0)])


def _slow_saw_tooth(dice):
    return Trace("", [_bursts(_quiet(dice, used=5000), "busy", dice, every=(90, 150), ticks=2, level=70.0)])


def _serves_now_and_then(dice):
    return Trace("", [_bursts(_quiet(dice, used=20_000), "busy", dice, every=(100, 160), ticks=1, level=60.0)])


def _gang_with_one_slow_rank(dice):
    tasks = [_training(dice) for _ in range(3)]
    return Trace("", [*tasks, _quiet(dice, used=15_000)])


def _gang_at_a_barrier_in_turns(dice):
    """One of four works at a time."""
    tasks = [_quiet(dice, used=15_000) for _ in range(4)]
    for begin in range(0, SLOTS, 60):
        tasks[(begin // 60) % 4].busy[begin : begin + 60] = 80.0
    return Trace("", tasks)


def _notebook_with_a_terminal_that_trains(dice):
    trace = Trace("", [_training(dice)], notebook=True)
    return trace


def _notebook_with_a_terminal_that_prepares(dice):
    task = _quiet(dice)
    task.cpu_milli[:] = dice.uniform(700, 1900)
    return Trace("", [task], notebook=True)


def _notebook_of_a_reader(dice):
    """Somebody reads and runs a cell now and then, for which the GPU is too fast to be seen."""
    spans = [(at, at + 1) for at in range(dice.randrange(60), SLOTS, dice.randrange(70, 160))]
    return Trace("", [_quiet(dice, used=3000)], notebook=True, kernels=spans)


def _notebook_whose_jupyter_is_silent(dice):
    return Trace("", [_quiet(dice, used=3000)], notebook=True, silent=True)


def _memory_grows(dice):
    task = _quiet(dice)
    task.used_mib = np.linspace(500, 500 + dice.uniform(3000, 9000), SLOTS)
    return Trace("", [task])


def _starts_processes(dice):
    task = _quiet(dice)
    for at in range(dice.randrange(60), SLOTS, dice.randrange(60, 150)):
        task.processes[at : at + 20] += 2
    return Trace("", [task])


def _agent_cut(dice):
    task = _quiet(dice, used=7000)
    task.cut(dice.randrange(20, 90), SLOTS)
    return Trace("", [task])


def _agent_comes_and_goes(dice):
    task = _quiet(dice)
    for begin in range(dice.randrange(30), SLOTS, 60):
        task.cut(begin, begin + dice.randrange(9, 20))
    return Trace("", [task])


def _agent_restarts(dice):
    task = _quiet(dice, used=7000)
    task.restarts = list(range(dice.randrange(60), SLOTS, dice.randrange(100, 160)))
    return Trace("", [task])


def _simulated_without_a_trace(dice):
    task = _quiet(dice)
    task.busy[:] = np.nan
    return Trace("", [task])


def _gang_with_a_rank_unseen(dice):
    tasks = [_quiet(dice, used=9000) for _ in range(3)]
    tasks[1].cut(0, SLOTS)
    return Trace("", tasks)


AT_WORK: dict[str, Callable[[random.Random], Trace]] = {
    "trains": _trains,
    "trains lazily": _trains_lazily,
    "loads data": _loads_data,
    "downloads": _downloads,
    "unpacks many small files": _unpacks_many_small_files,
    "debugs by hand": _debugs_by_hand,
    "debugs in a kernel": _debugs_in_a_kernel,
    "evaluates on the processor": _evaluates_on_the_processor,
    "evaluates on a part of one core": _evaluates_on_one_of_many_cores,
    "evaluates each quarter of an hour": _evaluates_each_quarter,
    "saw-tooth": _saw_tooth,
    "slow saw-tooth": _slow_saw_tooth,
    "serves a request now and then": _serves_now_and_then,
    "gang with one slow rank": _gang_with_one_slow_rank,
    "gang that works in turns": _gang_at_a_barrier_in_turns,
    "notebook with a terminal that trains": _notebook_with_a_terminal_that_trains,
    "notebook with a terminal that prepares data": _notebook_with_a_terminal_that_prepares,
    "notebook of a reader": _notebook_of_a_reader,
    "notebook whose JupyterLab is silent": _notebook_whose_jupyter_is_silent,
    "memory grows": _memory_grows,
    "starts processes": _starts_processes,
    "agent cut": _agent_cut,
    "agent comes and goes": _agent_comes_and_goes,
    "agent restarts": _agent_restarts,
    "simulated without a trace": _simulated_without_a_trace,
    "gang with a rank unseen": _gang_with_a_rank_unseen,
}


def _ended_training(dice):
    task, idle_from = _stops(_training(dice), dice, keeps=False)
    return Trace("", [task], idle_from)


def _hung_training(dice):
    task, idle_from = _stops(_training(dice), dice, keeps=True)
    return Trace("", [task], idle_from)


def _never_used(dice):
    return Trace("", [_quiet(dice)], 0)


def _sleeps_with_its_memory(dice):
    return Trace("", [_quiet(dice, used=40_000)], 0)


def _notebook_left_open(dice):
    task, idle_from = _stops(_training(dice, busy=60), dice, keeps=True)
    return Trace("", [task], idle_from, notebook=True, kernels=[(0, idle_from // STEP_S)])


def _notebook_never_opened(dice):
    return Trace("", [_quiet(dice)], 0, notebook=True)


def _notebook_closed(dice):
    end = 6 * dice.randrange(10, HOUR // 6)
    return Trace("", [_quiet(dice)], end * STEP_S, notebook=True, doors=list(range(0, end + 1, 6)))


def _gang_that_all_hangs(dice):
    end = dice.randrange(HOUR // 2, HOUR)
    tasks = [_training(dice) for _ in range(4)]
    for task in tasks:
        rest = _quiet(dice, used=float(task.used_mib[end]))
        task.busy[end:], task.cpu_milli[end:] = rest.busy[end:], rest.cpu_milli[end:]
    return Trace("", tasks, end * STEP_S)


def _short_gap(dice):
    trace = _hung_training(dice)
    begin = dice.randrange(2 * HOUR - 60, 2 * HOUR)
    trace.tasks[0].cut(begin, begin + 5)
    return trace


def _lossy_network(dice):
    """One tick in twenty is lost."""
    trace = _never_used(dice)
    for at in range(19, SLOTS, 20):
        trace.tasks[0].cut(at, at + 1)
    return trace


def _agent_restarted_long_before(dice):
    trace = _hung_training(dice)
    trace.tasks[0].restarts = [dice.randrange(1, 60)]
    return trace


def _server_without_a_visitor(dice):
    task = _quiet(dice, used=20_000, processes=12)
    task.cpu_milli += 60
    return Trace("", [task], 0)


def _prints_a_line_a_minute(dice):
    return Trace("", [_bursts(_quiet(dice), "write", dice, every=(6, 7), ticks=1, level=8.0)], 0)


def _downloaded_then_forgot(dice):
    task = _quiet(dice)
    end = dice.randrange(60, HOUR)
    task.write[:end], task.cpu_milli[:end] = 40_000, 900
    return Trace("", [task], end * STEP_S)


IDLE: dict[str, Callable[[random.Random], Trace]] = {
    "training that ended": _ended_training,
    "training that hangs": _hung_training,
    "never used": _never_used,
    "sleeps with its memory": _sleeps_with_its_memory,
    "notebook left open": _notebook_left_open,
    "notebook never opened": _notebook_never_opened,
    "notebook closed": _notebook_closed,
    "gang that all hangs": _gang_that_all_hangs,
    "short gap": _short_gap,
    "lossy network": _lossy_network,
    "agent restarted long before": _agent_restarted_long_before,
    "server without a visitor": _server_without_a_visitor,
    "prints a line a minute": _prints_a_line_a_minute,
    "downloaded, then forgot": _downloaded_then_forgot,
}
