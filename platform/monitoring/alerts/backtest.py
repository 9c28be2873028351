"""How often a rule would have fired, by the series that are kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

import numpy as np
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from accounts.models import Team
from cluster.models import Gpu, Pool
from common.errors import FieldError, InvalidInput
from jobs.models import Task
from monitoring.alerts.catalogue import METRICS, find_metric
from monitoring.alerts.evaluation import Verdict
from monitoring.alerts.messages import list_receivers
from monitoring.alerts.round import load_people
from monitoring.models import Alert, AlertRule, Audience, Comparison, Subject
from monitoring.series.frames import Frame, load_frame
from monitoring.series.grid import Array
from monitoring.series.keys import COLUMNS, Key, Kind
from quotas.models import Holding

STEP_S = 60
AT_ONCE = 100
"""Series of one question."""
MOST_SUBJECTS, MOST_SHOWN = 2000, 20
UNKNOWN, HOLDS, BETWEEN, CLEAR = range(4)
OF_VERDICT = {Verdict.HOLDS: HOLDS, Verdict.BETWEEN: BETWEEN, Verdict.CLEAR: CLEAR, Verdict.UNKNOWN: UNKNOWN}


@dataclass(frozen=True)
class Firing:
    """end: None while it goes on at the end of the time."""

    label: str
    start: datetime
    end: datetime | None


@dataclass(frozen=True)
class Backtest:
    """subjects: of which something is known; left_out: more than can be looked through. known: part of their time."""

    start: datetime
    end: datetime
    step_s: int
    fired: int
    people: int
    subjects: int
    left_out: int
    known: float
    firings: list[Firing] = field(default_factory=list)


@dataclass(frozen=True)
class Track:
    """A subject's series. parts: the keys of which it is the mean, each with what its values are to be divided by."""

    label: str
    subject: int
    parts: tuple[tuple[Key, float], ...]
    owners: frozenset[int] = frozenset()
    teams: frozenset[int] = frozenset()


def backtest_rule(rule: AlertRule, days: int) -> Backtest:
    """Return how often the rule would have fired in the last days. Raises InvalidInput where nothing of it is kept."""
    _check(rule, days)
    end = timezone.now()
    start = end - timedelta(days=days)
    tracks = _list_tracks(rule, start)
    looked = tracks[:MOST_SUBJECTS]
    firings: list[tuple[Track, Firing]] = []
    known, slots, seen, step_s = 0, 0, 0, STEP_S
    for begin in range(0, len(looked), AT_ONCE):
        some = looked[begin : begin + AT_ONCE]
        frame = load_frame([key for track in some for key, _ in track.parts], start, end, STEP_S)
        step_s = frame.step_s
        for track in some:
            values = _read_values(track, rule, frame)
            if values is not None:
                seen, known, slots = seen + 1, known + int((~np.isnan(values)).sum()), slots + len(values)
                firings += [(track, one) for one in _name(track, find_firings(rule, values, step_s), frame)]
    return Backtest(
        start,
        end,
        step_s,
        len(firings),
        _count_people(rule, firings),
        seen,
        len(tracks) - len(looked),
        known / slots if slots else 0.0,
        [one for _, one in sorted(firings, key=lambda pair: pair[1].start, reverse=True)[:MOST_SHOWN]],
    )


def find_firings(rule: AlertRule, values: Array, step_s: int) -> list[tuple[int, int | None]]:
    """Return from which slot until which the rule would have fired. Pure: its clocks over runs of one verdict."""
    codes = _judge_all(rule, values)
    edges = np.flatnonzero(np.diff(codes)) + 1
    found: list[tuple[int, int | None]] = []
    begin, counted, is_firing = 0, 0, False
    for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(codes)], strict=True):
        code = int(codes[first]) if len(codes) else UNKNOWN
        if code == UNKNOWN:
            continue
        wanted, limit_s = (CLEAR, rule.clear_for_s) if is_firing else (HOLDS, rule.for_s)
        if code != wanted:
            counted = 0
            continue
        needed = max(ceil(limit_s / step_s) - counted, 0)
        if last - first < needed or (last - first == 0):
            counted += last - first
            continue
        at, counted = first + needed, 0
        if is_firing:
            found.append((begin, at))
        begin, is_firing = at, not is_firing
    return [*found, (begin, None)] if is_firing else found


def _judge_all(rule: AlertRule, values: Array) -> np.ndarray:
    comparison = Comparison(rule.comparison)
    compare = {
        Comparison.ABOVE: np.greater,
        Comparison.AT_LEAST: np.greater_equal,
        Comparison.BELOW: np.less,
        Comparison.AT_MOST: np.less_equal,
    }[comparison]
    with np.errstate(invalid="ignore"):
        holds = compare(values, rule.threshold)
        back = ~holds
        if rule.clear_threshold is not None:
            is_back = np.less_equal if comparison.rises else np.greater_equal
            back &= is_back(values, rule.clear_threshold)
    codes = np.where(holds, HOLDS, np.where(back, CLEAR, BETWEEN))
    return np.where(np.isnan(values), UNKNOWN, codes).astype(np.int8)


