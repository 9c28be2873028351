"""Samples value by value: what is no sense is dropped and counted, and the rest is taken."""

import json
from copy import deepcopy
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.samples.wire import MOST, MOST_CARDS, Sampled, read_body

TASK = "a" * 32
CARD = {"uuid": "GPU-1", "source": "measured", "busy_ms": 500, "used_mib": 900, "temperature_c": 61, "power_w": 240}
BODY: dict = {
    "run": "boot/1",
    "first": 7,
    "ticks": [
        {
            "seq": 7,
            "age_ms": 10,
            "up_ms": 1000,
            "cards": [CARD],
            "tasks": [{"task": TASK, "age_ms": 5, "cpu_ms": 7, "memory_mib": 9, "shares": [CARD | {"power_w": "?"}]}],
        }
    ],
}


def changed(**fields) -> dict:
    body = deepcopy(BODY)
    body["ticks"][0]["cards"][0] |= fields
    return body


def test_a_whole_body_is_read():
    body = read_body(BODY)
    (tick,) = body.ticks
    assert (body.run, tick.seq, tick.age_ms, tick.up_ms, body.refused) == ("boot/1", 7, 10, 1000, {})
    assert tick.cards["GPU-1"] == Sampled(
        "measured", {"busy_ms": 500, "used_mib": 900, "temperature_c": 61, "power_w": 240}
    )
    ((uuid, task),) = tick.tasks.items()
    assert (uuid.hex, task.values) == (TASK, {"cpu_ms": 7, "memory_mib": 9})
    assert task.shares["GPU-1"].values == {"busy_ms": 500, "used_mib": 900}


@pytest.mark.parametrize("bad", [-1, MOST + 1, 1.5, nan, inf, "7", True, [], {}])
def test_a_bad_value_is_dropped_and_counted_and_the_rest_is_taken(bad):
    body = read_body(changed(busy_ms=bad))
    assert body.refused == {"busy_ms": 1}
    assert body.ticks[0].cards["GPU-1"].values == {"used_mib": 900, "temperature_c": 61, "power_w": 240}


def test_what_is_null_is_not_known_and_no_mistake():
    body = read_body(changed(used_mib=None))
    assert not body.refused and "used_mib" not in body.ticks[0].cards["GPU-1"].values


@pytest.mark.parametrize("source", [None, "guessed", 7, []])
def test_a_card_that_does_not_say_how_it_was_found_out_is_dropped(source):
    body = read_body(changed(source=source))
    assert body.refused == {"source": 1} and not body.ticks[0].cards and body.ticks[0].tasks


@pytest.mark.parametrize("uuid", [None, "", "x" * 101, "GPU\0", 7])
def test_a_card_without_a_name_is_dropped(uuid):
    assert read_body(changed(uuid=uuid)).refused == {"cards": 1}


def test_of_two_of_the_same_card_the_first_is_taken():
    body = deepcopy(BODY)
    body["ticks"][0]["cards"] = [CARD, CARD | {"busy_ms": 1}]
    read = read_body(body)
    assert read.refused == {"cards": 1} and read.ticks[0].cards["GPU-1"].values["busy_ms"] == 500


def test_too_many_are_cut_off_and_counted():
    body = deepcopy(BODY)
    body["ticks"][0]["cards"] = [CARD | {"uuid": str(number)} for number in range(MOST_CARDS + 3)]
    read = read_body(body)
    assert len(read.ticks[0].cards) == MOST_CARDS and read.refused == {"cards": 3}


def test_counters_of_a_task_without_their_age_are_dropped():
    body = deepcopy(BODY)
    del body["ticks"][0]["tasks"][0]["age_ms"]
    read = read_body(body)
    assert read.refused == {"age_ms": 1} and next(iter(read.ticks[0].tasks.values())).values == {}


@pytest.mark.parametrize("mark", ["seq", "age_ms", "up_ms"])
def test_a_tick_without_its_number_or_time_is_dropped(mark):
    body = deepcopy(BODY)
    body["ticks"].append(body["ticks"][0] | {"seq": 8, mark: "x"})
    read = read_body(body)
    assert [tick.seq for tick in read.ticks] == [7] and read.refused == {mark: 1, "tick": 1}


@pytest.mark.parametrize("sent", [None, [], "x", 7, {}, {"run": ""}, {"run": 7}, {"run": "x" * 101}, {"run": "\0"}])
def test_a_body_without_a_run_cannot_be_used(sent):
    body = read_body(sent)
    assert (body.run, body.ticks, body.refused) == ("", [], {"run": 1})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["run", "ticks", "seq", "age_ms", "up_ms", "cards", "tasks", "uuid"]), inner)
    ),
    max_leaves=20,
)


@given(anything)
def test_nothing_that_json_can_say_breaks_it(sent):
    read_body(sent)
    read_body({"run": "r", "ticks": sent})
    read_body({"run": "r", "ticks": [{"seq": 1, "age_ms": 0, "up_ms": 1, "cards": sent, "tasks": [{"shares": sent}]}]})
    json.dumps(read_body(sent).refused)
