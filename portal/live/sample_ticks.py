"""The newest samples of jobs and cards as messages for charts, under the names of the API's metrics.

{"of": "job-412", "at": iso, "values": {"share:TASK:GPU-…": {"gpu_busy_percent": 63.1}, "task:TASK": {…}}}
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from django.utils import timezone

from accounts.models import User
from cluster.models import Gpu, Node
from jobs.models import Job, Task
from monitoring.models import CardNow, NodeNow, TaskNow
from monitoring.samples.growth import scale_to_share
from monitoring.samples.history import tell_card
from monitoring.samples.newest import KNOWN_FOR
from monitoring.series.keys import Kind
from monitoring.series.metrics import METRICS, Metric

JOB = re.compile(r"job-([1-9][0-9]{0,17})")
CARD = re.compile(r"gpu-(.{1,100})")
MACHINE = re.compile(r"node-(.{1,63})")
TASK_FIELDS = (
    *("at", "cpu_milli", "memory_mib", "read_kib_s", "write_kib_s", "net_rx_kib_s", "net_tx_kib_s", "shares"),
    *("task__uuid", "task__job_id", "task__cards"),
)
Values = dict[str, float | None]


@dataclass(frozen=True)
class Subject:
    """What charts are of: a job, a card, or a machine with all its cards.

    name: as the page calls it: job-412, gpu-UUID, node-NAME. pk: of the job, card or node.
    """

    name: str
    kind: Literal["job", "card", "node"]
    pk: int


@dataclass(frozen=True)
class Tick:
    """What was sampled of a subject in one second, by series and metric."""

    subject: Subject
    at: datetime
    values: dict[str, Values] = field(default_factory=dict)

    def as_json(self) -> dict:
        return {"of": self.subject.name, "at": self.at.isoformat(), "values": self.values}


def find_subjects(user: User, names: Collection[str]) -> dict[str, Subject]:
    """Return those that the user may see: jobs as their logs, cards and machines always."""
    jobs = {int(match[1]): name for name in names if (match := JOB.fullmatch(name))}
    cards = {match[1]: name for name in names if (match := CARD.fullmatch(name))}
    seen = Job.objects.visible_to(user).filter(pk__in=jobs).values_list("pk", flat=True) if jobs else ()
    known = Gpu.objects.present().filter(uuid__in=cards).values_list("pk", "uuid") if cards else ()
    nodes = {match[1]: name for name in names if (match := MACHINE.fullmatch(name))}
    there = Node.objects.present().filter(name__in=nodes).values_list("pk", "name") if nodes else ()
    found = [Subject(jobs[pk], "job", pk) for pk in seen]
    found += [Subject(cards[uuid], "card", pk) for pk, uuid in known]
    found += [Subject(nodes[name], "node", pk) for pk, name in there]
    return {subject.name: subject for subject in found}


def list_machines(subjects: Collection[Subject]) -> set[str]:
    """Return the names of the machines that are watched, or on which watched jobs and cards are."""
    jobs, cards, nodes = ([one.pk for one in subjects if one.kind == kind] for kind in ("job", "card", "node"))
    tasks = Task.objects.holding().filter(job__in=jobs, node__isnull=False).values_list("node__name", flat=True)
    of_cards = Gpu.objects.filter(pk__in=cards).values_list("node__name", flat=True)
    return {*tasks, *of_cards, *Node.objects.filter(pk__in=nodes).values_list("name", flat=True)}


def load_ticks(subjects: Collection[Subject]) -> list[Tick]:
    """Return the newest samples of all subjects, in one query for the jobs, one for the cards, two for the machines."""
    nodes = {subject.pk: subject for subject in subjects if subject.kind == "node"}
    jobs = {subject.pk: subject for subject in subjects if subject.kind == "job"}
    cards = {subject.pk: subject for subject in subjects if subject.kind == "card"}
    ticks = [_read_card(cards[row.gpu_id], row) for row in _load_cards(cards)] if cards else []
    seconds: dict[tuple[int, datetime], list[TaskNow]] = defaultdict(list)
    for row in _load_tasks(jobs) if jobs else ():
        seconds[row.task.job_id, row.at.replace(microsecond=0)].append(row)
    ticks += _load_machines(nodes) if nodes else []
    return ticks + [_read_tasks(jobs[job_id], rows) for (job_id, _), rows in seconds.items()]


def read_task(row: TaskNow) -> dict[str, Values]:
    """Return a task's values, and those of its shares of cards."""
    task = row.task
    shares = {card["uuid"]: card.get("compute_percent", 0) for card in task.cards}
    told: dict[str, Values] = {
        f"task:{task.uuid.hex}": {
            "cpu_cores": None if row.cpu_milli is None else row.cpu_milli / 1000,
            "memory_mib": row.memory_mib,
            "read_kib_s": row.read_kib_s,
            "write_kib_s": row.write_kib_s,
            "net_rx_kib_s": row.net_rx_kib_s,
            "net_tx_kib_s": row.net_tx_kib_s,
        }
    }
    for share in row.shares:
        busy = share.get("busy_percent")
        told[f"share:{task.uuid.hex}:{share['uuid']}"] = {
            "gpu_busy_percent": None if busy is None else round(scale_to_share(busy, shares.get(share["uuid"], 0)), 2),
            "gpu_memory_mib": share.get("used_mib"),
        }
    return told


def _read_tasks(subject: Subject, rows: list[TaskNow]) -> Tick:
    return Tick(
        subject, max(row.at for row in rows), {key: told for row in rows for key, told in read_task(row).items()}
    )


def _read_card(subject: Subject, row: CardNow) -> Tick:
    told = tell_card(row)
    known = {metric: told[metric.column] for metric in METRICS[Kind.CARD] if _is_told(metric, told)}
    return Tick(subject, row.at, {f"card:{row.gpu.uuid}": _scale(known)})


def _is_told(metric: Metric, told: Mapping[str, int | None]) -> bool:
    return not metric.optional or told[metric.column] is not None


def _scale(known: Mapping[Metric, float | None]) -> Values:
    return {metric.name: None if value is None else round(value * metric.scale, 4) for metric, value in known.items()}


def _load_machines(nodes: Mapping[int, Subject]) -> list[Tick]:
    """Return what was last sampled of each machine and its cards, which one tick of its sampler tells together."""
    fresh = timezone.now() - KNOWN_FOR
    ticks = {
        row.node_id: Tick(nodes[row.node_id], row.at, {f"node:{row.node.name}": _read_machine(row.use)})
        for row in NodeNow.objects.filter(node__in=nodes, at__gt=fresh).select_related("node")
        if row.at is not None
    }
    for card in CardNow.objects.filter(gpu__node__in=nodes, at__gt=fresh).select_related("gpu"):
        tick = ticks.setdefault(card.gpu.node_id, Tick(nodes[card.gpu.node_id], card.at))
        tick.values.update(_read_card(tick.subject, card).values)
    return list(ticks.values())


def _read_machine(use: dict) -> Values:
    return _scale({metric: use.get(metric.column) for metric in METRICS[Kind.NODE]})


def _load_tasks(job_ids: Collection[int]) -> list[TaskNow]:
    rows = TaskNow.objects.filter(task__job__in=list(job_ids), at__gt=timezone.now() - KNOWN_FOR)
    return list(rows.select_related("task").only(*TASK_FIELDS))


def _load_cards(gpu_ids: Collection[int]) -> list[CardNow]:
    rows = CardNow.objects.filter(gpu__in=list(gpu_ids), at__gt=timezone.now() - KNOWN_FOR)
    return list(rows.select_related("gpu"))