def _check(rule: AlertRule, days: int) -> None:
    most = settings.TESSERA_KEEP_MINUTES_D
    if days > most:
        raise InvalidInput([FieldError("/days", "window_not_kept", {"most_days": most})])
    if not _has_history(rule):
        named = [f"{subject.value}.{name}" for subject, names in METRICS.items() for name in names]
        known = ", ".join(name for name in named if _is_kept(*name.split(".")))
        raise InvalidInput([FieldError("/metric", "metric_has_no_history", {"known": known})])


def _has_history(rule: AlertRule) -> bool:
    return _is_kept(rule.subject, rule.metric)


def _is_kept(subject: str, metric: str) -> bool:
    found = find_metric(subject, metric)
    return found is not None and (found.series is not None or (subject, metric) == (Subject.JOB, "gpu_busy_percent"))


def _list_tracks(rule: AlertRule, start: datetime) -> list[Track]:
    if rule.subject == Subject.CARD:
        return _list_cards(rule)
    if rule.subject == Subject.JOB:
        return _list_jobs(rule, start)
    if rule.subject == Subject.POOL:
        pools = Pool.objects.filter(pk=rule.pool_id) if rule.pool_id else Pool.objects.all()
        return [Track(pool.name, pool.pk, ((Key(Kind.POOL, pool.pk), _scale(rule)),)) for pool in pools]
    teams = Team.objects.all()
    return [
        Track(team.name, team.pk, ((Key(Kind.TEAM, team.pk), _scale(rule)),), teams=frozenset({team.pk}))
        for team in teams
    ]


def _list_cards(rule: AlertRule) -> list[Track]:
    cards = Gpu.objects.present().select_related("node")
    if rule.pool_id:
        cards = cards.filter(pool=rule.pool_id)
    by_memory, scale = rule.metric == "gpu_memory_percent", _scale(rule)
    return [
        Track(str(gpu), gpu.pk, ((Key(Kind.CARD, gpu.pk), gpu.memory_mib / 100 or 1 if by_memory else scale),))
        for gpu in cards
    ]


def _list_jobs(rule: AlertRule, start: datetime) -> list[Track]:
    """Return the jobs that ran, each as the mean of its shares."""
    ran = Task.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=start), started_at__isnull=False)
    if rule.pool_id:
        ran = ran.filter(job__pool=rule.pool_id)
    tasks = {task.uuid: task for task in ran.select_related("job").order_by("-job", "pk")[: 4 * MOST_SUBJECTS]}
    parts: dict[int, list[tuple[Key, float]]] = {}
    gpus: dict[int, int] = {}
    held = Holding.objects.filter(task__in=tasks, gpu__isnull=False)
    for uuid, gpu, compute, milli in held.values_list("task", "gpu", "gpu_compute_percent", "gpu_milli"):
        task = tasks[uuid]
        parts.setdefault(task.job_id, []).append((Key(Kind.SHARE, task.pk, gpu), float(compute or 100)))
        gpus[task.job_id] = gpus.get(task.job_id, 0) + milli
    jobs = {task.job_id: task.job for task in tasks.values()}
    return [
        Track(job.public_id, pk, tuple(parts[pk]), frozenset({job.user_id}), frozenset({job.team_id}))
        for pk, job in jobs.items()
        if pk in parts and gpus[pk] >= 1000 * (rule.least_gpus or 0)
    ]


def _scale(rule: AlertRule) -> float:
    metric = find_metric(rule.subject, rule.metric)
    return metric.series[2] if metric and metric.series else 1.0


def _read_values(track: Track, rule: AlertRule, frame: Frame) -> Array | None:
    """Return a subject's values, the mean over its parts; None if nothing is known of it."""
    rows = []
    metric = find_metric(rule.subject, rule.metric)
    column = metric.series[1] if metric and metric.series else "busy_centi"
    for key, scale in track.parts:
        if key in frame.values:
            rows.append(frame.values[key][COLUMNS[key.kind].index(column)] / scale)
    if not rows:
        return None
    stacked = np.vstack(rows)
    known = (~np.isnan(stacked)).sum(axis=0)
    means = np.full(stacked.shape[1], np.nan)
    np.divide(np.nansum(stacked, axis=0), known, out=means, where=known > 0)
    return means


def _name(track: Track, firings: Iterable[tuple[int, int | None]], frame: Frame) -> list[Firing]:
    step = timedelta(seconds=frame.step_s)
    return [
        Firing(track.label, frame.start + first * step, None if last is None else frame.start + last * step)
        for first, last in firings
    ]


def _count_people(rule: AlertRule, firings: Sequence[tuple[Track, Firing]]) -> int:
    """Count the people who would have been told."""
    if not firings:
        return 0
    people, told = load_people(), set()
    for track, firing in firings:
        owners, teams = (track.owners, track.teams) if rule.subject != Subject.CARD else _find_holders(track, firing)
        alert = Alert(rule=rule, owners=sorted(owners), teams=sorted(teams) if Audience.LEAD in rule.audience else [])
        told |= list_receivers(alert, people)
    return sum(receiver.startswith("user:") for receiver in told)


def _find_holders(track: Track, firing: Firing) -> tuple[frozenset[int], frozenset[int]]:
    """Return whose work was on the card when it fired."""
    at = firing.start
    rows = Holding.objects.filter(gpu=track.subject, held_from__lte=firing.end or timezone.now())
    rows = rows.filter(Q(released_at__isnull=True) | Q(released_at__gt=at))
    found = list(rows.values_list("user", "team"))
    return frozenset(user for user, _ in found), frozenset(team for _, team in found)
