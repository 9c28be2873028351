"""Searches in a job file: their grid, and their random values, which stay within what the file says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.jobfile.load import load_jobfile, load_json
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.search.space import Choices, Interval
from jobs.jobfile.search.wish import SearchWish


def read(text: str) -> SearchWish:
    return parse_spec(load_jobfile(b"run: x\nsearch: " + text.encode())).search


def test_a_grid_is_all_of_its_values_in_order_and_ends():
    wish = read("{method: grid, metric: loss, space: {lr: [1e-4, 3e-4], layers: 1..3}}")
    assert wish.count == 6
    assert [tuple(wish.values_at(index).values()) for index in (0, 2, 3, 5)] == [
        ("1e-4", "1"), ("1e-4", "3"), ("3e-4", "1"), ("3e-4", "3")
    ]  # fmt: skip
    assert read("{method: grid, metric: loss, trials: 4, space: {layers: 1..3}}").count == 3
    assert read("{method: grid, metric: loss, trials: 2, space: {layers: 1..3}}").count == 2


@given(st.integers(0, 10**6), st.integers(0, 1000))
def test_random_values_stay_within_the_space_and_are_the_same_each_time(seed, index):
    space = "{lr: 1e-5..0.123456789 log, n: 1..4, w: 8..64 log, o: [a, b]}"
    text = f"{{metric: m, trials: 9, seed: {seed}, space: {space}}}"
    values = read(text).values_at(index)
    turned = text.replace(space, "{o: [a, b], w: 8..64 log, n: 1..4, lr: 1e-5..0.123456789 log}")
    assert values == read(text).values_at(index) == read(turned).values_at(index) and list(values) == [
        "lr",
        "n",
        "w",
        "o",
    ]
    assert 1e-5 <= float(values["lr"]) <= 0.123456789 and values["o"] in "ab"
    assert values["n"] in ("1", "2", "3", "4") and 8 <= int(values["w"]) <= 64


def test_all_whole_numbers_come_up_and_log_spreads_over_the_orders_of_magnitude():
    wish = read("{metric: m, trials: 9, method: random, space: {n: 1..3, lr: 1e-4..1 log}}")
    drawn = [wish.values_at(index) for index in range(600)]
    assert min(sum(one["n"] == n for one in drawn) for n in "123") > 150
    assert 240 < sum(float(one["lr"]) < 1e-2 for one in drawn) < 360


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_json_has_numbers(method):
    said = (
        b'{"method": "%s", "metric": "m", "trials": 3, "space": {"a": [1, 2.5, true], "b": "0..1"}}' % method.encode()
    )
    wish = parse_spec(load_json(b'{"run": "x", "search": %s}' % said)).search
    assert wish.space == {"a": Choices(("1", "2.5", "true")), "b": Interval("0", "1")}
