"""Lines of charts: what a job, cards, a pool, a team or a service did over a time, in the units that people read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

import numpy as np
from django.utils import timezone

from cluster.models import Gpu, Node
from jobs.models import Job, Task
from monitoring.engine.figures import KINDS
from monitoring.engine.reading import Older, add_older
from monitoring.series.frames import Frame, load_frame
from monitoring.series.grid import Array
from monitoring.series.keys import COLUMNS, Key, Kind
from monitoring.series.metrics import METRICS, Metric
from monitoring.series.share_activity import Percents, load_percents, scale_to_percents
from monitoring.series.tiers import FINE

MOST_SLOTS, MOST_VALUES = 2000, 200_000
"""Of one line, and of a chart."""
MOST_GAPS = 50
SHORTEST_GAP = timedelta(seconds=30)


@dataclass(frozen=True)
class Subject:
    """What lines are drawn of. key: for people, unlike `of`. limits: by metric. percents: of a share, its part of the
    card's compute since when, oldest first: how busy it is counts of that.
    """

    of: Key
    key: str
    name: str
    limits: dict[str, float] = field(default_factory=dict)
    percents: Percents = ()


@dataclass(frozen=True)
class Line:
    """values: mean of each slot, NaN where nothing is known."""

    key: str
    name: str
    metric: str
    unit: str
    source: str
    limit: float | None
    values: Array


@dataclass(frozen=True)
class Gap:
    """Nothing was sampled of a task of a job, although it ran. node: its machine."""

    start: datetime
    end: datetime
    task: str
    node: str


@dataclass(frozen=True)
class Chart:
    start: datetime
    end: datetime
    step_s: int
    lines: list[Line]
    gaps: list[Gap] = field(default_factory=list)
    older: Older | None = None


@dataclass(frozen=True)
class Ask:
    """What is asked for. step_s: may come out larger. metrics: all if empty."""

    start: datetime
    end: datetime
    step_s: int = FINE.step_s
    metrics: frozenset[str] = frozenset()


def chart_job(job: Job, ask: Ask) -> Chart:
    """Return a line of each task and card of a job, the newest attempt first, with gaps."""
    tasks = _list_tasks(job, ask)
    gpus = {gpu.uuid: gpu for gpu in Gpu.objects.filter(uuid__in={card["uuid"] for t in tasks for card in t.cards})}
    percents = load_percents(tasks)
    subjects = [subject for task in tasks for subject in _list_subjects(task, gpus, percents)]
    frame, lines, _ = _draw(subjects, ask)
    return Chart(frame.start, ask.end, frame.step_s, lines, _list_gaps(tasks, frame))


def chart_cards(gpus: Iterable[Gpu], ask: Ask) -> Chart:
    return _chart([_describe_card(gpu) for gpu in gpus], ask)


def chart_node(node: Node, gpus: Iterable[Gpu], ask: Ask) -> Chart:
    """Return what a machine used of itself, and each of its cards."""
    limits = {"cpu_cores": node.cpu_milli / 1000, "memory_mib": float(node.memory_mib), "disk_used_percent": 100.0}
    machine = Subject(Key(Kind.NODE, node.pk), f"node:{node.name}", node.name, limits=limits)
    return _chart([machine, *map(_describe_card, gpus)], ask)


def chart_pool(pool_id: int, name: str, ask: Ask) -> Chart:
    return _chart([Subject(Key(Kind.POOL, pool_id), f"pool:{name}", name)], ask)


def chart_team(team_id: int, name: str, ask: Ask) -> Chart:
    return _chart([Subject(Key(Kind.TEAM, team_id), f"team:{name}", name)], ask)


def chart_service(service_id: int, name: str, ask: Ask) -> Chart:
    return _chart([Subject(Key(Kind.SERVICE, service_id), f"service:{name}", name)], ask)


def list_job_span(job: Job) -> tuple[datetime, datetime]:
    """Return from when to when a job ran, until now if it still does; the last hour of one that never ran."""
    now = timezone.now()
    tasks = list(job.tasks.exclude(started_at=None))
    if not tasks:
        return now - timedelta(hours=1), now
    end = max(task.ended_at or now for task in tasks)
    return min(*(task.started_at or end for task in tasks), end - SHORTEST_GAP), end


def _list_tasks(job: Job, ask: Ask) -> list[Task]:
    tasks = job.tasks.exclude(started_at=None).filter(started_at__lt=ask.end).select_related("node")
    found = [task for task in tasks if task.ended_at is None or task.ended_at > ask.start]
    return sorted(found, key=lambda task: (-task.attempt, task.role, task.rank))


def _list_subjects(task: Task, gpus: dict[str, Gpu], percents: dict[Key, Percents]) -> list[Subject]:
    """Return a task and its cards."""
    name = task.name if task.attempt == task.job.attempt else f"{task.name} ({task.attempt})"
    limits = {"cpu_cores": task.cpu_milli / 1000, "memory_mib": float(task.memory_mib)}
    found = [Subject(Key(Kind.TASK, task.pk), f"task:{task.uuid.hex}", name, limits=limits)]
    for card in task.cards:
        if (gpu := gpus.get(card["uuid"])) is not None:
            key = Key(Kind.SHARE, task.pk, gpu.pk)
            found.append(
                Subject(
                    key,
                    f"share:{task.uuid.hex}:{gpu.uuid}",
                    f"{name} · GPU {card['index']}",
                    {"gpu_memory_mib": float(card["memory_mib"]), "gpu_busy_percent": 100.0},
                    percents.get(key, ()),
                )
            )
    return found


def _describe_card(gpu: Gpu) -> Subject:
    limits = {"gpu_memory_mib": float(gpu.memory_mib)}
    return Subject(Key(Kind.CARD, gpu.pk), f"card:{gpu.uuid}", str(gpu), limits=limits)


def _chart(subjects: list[Subject], ask: Ask) -> Chart:
    frame, lines, older = _draw(subjects, ask)
    return Chart(frame.start, ask.end, frame.step_s, lines, older=older)


def _draw(subjects: list[Subject], ask: Ask) -> tuple[Frame, list[Line], Older | None]:
    wanted = [
        (subject, metric)
        for subject in subjects
        for metric in METRICS[subject.of.kind]
        if not ask.metrics or metric.name in ask.metrics
    ]
    seconds = (ask.end - ask.start).total_seconds()
    least_s = max(seconds / MOST_SLOTS, seconds * len(wanted) / MOST_VALUES)
    keys = list(dict.fromkeys(subject.of for subject, _ in wanted))
    frame = load_frame(keys, ask.start, ask.end, max(ask.step_s, ceil(least_s)))
    names = {subject.of: subject.key.partition(":")[2] for subject in subjects if subject.of.kind in KINDS}
    frame, older = add_older(frame, names, {metric.column for _, metric in wanted})
    drawn = [(metric, _draw_line(subject, metric, frame)) for subject, metric in wanted if subject.of in frame.values]
    lines = [line for metric, line in drawn if not (metric.optional and np.isnan(line.values).all())]
    return frame, lines, older


def _draw_line(subject: Subject, metric: Metric, frame: Frame) -> Line:
    row = frame.values[subject.of][COLUMNS[subject.of.kind].index(metric.column)]
    values = row * metric.scale
    if metric.unit == "%":
        values = scale_to_percents(values, subject.percents, frame.start, frame.step_s)
    limit = subject.limits.get(metric.name)
    return Line(subject.key, subject.name, metric.name, metric.unit, frame.sources[subject.of], limit, values)


def _list_gaps(tasks: list[Task], frame: Frame) -> list[Gap]:
    """Return when nothing at all was sampled of a running task, the earliest first."""
    gaps, step, seen_until = [], timedelta(seconds=frame.step_s), timezone.now() - SHORTEST_GAP
    for task in tasks:
        began, ended = (task.started_at or seen_until) + SHORTEST_GAP, min(task.ended_at or seen_until, seen_until)
        known = np.zeros(frame.slots, bool)
        for key, values in frame.values.items():
            if key.kind in (Kind.TASK, Kind.SHARE) and key.subject == task.pk:
                known |= ~np.isnan(values).all(axis=0)
        first = max(ceil((began - frame.start) / step), 0)
        last = min((ended - frame.start) // step, frame.slots)
        for begin, end in _find_runs(~known[first:last]):
            start, stop = frame.start + (first + begin) * step, frame.start + (first + end) * step
            if stop - start >= SHORTEST_GAP:
                gaps.append(Gap(start, stop, task.name, task.node.name if task.node else ""))
    return sorted(gaps, key=lambda gap: gap.start)[:MOST_GAPS]


def _find_runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return (begin, end) of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
