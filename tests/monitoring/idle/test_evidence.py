"""Idle is only what was seen to be: work shows at once, and too little seen is never idleness."""

import random
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.idle.clock import Clock, step_clock
from monitoring.idle.evidence import Busy, Idle, Limits, Signal, Unknown, Why, Window, derive_idle
from tests.monitoring.traces.corpus import AT_WORK, HOUR, IDLE, TaskTrace, Trace, build_corpus
from tests.monitoring.traces.play import BEGAN, cut_window, find_act
from tests.whole import part_of

LIMITS = Limits()
HALF_HOUR = 1800
NOW = BEGAN + timedelta(hours=2)


def make_trace(name: str, seed: int = 1) -> Trace:
    return {**AT_WORK, **IDLE}[name](random.Random(seed))


def look(trace: Trace, tick: int = 2 * HOUR):
    now = BEGAN + timedelta(seconds=10 * tick)
    return derive_idle(cut_window(trace, tick, HALF_HOUR), LIMITS, now)


def test_nothing_for_half_an_hour_is_idle_and_kept_memory_is_said():
    assert look(make_trace("never used")) == Idle(
        NOW - timedelta(minutes=30), False, look(make_trace("never used")).seen
    )
    found = look(make_trace("sleeps with its memory"))
    assert found.held and found.seen.gpu_mib == 40_000 and found.seen.coverage == 1


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("trains", Signal.GPU),
        ("loads data", Signal.CPU),
        ("downloads", Signal.NETWORK),
        ("gang with one slow rank", Signal.GPU),
        ("notebook with a terminal that prepares data", Signal.CPU),
        ("debugs in a kernel", Signal.KERNEL),
        ("debugs by hand", Signal.DOOR),
        ("memory grows", Signal.GPU_MEMORY),
        ("starts processes", Signal.PROCESSES),
    ],
)
def test_work_is_named_by_its_signal(name, signal):
    found = look(make_trace(name))
    assert isinstance(found, Busy) and found.signal == signal and NOW - timedelta(minutes=30) < found.at <= NOW


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("agent cut", Why.NO_SAMPLES),
        ("agent restarts", Why.RESTARTED),
        ("simulated without a trace", Why.GPU_UNKNOWN),
        ("gang with a rank unseen", Why.NO_SAMPLES),
        ("notebook whose JupyterLab is silent", Why.KERNELS_SILENT),
    ],
)
def test_what_is_not_known_is_never_idle(name, why):
    assert look(make_trace(name)) == Unknown(why, look(make_trace(name)).seen)


def test_without_a_single_task_nothing_is_known():
    assert derive_idle(Window(NOW, 10, []), LIMITS, NOW) == Unknown(Why.NO_SAMPLES)


def test_old_samples_say_nothing_of_now():
    trace = make_trace("never used")
    trace.tasks[0].cut(2 * HOUR - 7, 2 * HOUR)
    assert look(trace) == Unknown(Why.STALE, look(trace).seen)
    trace = make_trace("never used")
    trace.tasks[0].cut(2 * HOUR - 5, 2 * HOUR)
    assert isinstance(look(trace), Idle)


def test_one_tick_of_work_is_seen_where_the_rest_is_unknown():
    trace = make_trace("agent cut")
    trace.tasks[0].busy[2 * HOUR - 100] = 80
    assert look(trace) == Busy(Signal.GPU, look(trace).at, look(trace).seen)


@given(st.data())
def test_below_nine_tenths_of_the_ticks_nothing_is_idle(data):
    """Whatever is lost, of whichever task and signal."""
    trace = Trace("", [make_quiet() for _ in range(data.draw(st.integers(1, 3)))])
    task = data.draw(st.sampled_from(trace.tasks))
    lost = data.draw(st.sets(st.integers(2 * HOUR - 180, 2 * HOUR - 1), max_size=60))
    getattr(task, data.draw(st.sampled_from(["busy", "cpu_milli"])))[sorted(lost)] = np.nan
    found = look(trace)
    if len(lost) > 18:
        assert isinstance(found, Unknown)
    elif 2 * HOUR - 1 not in lost:
        assert isinstance(found, Idle) and found.seen.coverage == pytest.approx(1 - len(lost) / 180)


def make_quiet() -> TaskTrace:
    return make_trace("never used").tasks[0]


def test_the_clock_goes_on_stands_and_is_set_back():
    idle, unknown, busy = Idle(NOW, False), Unknown(Why.STALE), Busy(Signal.CPU, NOW)
    at = [NOW + timedelta(minutes=minutes) for minutes in range(6)]
    clock = step_clock(Clock(), idle, at[0])
    clock = step_clock(clock, replace(idle, since=at[0]), at[1])
    assert clock.measure_idle_s(at[1]) == 60
    stood = step_clock(step_clock(clock, unknown, at[2]), unknown, at[3])
    assert stood.measure_idle_s(at[3]) == 60 and stood.find_time(120) == at[4]
    assert step_clock(stood, idle, at[4]).measure_idle_s(at[4]) == 120
    assert step_clock(stood, busy, at[4]) == Clock(None, 0.0, at[4])
    assert step_clock(Clock(), unknown, at[0]) == Clock(None, 0.0, at[0])


def test_what_nobody_looked_at_does_not_count():
    """The looks were away for two hours: what the window proves is half an hour."""
    clock = Clock(NOW - timedelta(hours=3), 0.0, NOW - timedelta(hours=2))
    half = Idle(NOW - timedelta(minutes=30), False)
    assert step_clock(clock, half, NOW).since == half.since


@pytest.mark.slow
def test_nobody_at_work_is_acted_on_and_all_idle_ones_are_in_time():
    for trace in build_corpus(7)[:: part_of(1, 2)]:
        acted = find_act(trace, window_s=HALF_HOUR, act_s=3600)
        if trace.idle_from is None:
            assert acted is None, trace.name
        else:
            assert trace.idle_from + 3600 <= acted <= trace.idle_from + 3660, trace.name
