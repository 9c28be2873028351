"""What changes in the alerts, by what is known now. Pure: rows come in and go out, and nothing is written.

The clocks of a rule (`for_s`, `clear_for_s`) count only what was watched: a value that is not known, and a break of the
rounds, let them stand. What is not known fires nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from monitoring.models import Alert, AlertRule, AlertState, Audience, Comparison

MOST_STEP_MS = 60_000
"""Between two looks; after a longer break nobody knows what was in between."""


@dataclass(frozen=True)
class Reading:
    """A value of one subject. users, teams: whose work it touches. gpus: cards that it holds."""

    label: str
    value: float | None
    users: frozenset[int] = frozenset()
    teams: frozenset[int] = frozenset()
    pool: int | None = None
    node: int | None = None
    gpus: float = 0.0


Readings = Mapping[tuple[str, str], Mapping[int, Reading]]
"""By the kind of subject and metric, then by the subject's id. A metric that could not be read is not there."""


@dataclass
class Changes:
    """begun: new rows, not saved yet. dropped: held for too short a time. figures: rows whose figures changed. moves:
    into which state which rows go, and why.
    """

    begun: list[Alert] = field(default_factory=list)
    dropped: list[Alert] = field(default_factory=list)
    figures: list[Alert] = field(default_factory=list)
    moves: dict[AlertState, list[tuple[Alert, str]]] = field(default_factory=lambda: defaultdict(list))


class Verdict(Enum):
    """BETWEEN: the threshold is not met, and the value is not back yet."""

    HOLDS = auto()
    BETWEEN = auto()
    CLEAR = auto()
    UNKNOWN = auto()


def compare(readings: Readings, rules: Iterable[AlertRule], alerts: Iterable[Alert], now: datetime) -> Changes:
    """Return what changes. alerts: the open ones, of any rule."""
    changes = Changes()
    of_rule: dict[int, dict[int, Alert]] = defaultdict(dict)
    for alert in alerts:
        of_rule[alert.rule_id][alert.subject_id] = alert
    for rule in rules:
        stand = of_rule.pop(rule.pk, {})
        found = readings.get((rule.subject, rule.metric))
        if found is None:
            _mark_unknown(stand.values(), now, changes)
        else:
            _judge_rule(rule, found, stand, now, changes)
    for rest in of_rule.values():
        _end(rest.values(), "rule_off", changes)
    return changes


def judge(rule: AlertRule, value: float | None) -> Verdict:
    if value is None:
        return Verdict.UNKNOWN
    comparison = Comparison(rule.comparison)
    if comparison.holds(value, rule.threshold):
        return Verdict.HOLDS
    if rule.clear_threshold is None:
        return Verdict.CLEAR
    is_back = value <= rule.clear_threshold if comparison.rises else value >= rule.clear_threshold
    return Verdict.CLEAR if is_back else Verdict.BETWEEN


def count_subjects(readings: Readings, rules: Iterable[AlertRule]) -> dict[str, tuple[int, int]]:
    """Return of each rule how many subjects it has, and of how many the value is not known."""
    counts = {}
    for rule in rules:
        found = readings.get((rule.subject, rule.metric), {}).values()
        values = [reading.value for reading in found if _is_in_scope(rule, reading)]
        counts[str(rule.pk)] = len(values), sum(value is None for value in values)
    return counts


def _judge_rule(
    rule: AlertRule, found: Mapping[int, Reading], stand: dict[int, Alert], now: datetime, changes: Changes
) -> None:
    for subject, reading in found.items():
        if not _is_in_scope(rule, reading):
            continue
        alert, verdict = stand.pop(subject, None), judge(rule, reading.value)
        if alert is not None:
            _judge_open(rule, alert, reading, verdict, now, changes)
        elif verdict == Verdict.HOLDS:
            _begin(rule, subject, reading, now, changes)
    _end(stand.values(), "gone", changes)


def _begin(rule: AlertRule, subject: int, reading: Reading, now: datetime, changes: Changes) -> None:
    alert = Alert(rule=rule, subject_id=subject, since=now)
    _take_figures(alert, reading, now)
    changes.begun.append(alert)
    if rule.for_s == 0:
        changes.moves[AlertState.FIRING].append((alert, ""))


def _judge_open(
    rule: AlertRule, alert: Alert, reading: Reading, verdict: Verdict, now: datetime, changes: Changes
) -> None:
    step_ms = min(max(round((now - alert.judged_at).total_seconds() * 1000), 0), MOST_STEP_MS)
    if alert.state == AlertState.PENDING and verdict in (Verdict.CLEAR, Verdict.BETWEEN):
        changes.dropped.append(alert)
        return
    _take_figures(alert, reading, now)
    changes.figures.append(alert)
    if alert.state == AlertState.PENDING:
        _judge_pending(rule, alert, verdict, step_ms, changes)
    elif verdict == Verdict.UNKNOWN:
        if alert.state == AlertState.FIRING:
            changes.moves[AlertState.NO_DATA].append((alert, ""))
    else:
        _judge_firing(rule, alert, verdict, step_ms, changes)


def _judge_pending(rule: AlertRule, alert: Alert, verdict: Verdict, step_ms: int, changes: Changes) -> None:
    if verdict == Verdict.HOLDS:
        alert.counted_ms += step_ms
        if alert.counted_ms >= 1000 * rule.for_s:
            alert.counted_ms = 0
            changes.moves[AlertState.FIRING].append((alert, ""))


def _judge_firing(rule: AlertRule, alert: Alert, verdict: Verdict, step_ms: int, changes: Changes) -> None:
    was_known = alert.state == AlertState.FIRING
    alert.counted_ms = alert.counted_ms + step_ms * was_known if verdict == Verdict.CLEAR else 0
    if verdict == Verdict.CLEAR and alert.counted_ms >= 1000 * rule.clear_for_s:
        changes.moves[AlertState.RESOLVED].append((alert, "cleared"))
    elif not was_known:
        changes.moves[AlertState.FIRING].append((alert, ""))


def _mark_unknown(alerts: Iterable[Alert], now: datetime, changes: Changes) -> None:
    for alert in alerts:
        alert.judged_at, alert.value = now, None
        changes.figures.append(alert)
        if alert.state == AlertState.FIRING:
            changes.moves[AlertState.NO_DATA].append((alert, ""))


def _end(alerts: Iterable[Alert], why: str, changes: Changes) -> None:
    for alert in alerts:
        if alert.state == AlertState.PENDING:
            changes.dropped.append(alert)
        else:
            changes.moves[AlertState.RESOLVED].append((alert, why))


def _take_figures(alert: Alert, reading: Reading, now: datetime) -> None:
    """Whom it touches is remembered: who was told of it may also learn that it ended."""
    alert.label, alert.value, alert.judged_at = reading.label[:120], reading.value, now
    alert.node_id = reading.node
    touches = set(alert.rule.audience) & {Audience.OWNER, Audience.LEAD}
    if Audience.OWNER in alert.rule.audience:
        alert.owners = _merge(alert.owners, reading.users)
    if touches:
        alert.teams = _merge(alert.teams, reading.teams)


def _merge(known: Sequence[int], more: Iterable[int]) -> list[int]:
    return sorted({*known, *more})


def _is_in_scope(rule: AlertRule, reading: Reading) -> bool:
    if rule.pool_id is not None and reading.pool != rule.pool_id:
        return False
    return rule.least_gpus is None or reading.gpus >= rule.least_gpus
