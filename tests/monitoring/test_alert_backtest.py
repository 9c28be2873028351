"""How often a rule would have fired."""

from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from common.errors import InvalidInput
from monitoring.alerts.backtest import backtest_rule, find_firings
from monitoring.alerts.services import check_rule
from monitoring.models import Sample
from monitoring.series.keys import Kind
from monitoring.series.store import keep_samples
from tests import make
from tests.monitoring.test_alert_rules import rule

NONE = float("nan")


@pytest.mark.parametrize(
    ("values", "fields", "firings"),
    [
        ([], {}, []),
        ([80] * 5, {}, []),
        ([90] * 5, {"for_s": 0}, [(0, None)]),
        ([90] * 5, {"for_s": 180}, [(3, None)]),
        ([90, 90, 80, 90, 90], {"for_s": 180}, []),
        ([90, 90, NONE, NONE, 90, 90], {"for_s": 180}, [(5, None)]),
        ([90, 80, 90, 80], {"for_s": 0, "clear_for_s": 0}, [(0, 1), (2, 3)]),
        ([90, 80, 90, 80, 80, 80], {"for_s": 0, "clear_for_s": 120}, [(0, 5)]),
        ([90, 85, 85, 81, 81], {"for_s": 0, "clear_for_s": 60, "clear_threshold": 82}, [(0, 4)]),
        ([90, NONE, NONE, 81], {"for_s": 0, "clear_for_s": 0}, [(0, 3)]),
        ([5, 5, 20], {"for_s": 60, "clear_for_s": 0, "comparison": "below", "threshold": 10}, [(1, 2)]),
    ],
)
def test_the_rules_clocks_run_over_a_series(values, fields, firings):
    assert find_firings(rule(**fields), np.array(values, float), 60) == firings


@pytest.mark.django_db
def test_a_rule_is_tried_on_what_is_kept():
    cast = make.cast()
    make.start(make.job(cast.ada, gpu="1/4"), cast.gpus[0])
    make.admin()
    keep_heat(cast.gpus[0])
    hot = rule(for_s=0, clear_for_s=0, audience=["owner", "admin"])
    found = backtest_rule(hot, 1)
    assert (found.fired, found.subjects, found.people) == (1, 1, 2) and 0 < found.known < 0.1
    assert found.firings[0].label == "n1:0"
    for refused, days in ((hot, 61), (rule(metric="faulty"), 7)):
        with pytest.raises(InvalidInput):
            backtest_rule(refused, days)


def keep_heat(gpu) -> None:
    """Ten minutes at 90 °C, until a minute ago."""
    now = timezone.now()
    ends = [now - timedelta(seconds=60 + 10 * i) for i in range(60)]
    values = [5000, 100, 90, 200]
    rows = [
        Sample(kind=Kind.CARD, subject=gpu.pk, card=0, at=at, span_ms=10_000, source="measured", values=values)
        for at in ends
    ]
    keep_samples(rows)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"metric": "mood"}, "unknown_metric"),
        ({"name": " "}, "required"),
        ({"threshold": 0}, "rule_matches_everything"),
        ({"metric": "gpu_busy_percent", "threshold": 101}, "rule_matches_nothing"),
        ({"metric": "gpu_busy_percent", "comparison": "at_most", "threshold": 100}, "rule_matches_everything"),
        ({"metric": "gpu_busy_percent", "comparison": "below", "threshold": 0}, "rule_matches_nothing"),
        ({"threshold": NONE}, "number_out_of_range"),
        ({"clear_threshold": 90}, "clears_while_it_holds"),
        ({"for_s": 8 * 86_400}, "alert_window_too_long"),
        ({"audience": []}, "required"),
        ({"audience": ["everybody"]}, "unknown_value"),
        ({"subject": "job", "metric": "waiting_s", "action": "drain_node"}, "action_without_machine"),
        ({"subject": "job", "metric": "waiting_s", "action": "drain_card"}, "drain_without_card"),
        ({"action": "cordon_node", "audience": ["admin"]}, "action_untold"),
        ({"least_gpus": 4}, "only_for_jobs"),
        ({"subject": "team", "metric": "idle_gpus", "pool_id": 1}, "in_no_pool"),
        ({"subject": "pool", "metric": "idle_gpus", "audience": ["owner"]}, "nobody_is_told"),
    ],
)
def test_a_rule_that_says_nothing_or_everything_is_refused_at_its_field(fields, code):
    with pytest.raises(InvalidInput) as refused:
        check_rule(rule(**{"name": "mine", **fields}))
    assert code in [error.code for error in refused.value.errors]


def test_a_health_check_is_named_in_a_rule():
    check_rule(rule(name="mine", metric="check:gpu_xid", threshold=2))


def test_what_ships_keeps_what_it_looks_at():
    shipped = rule(code="gpu_hot")
    with pytest.raises(InvalidInput):
        check_rule(rule(code="gpu_hot", metric="power_w"), shipped)
