"""Traces of simulated cards: exact integrals under any sampling, plausible levels, the same for the same task."""

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtimes.local.simulated_load import COOL_C, HOT_C, TRACES, build_load

HOUR_S, DAY_S = 3600, 86400

traces = st.sampled_from(sorted(TRACES))
tasks = st.uuids().map(lambda uuid: uuid.hex)
moments = st.floats(0, 7 * DAY_S)


@given(traces, tasks, st.lists(moments, min_size=2, max_size=30))
def test_the_means_of_any_spans_add_up_to_the_mean_of_the_whole(trace, task, looks):
    load, looks = build_load(trace, task), sorted(looks)
    spans = [load.count_busy_ms(end) - load.count_busy_ms(begin) for begin, end in pairwise(looks)]
    whole = load.count_busy_ms(looks[-1]) - load.count_busy_ms(looks[0])
    assert sum(spans) == pytest.approx(whole, abs=1e-3)
    assert all(span >= -1e-3 for span in spans)
    assert all(span <= 1000 * (end - begin) + 1e-3 for span, (begin, end) in zip(spans, pairwise(looks), strict=True))


@given(traces, tasks, st.floats(0, 2 * HOUR_S))
def test_a_total_is_the_area_below_the_activity(trace, task, begin):
    """By the midpoint rule in steps of 10 ms: each of the few corners costs half a step at most."""
    load, step = build_load(trace, task), 0.01
    summed = sum(10 * step * load.read_activity(begin + (n + 0.5) * step) for n in range(2000))
    assert load.count_busy_ms(begin + 20) - load.count_busy_ms(begin) == pytest.approx(summed, abs=40)


@given(traces, tasks, moments)
def test_activity_is_a_percentage_and_memory_stays_within_the_share(trace, task, at):
    load = build_load(trace, task)
    assert -1e-9 <= load.read_activity(at) <= 100
    assert 0 <= load.read_memory_mib(at, 8000) <= load.read_memory_mib(at + 60, 8000) <= 8000


@given(traces, tasks, moments)
def test_the_same_task_has_the_same_trace_in_every_process(trace, task, at):
    assert build_load(trace, task) == build_load(trace, task)
    assert build_load(trace, task).count_busy_ms(at) == build_load(trace, task).count_busy_ms(at)


@settings(max_examples=25, deadline=None)  # each looks at an hour of seconds
@given(tasks)
def test_each_trace_is_what_it_is_called(task):
    def mean(trace: str, begin: float, end: float) -> float:
        load = build_load(trace, task)
        return (load.count_busy_ms(end) - load.count_busy_ms(begin)) / (10 * (end - begin))

    assert 84 <= mean("train", 60, 2 * HOUR_S) <= 97
    assert min(build_load("train", task).read_activity(second) for second in range(60, HOUR_S)) < 20  # a checkpoint
    assert 2 <= mean("notebook", 0, 2 * HOUR_S) <= 35
    assert 25 <= mean("starved", 0, 2 * HOUR_S) <= 43
    assert mean("idle", 0, 2 * HOUR_S) == 0 < build_load("idle", task).read_memory_mib(60, 8000)
    leak = build_load("leak", task)
    assert leak.read_memory_mib(60, 8000) < 2200 and leak.read_memory_mib(3 * HOUR_S, 8000) == 8000
    assert mean("hot", 60, HOUR_S) >= 97 and build_load("hot", task).heat_c == HOT_C > 87 - COOL_C


def test_tasks_differ_and_an_unknown_trace_trains():
    one, other = (UUID(int=number).hex for number in (1, 2))
    assert build_load("train", one) != build_load("train", other)
    assert 84 <= (build_load("tarin", one).count_busy_ms(HOUR_S)) / (10 * HOUR_S) <= 97
