"""Lines that tasks write, good and hostile."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reported_numbers.lines import MOST_LINE, MOST_NAMES, NAME, Refusal, Why, read_lines


def test_a_line_has_numbers_and_their_step():
    read = read_lines(b'{"step": 100, "loss": 0.31, "val/acc": "0.5"}\n{"loss": 0.30}\n')
    assert read.values == {"loss": [(100, 0.31), (None, 0.30)], "val/acc": [(100, 0.5)]}
    assert read.refused == 0 and read.first is None


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        (b"loss 0.3", Refusal(Why.NOT_JSON, "loss 0.3")),
        (b"[0.3]", Refusal(Why.NOT_JSON, "[0.3]")),
        (b"\xff\xfe", Refusal(Why.NOT_JSON, "\N{REPLACEMENT CHARACTER}" * 2)),
        (b"[" * 4000, Refusal(Why.NOT_JSON, "[" * 80)),
        (b'{"loss": "low"}', Refusal(Why.NOT_NUMBER, "loss")),
        (b'{"loss": true}', Refusal(Why.NOT_NUMBER, "loss")),
        (b'{"loss": null}', Refusal(Why.NOT_NUMBER, "loss")),
        (b'{"loss": NaN}', Refusal(Why.NOT_FINITE, "loss")),
        (b'{"loss": "nan"}', Refusal(Why.NOT_FINITE, "loss")),
        (b'{"loss": 1' + b"0" * 400 + b"}", Refusal(Why.NOT_FINITE, "loss")),
        (b'{"loss": 0.3, "step": "far"}', Refusal(Why.NOT_NUMBER, "step")),
        (b'{"loss": 0.3, "step": Infinity}', Refusal(Why.NOT_FINITE, "step")),
        (b'{"2x": 1}', Refusal(Why.BAD_NAME, "2x")),
        (b'{"a b\\u0000": 1}', Refusal(Why.BAD_NAME, "a b?")),
        (b'{"%s": 1}' % (b"a" * 65), Refusal(Why.BAD_NAME, "a" * 65)),
        (b'{"loss": 0.3, "x": "%s"}' % (b"y" * MOST_LINE), Refusal(Why.LONG_LINE, '{"loss": 0.3, "x": "' + "y" * 60)),
    ],
)
def test_what_is_refused_is_counted_and_said(line, refusal):
    read = read_lines(line)
    assert (read.values, read.refused, read.first) == ({}, 1, refusal)


def test_one_bad_number_does_not_take_the_others_along():
    read = read_lines(b'{"loss": 0.3, "lr": "?", "acc": 1}')
    assert read.values == {"loss": [(None, 0.3)], "acc": [(None, 1)]} and read.refused == 1


def test_a_task_has_only_so_many_names_those_it_had_before_among_them():
    known = [f"n{i}" for i in range(MOST_NAMES - 1)]
    read = read_lines(b'{"n0": 1, "new": 2, "newer": 3, "new": 2}', known)
    assert read.values == {"n0": [(None, 1)], "new": [(None, 2)]}
    assert read.first == Refusal(Why.MANY_NAMES, "newer")


@given(st.binary(max_size=9000))
def test_any_bytes_are_read_without_a_failure(content):
    read = read_lines(content)
    assert len(read.values) <= MOST_NAMES
    assert all(NAME.fullmatch(name) for name in read.values)
    assert all(math.isfinite(value) for told in read.values.values() for _, value in told)
    assert (read.first is None) == (read.refused == 0)
    assert read.first is None or (read.first.what.isprintable() and len(read.first.what) <= 80)


names = st.text("aZ_0./-", max_size=9).map(lambda rest: f"n{rest}")
finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(st.none() | finite, st.dictionaries(names, finite, max_size=5)), max_size=15))
def test_what_is_written_well_is_read_as_it_was(lines):
    told = [{**values, **({} if step is None else {"step": step})} for step, values in lines]
    read = read_lines("\n".join(map(json.dumps, told)).encode())
    want: dict = {}
    for step, values in lines:
        for name, value in values.items():
            want.setdefault(name, []).append((step, value))
    assert read.values == want and read.refused == 0
