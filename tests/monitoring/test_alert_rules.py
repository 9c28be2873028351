"""What becomes of alerts, by rules, values and time; and who is told. Without a database."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from monitoring.alerts.actions import Bounds, choose_actions
from monitoring.alerts.catalogue import build_shipped_rules, find_metric
from monitoring.alerts.evaluation import MOST_STEP_MS, Reading, Verdict, compare, judge
from monitoring.alerts.messages import People, choose_endings, choose_messages
from monitoring.alerts.readings import compute_mean, compute_straggling
from monitoring.models import Alert, AlertRule, AlertState, Silence

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOT = {"subject": "card", "metric": "temperature_c", "comparison": "at_least", "threshold": 87, "severity": "warning"}
FIRING, NO_DATA, RESOLVED = AlertState.FIRING, AlertState.NO_DATA, AlertState.RESOLVED


def rule(**fields) -> AlertRule:
    return AlertRule(
        **{"pk": 1, "audience": ["owner", "lead", "admin"], "for_s": 60, "clear_for_s": 30, **HOT, **fields}
    )


class Life:
    """One rule and one subject, judged every 15 seconds."""

    def __init__(self, of: AlertRule, **reading):
        self.rule, self.reading, self.at = of, reading, NOW
        self.alert: Alert | None = None
        self.ended: Alert | None = None

    def see(self, *values: float | None, step_s: float = 15, missing: bool = False) -> str:
        for value in values:
            self.at += timedelta(seconds=step_s)
            found = {} if missing else {7: Reading("n1:0", value, **self.reading)}
            self.take(
                compare({("card", "temperature_c"): found}, [self.rule], [self.alert] if self.alert else [], self.at)
            )
        return self.alert.state if self.alert else "INACTIVE"

    def take(self, changes):
        if changes.begun:
            (self.alert,) = changes.begun
        if changes.dropped:
            self.alert = None
        for to, moves in changes.moves.items():
            for alert, why in moves:
                assert to in Alert.MOVES[alert.state]
                alert.state, alert.reason = to, why
        if self.alert is not None and self.alert.state == RESOLVED:
            self.ended, self.alert = self.alert, None


def test_it_fires_after_it_held_for_the_whole_time():
    life = Life(rule())
    assert [life.see(90) for _ in range(6)] == ["PENDING"] * 4 + [FIRING] * 2


def test_what_holds_too_shortly_comes_to_nothing():
    life = Life(rule())
    assert life.see(90, 90, 90, 80) == "INACTIVE"
    assert life.see(90, 90, 90, 90) == "PENDING"


def test_a_rule_without_a_time_fires_at_once():
    assert Life(rule(for_s=0)).see(90) == FIRING


def test_it_ends_when_the_value_was_back_beyond_the_other_threshold_for_the_whole_time():
    life = Life(rule(for_s=0, clear_threshold=82))
    assert life.see(90, 86, 83, 84) == FIRING
    assert life.see(81, 83, 81) == FIRING
    assert life.see(81, 81) == "INACTIVE" and getattr(life.ended, "reason", "") == "cleared"


def test_what_is_not_known_fires_nothing_and_ends_nothing():
    life = Life(rule())
    assert life.see(*[None] * 20) == "INACTIVE"
    assert life.see(90, 90, *[None] * 20) == "PENDING"
    assert life.see(90, 90) == "PENDING"  # the clock stood
    assert life.see(90, 90) == FIRING
    assert life.see(*[None] * 20) == NO_DATA
    assert life.see(90) == FIRING
    assert life.see(None, 80) == FIRING
    assert life.see(80, 80) == "INACTIVE"


def test_a_break_of_the_rounds_counts_for_one_step_only():
    life = Life(rule(for_s=600))
    life.see(90)
    assert life.see(90, step_s=86_400) == "PENDING" and life.alert and life.alert.counted_ms == MOST_STEP_MS


def test_a_metric_that_cannot_be_read_is_not_known_of_any():
    life = Life(rule(for_s=0))
    life.see(90)
    life.take(compare({}, [life.rule], [life.alert], life.at))
    assert life.alert and life.alert.state == NO_DATA


def test_an_alert_ends_with_its_subject_and_with_its_rule():
    life = Life(rule(for_s=0))
    life.see(90)
    life.see(0, missing=True)
    assert getattr(life.ended, "reason", "") == "gone"
    life.see(90)
    life.take(compare({("card", "temperature_c"): {7: Reading("n1:0", 90)}}, [], [life.alert], life.at))
    assert getattr(life.ended, "reason", "") == "rule_off"


def test_a_rule_looks_only_at_its_pool_and_at_work_of_its_size():
    assert Life(rule(for_s=0, pool_id=3), pool=2).see(99) == "INACTIVE"
    assert Life(rule(for_s=0, pool_id=3), pool=3).see(99) == FIRING
    assert Life(rule(for_s=0, least_gpus=4), gpus=3.5).see(99) == "INACTIVE"
    assert Life(rule(for_s=0, least_gpus=4), gpus=4).see(99) == FIRING


@pytest.mark.parametrize(
    ("comparison", "back", "value", "verdict"),
    [
        ("above", None, 87, Verdict.CLEAR),
        ("at_least", None, 87, Verdict.HOLDS),
        ("below", 95, 86, Verdict.HOLDS),
        ("below", 95, 90, Verdict.BETWEEN),
        ("at_most", 95, 95, Verdict.CLEAR),
        ("below", None, None, Verdict.UNKNOWN),
    ],
)
def test_a_value_is_compared(comparison, back, value, verdict):
    assert judge(rule(comparison=comparison, clear_threshold=back), value) == verdict


def test_ten_thousand_subjects_are_judged_within_a_second():
    rules = [rule()]
    readings = {("card", "temperature_c"): {pk: Reading(f"n{pk}:0", pk % 100) for pk in range(10_000)}}
    began = time.perf_counter()
    changes = compare(readings, rules, [], NOW)
    again = compare(readings, rules, changes.begun, NOW + timedelta(seconds=15))
    took = time.perf_counter() - began
    print(f"10,000 subjects twice: {took:.2f} s, {len(changes.begun)} alerts")
    assert len(again.figures) == len(changes.begun) == 1300 and took < 2


PEOPLE = People(frozenset({1}), {5: frozenset({2})})


def alert(pk: int, of: AlertRule, **fields) -> Alert:
    usual = {"subject_id": pk, "label": f"n1:{pk}", "state": FIRING, "owners": [3], "teams": [5], "told": {}}
    return Alert(pk=pk, rule=of, **{**usual, **fields})


def tell(alerts, silences=(), now=NOW) -> dict[str, list[int]]:
    """Who is told of which alerts; they are marked as told."""
    said = choose_messages(alerts, alerts, silences, PEOPLE, now)
    for message in said:
        for one in message.alerts:
            one.told[message.receiver] = now.isoformat()
    return {message.receiver: [one.pk for one in message.alerts] for message in said}


def test_the_audience_hears_of_all_at_once_and_again_after_hours():
    hot = rule()
    alerts = [alert(1, hot), alert(2, hot, owners=[4], teams=[])]
    everybody = {"user:1": [1, 2], "user:2": [1], "user:3": [1], "user:4": [2], "team:5": [1]}
    assert tell(alerts) == everybody
    assert tell(alerts, now=NOW + timedelta(hours=11)) == {}
    assert tell(alerts, now=NOW + timedelta(hours=12)) == everybody


def test_what_comes_within_five_minutes_is_told_together_afterwards():
    hot = rule(audience=["admin"])
    first = alert(1, hot, teams=[])
    assert tell([first]) == {"user:1": [1]}
    alerts = [first, alert(2, hot, teams=[]), alert(3, hot, teams=[])]
    assert tell(alerts, now=NOW + timedelta(minutes=4)) == {}
    assert tell(alerts, now=NOW + timedelta(minutes=5)) == {"user:1": [2, 3]}


@pytest.mark.parametrize(
    ("audience", "told"), [(["owner"], {"user:3"}), (["lead"], {"user:2"}), (["admin"], {"user:1"})]
)
def test_only_the_audience_is_told(audience, told):
    assert set(tell([alert(1, rule(audience=audience), teams=[5] if "lead" in audience else [])])) - {"team:5"} == told


def test_an_acknowledged_alert_is_told_no_more():
    assert tell([alert(1, rule(), acknowledged_at=NOW)]) == {}


def test_a_silence_of_an_admin_is_for_all_and_of_another_for_themselves():
    one = [alert(1, rule(audience=["owner", "admin"], severity="critical"), teams=[])]
    own = Silence(user_id=3, label="n1:*", until=NOW)
    assert set(tell(one, [own])) == {"user:1"}
    assert tell(one, [Silence(user_id=1, for_all=True, severity="critical")], NOW + timedelta(days=1)) == {}
    assert tell(one, [Silence(user_id=1, for_all=True, severity="info")], NOW + timedelta(days=1))


def test_who_was_told_hears_of_the_end():
    ended = alert(1, rule(), told={"user:3": NOW.isoformat()})
    assert [(one.receiver, one.ended) for one in choose_endings([ended, alert(2, rule())])] == [("user:3", True)]


def test_an_action_waits_until_it_was_told_and_keeps_within_its_bounds():
    drain = rule(action="drain_node")
    bounds = Bounds(frozenset(), {node: {1: 8} for node in range(1, 5)}, {1: 200})
    alerts = [alert(pk, drain, node_id=pk, told_at=NOW) for pk in (1, 2, 3)]
    assert choose_actions([alert(9, drain, node_id=9)], bounds) == ([], [])
    assert choose_actions(alerts, bounds) == (alerts[:2], alerts[2:])
    small = Bounds(frozenset(), bounds.cards, {1: 100})
    assert choose_actions(alerts[:2], small) == (alerts[:1], alerts[1:2])  # 16 cards are more than a tenth of 100
    assert choose_actions(alerts[:1], Bounds(frozenset({7, 8}), bounds.cards, {1: 200})) == ([], alerts[:1])


def test_a_mean_and_a_straggler_need_enough_that_is_known():
    assert compute_mean([10.0] * 9 + [None]) == 10 and compute_mean([10.0, None]) is None
    assert compute_straggling([[80.0], [60.0], [80.0]]) == 25
    assert compute_straggling([[80.0], [None], [80.0]]) is None and compute_straggling([[80.0], [10.0]]) is None


def test_the_rules_that_ship_can_be_judged_and_have_names():
    for one in build_shipped_rules():
        assert find_metric(one.subject, one.metric) and str(one) == str(AlertRule.names[one.code])
