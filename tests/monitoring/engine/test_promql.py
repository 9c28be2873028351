"""What is asked in PromQL cannot be bent by a name, and what is answered is taken as it stands or not at all."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from monitoring.engine.figures import FIGURES
from monitoring.engine.promql import Grid, Nonsense, build_expression, quote, read_answer
from monitoring.series.keys import COLUMNS, Key, Kind

START = datetime(2024, 3, 1, tzinfo=UTC)
GRID = Grid(START, 3600, 4)
CARD, NODE = Key(Kind.CARD, 7), Key(Kind.NODE, 3)
NAMES = {CARD: "GPU-1", NODE: "n1"}
ORIGIN = {"job": "tessera", "instance": "gpus.example.net"}


def answer(*series: dict) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}}).encode()


def series(slots_and_values, **labels) -> dict:
    points = [[START.timestamp() + 3600 * (slot + 1), value] for slot, value in slots_and_values]
    return {"metric": {"gpu": "GPU-1", "column": "busy_centi", **labels}, "values": points}


def busy(told) -> list:
    row = told[CARD].values[COLUMNS[Kind.CARD].index("busy_centi")]
    return [None if np.isnan(value) else value for value in row]


def test_each_figure_that_is_sent_can_be_asked_for():
    columns = {figure.column for figures in FIGURES.values() for figure in figures}
    asked = build_expression({**NAMES, Key(Kind.POOL, 1): "dev"}, columns, 3600, ORIGIN)
    for figure in (figure for figures in FIGURES.values() for figure in figures):
        assert f'avg_over_time({figure.name}{{job="tessera",instance="gpus.example.net"' in asked
        assert f'"{figure.column}"' in asked
    assert 'cause="brake"' in asked


def test_only_wanted_columns_of_named_subjects_are_asked_for():
    asked = build_expression({CARD: "GPU-1"}, {"power_w"}, 60, ORIGIN)
    assert asked == (
        'label_replace(avg by (gpu, source) (avg_over_time(tessera_gpu_power_watts{job="tessera",'
        'instance="gpus.example.net",gpu=~"GPU\\\\-1"}[60s])), "column", "power_w", "gpu", ".*")'
    )


@pytest.mark.parametrize(
    "name", ['x"} or vector(1) or up{a="', "back\\slash", "new\nline", "a|b", ".*", "机器", "a{2}"]
)
def test_a_name_stays_a_name(name):
    asked = build_expression({NODE: name}, {"cpu_milli"}, 60, {"job": 'te"st'})
    assert asked.count("avg_over_time") == 1 and "\n" not in asked and 'job="te\\"st"' in asked
    quoted = asked.partition("node=~")[2].partition("}[60s])")[0]
    assert json.loads(quoted).replace("\\", "") == name.replace("\\", "") and quote(name)[1:-1] not in ("", name + '"')


def test_values_stand_in_the_step_that_ends_at_their_time():
    told = read_answer(answer(series([(0, "12.5"), (3, "50")], source="measured")), NAMES, GRID)
    assert busy(told) == [1250.0, None, None, 5000.0] and told[CARD].source == "measured"


def test_of_two_series_of_one_figure_the_mean_is_taken_and_the_weakest_source():
    both = [series([(0, "10"), (1, "10")], source="measured"), series([(1, "30")], source="estimated")]
    told = read_answer(answer(*both), NAMES, GRID)
    assert busy(told) == [1000.0, 2000.0, None, None] and told[CARD].source == "estimated"


def test_strange_values_labels_and_times_are_left_aside():
    strange = [
        series([(0, "NaN"), (1, "+Inf"), (2, "1e308"), (3, "7"), (4, "9"), (-1, "9")], source="what?"),
        series([(0, "1")], column="password"),
        series([(0, "1")], gpu="GPU-of-others"),
        {"metric": {}, "values": [[START.timestamp() + 3600, "1"]]},
    ]
    told = read_answer(answer(*strange), NAMES, GRID)
    assert set(told) == {CARD} and busy(told) == [None, None, None, 700.0] and told[CARD].source == "measured"


@pytest.mark.parametrize("body", [
    b"", b"<html>login</html>", b"null", b"[]", b"{}", b"7", b'{"status": "error"}', b"[" * 100_000,
    b'{"status": "success", "data": null}', b'{"status": "success", "data": {"result": 7}}',
    answer({"metric": 1}), answer({"metric": {}, "values": [[1]]}), answer(series([(0, "much")])),
    answer(series([(0, "1")]))[:-9], b"\xff\xfe",
])  # fmt: skip
def test_what_is_no_answer_is_told_apart(body):
    with pytest.raises(Nonsense):
        read_answer(body, NAMES, GRID)


def test_an_engine_that_knows_nothing_is_no_fault():
    assert read_answer(answer(), NAMES, GRID) == {}
