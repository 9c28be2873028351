"""Arrays: the product of the values that a file names, in order, and how they are written."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.jobfile.array_values import ArrayWish
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.load import load_jobfile, load_json
from jobs.jobfile.parse import parse_spec

lists = st.lists(st.text("ab1.e-", min_size=1, max_size=4), min_size=1, max_size=5).map(tuple)
ranges = st.tuples(st.integers(-20, 20), st.integers(0, 6)).map(lambda pair: range(pair[0], sum(pair) + 1))
values = st.dictionaries(st.sampled_from("abcd"), lists | ranges, min_size=1, max_size=3)


def read(text: str) -> ArrayWish:
    return parse_spec(load_jobfile(b"run: x\narray: " + text.encode())).array


@given(values, st.none() | st.integers(1, 1000))
def test_elements_are_the_product_in_order(values, at_once):
    count = len(list(product(*values.values())))
    wish = ArrayWish(count, values, at_once)
    told = [tuple(wish.values_at(index).values()) for index in range(count)]
    assert told == [tuple(map(str, one)) for one in product(*values.values())]
    assert list(wish.values_at(0)) == list(values)


@given(values, st.none() | st.integers(1, 1000))
def test_an_array_reads_back_as_it_was_written(values, at_once):
    count = len(list(product(*values.values())))
    spec = parse_spec({"run": "x"})
    object.__setattr__(spec, "array", ArrayWish(count, values, at_once))
    assert parse_spec(load_jobfile(dump_yaml(spec).encode())).array == spec.array


@pytest.mark.parametrize("text", ["100", "0..99", " 0 .. 99 "])
def test_a_number_and_a_range_from_zero_are_the_same(text):
    assert read(text) == ArrayWish(100)
    assert read(text).values_at(7) == {}


def test_yaml_keeps_values_as_they_are_written_and_ranges_include_both_ends():
    wish = read("{lr: [1e-4, 3e-4, 007, no], seed: -1..1, at_once: 3}")
    assert (wish.count, wish.at_once) == (12, 3)
    assert wish.values_at(0) == {"lr": "1e-4", "seed": "-1"}
    assert wish.values_at(11) == {"lr": "no", "seed": "1"}


def test_json_has_numbers():
    wish = parse_spec(load_json(b'{"run": "x", "array": {"lr": [1e-4, 2, true], "at_once": 2}}')).array
    assert [wish.values_at(index)["lr"] for index in range(3)] == ["0.0001", "2", "true"]
