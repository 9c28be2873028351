"""Take the ticks of one machine, and keep the values of its cards and tasks.

Nothing waits for this, and nothing is decided by it: if it fails, jobs queue, start and end as before.
"""

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from cluster.models import Gpu, Node
from jobs.models import Task
from metrics.process import SAMPLES_REFUSED, SAMPLES_TAKEN
from monitoring.checks import store_checks
from monitoring.models import CardNow, NodeNow, Sample, TaskNow
from monitoring.samples.card_counters import COUNTERS, build_counted
from monitoring.samples.growth import mean_per_s, mean_percent
from monitoring.samples.history import sample_card, sample_shares, sample_task
from monitoring.samples.machine import move_machine
from monitoring.samples.wire import Body, Sampled, TaskSampled, Tick, read_body
from monitoring.series.store import keep_samples
from monitoring.upsert import upsert
from monitoring.usage.moving import move_uses

log = logging.getLogger("tessera.samples")

TASK_RATES = {
    "cpu_milli": "cpu_ms",
    "read_kib_s": "read_kib",
    "write_kib_s": "write_kib",
    "net_rx_kib_s": "net_rx_kib",
    "net_tx_kib_s": "net_tx_kib",
}
"""How fast a task's totals grow in a second."""
LEAST_SPAN_MS = 500
"""When counters were read is told in rounded milliseconds: the same reading may come out a little later."""
TASK_UNUSED = [field.name for field in Task._meta.fields if field.name not in ("id", "uuid", "cards")]
GPU_UNUSED = [field.name for field in Gpu._meta.fields if field.name not in ("id", "uuid")]


@dataclass(frozen=True)
class Taken:
    """taken: ticks that were new. next: the seq that is awaited. refused: what was dropped, by what is wrong."""

    taken: int
    next: int
    refused: Counter[str]


def take_samples(node: Node, sent: object) -> Taken:
    """Take a body of ticks (see wire). Repeats by run and seq change nothing. Only a machine's own cards and tasks
    count.
    """
    body = read_body(sent)
    with transaction.atomic():
        now = _lock(node)
        ticks = _choose_new(now, body)
        if ticks:
            _begin_run(now, body.run, ticks)
            cards = Gpu.objects.present().filter(node=node).select_related("now").defer(*GPU_UNUSED)
            gpus = {gpu.uuid: gpu for gpu in cards}
            samples = _store_cards(gpus, now.term, ticks, body.refused)
            samples += move_machine(now, ticks)
            upsert([now], "node_id")
            samples += _store_tasks(node, gpus, now.term, ticks, body.refused)
            keep_samples(samples)
            move_uses(node, now.run, ticks)
    if body.checks is not None and body.run == now.run:
        store_checks(node, body.checks)
    SAMPLES_TAKEN.inc(len(ticks))
    for why, count in body.refused.items():
        SAMPLES_REFUSED.labels(why).inc(count)
    if body.refused:
        log.warning("samples of %s: dropped %s", node.name, dict(body.refused))
    return Taken(len(ticks), now.seq + 1, body.refused)


def _lock(node: Node) -> NodeNow:
    while (now := NodeNow.objects.select_for_update().filter(node=node).first()) is None:
        NodeNow.objects.bulk_create([NodeNow(node=node)], ignore_conflicts=True)
    return now


def _choose_new(now: NodeNow, body: Body) -> list[Tick]:
    """Return the ticks that were not taken yet, each once, oldest first."""
    if not body.run or (body.run == now.run_before and body.run != now.run):
        return []
    known = now.seq if body.run == now.run else -1
    return list({tick.seq: tick for tick in reversed(body.ticks) if tick.seq > known}.values())[::-1]


def _begin_run(now: NodeNow, run: str, ticks: list[Tick]) -> None:
    if run != now.run:
        now.run, now.run_before, now.term, now.up_ms = run, now.run, now.term + 1, None
    now.seq = ticks[-1].seq


def _store_cards(gpus: dict[str, Gpu], term: int, ticks: list[Tick], refused: Counter[str]) -> list[Sample]:
    """Move the cards on to their newest values; return what to keep of each tick."""
    named = {uuid for tick in ticks for uuid in tick.cards}
    refused.update({"card of another machine": len(named - gpus.keys())} if named - gpus.keys() else {})
    known = [gpus[uuid] for uuid in named & gpus.keys()]
    rows = {gpu.pk: gpu.now for gpu in known if hasattr(gpu, "now")}
    samples = []
    for tick in ticks:
        at = _when(tick.age_ms)
        for uuid, sampled in tick.cards.items():
            if (gpu := gpus.get(uuid)) is not None:
                before = rows.get(gpu.pk)
                rows[gpu.pk] = _next_card(gpu, before, sampled, tick, term, at)
                samples.append(sample_card(before, rows[gpu.pk]))
    upsert(rows.values(), "gpu_id")
    return samples


def _next_card(gpu: Gpu, before: CardNow | None, sampled: Sampled, tick: Tick, term: int, at: datetime) -> CardNow:
    before = before if before is not None and before.term == term else None
    values = {name: value for name, value in sampled.values.items() if name not in COUNTERS}
    row = CardNow(gpu=gpu, at=at, term=term, up_ms=tick.up_ms, source=sampled.source, **values)
    span_ms = 0 if before is None else tick.up_ms - before.up_ms
    row.counted = build_counted(before.counted if before else None, sampled.values, span_ms)
    if before is not None:
        row.busy_percent = mean_percent(before.busy_ms, row.busy_ms, span_ms)
    return row


def _store_tasks(node: Node, gpus: dict[str, Gpu], term: int, ticks: list[Tick], refused: Counter[str]) -> list[Sample]:
    """Move the tasks on to their newest values; return what to keep of each tick."""
    named = {uuid for tick in ticks for uuid in tick.tasks}
    found = Task.objects.filter(node=node, uuid__in=named).select_related("now").defer(*TASK_UNUSED)
    tasks = {task.uuid: task for task in found}
    refused.update({"task of another machine": len(named - tasks.keys())} if named - tasks.keys() else {})
    rows = {task.pk: task.now for task in tasks.values() if hasattr(task, "now")}
    gpu_ids = {uuid: gpu.pk for uuid, gpu in gpus.items()}
    samples: list[Sample] = []
    for tick in ticks:
        for uuid, sampled in tick.tasks.items():
            if (task := tasks.get(uuid)) is not None:
                before = rows.get(task.pk)
                row = rows[task.pk] = _next_task(task, before, sampled, tick, term, refused)
                samples += filter(None, [sample_task(before, row, sampled.age_ms)])
                samples += sample_shares(before, row, gpu_ids)
    upsert(rows.values(), "task_id")
    return samples


def _next_task(
    task: Task, before: TaskNow | None, sampled: TaskSampled, tick: Tick, term: int, refused: Counter[str]
) -> TaskNow:
    before = before if before is not None and before.term == term else None
    row = TaskNow(task=task, at=_when(tick.age_ms), term=term, up_ms=tick.up_ms - sampled.age_ms, **sampled.values)
    row.shares = _next_shares(task, before.shares if before else [], sampled.shares, tick.up_ms, refused)
    if before is None:
        return row
    span_ms = row.up_ms - before.up_ms
    if span_ms < LEAST_SPAN_MS:  # its counters were not read since
        row.up_ms = before.up_ms
        for rate in TASK_RATES:
            setattr(row, rate, getattr(before, rate))
        return row
    for rate, total in TASK_RATES.items():
        setattr(row, rate, mean_per_s(getattr(before, total), getattr(row, total), span_ms))
    return row


def _next_shares(
    task: Task, before: list[dict], shares: dict[str, Sampled], up_ms: int, refused: Counter[str]
) -> list[dict]:
    held, known = {card["uuid"] for card in task.cards}, {share["uuid"]: share for share in before}
    told = []
    for uuid, sampled in shares.items():
        if uuid not in held:
            refused["card that the task does not hold"] += 1
            continue
        last = known.get(uuid, {})
        busy = mean_percent(last.get("busy_ms"), sampled.values.get("busy_ms"), up_ms - last.get("up_ms", up_ms))
        share = {"uuid": uuid, "source": sampled.source, "up_ms": up_ms, **sampled.values}
        told.append(share | ({} if busy is None else {"busy_percent": busy}))
    return told


def _when(age_ms: int) -> datetime:
    return timezone.now() - timedelta(milliseconds=age_ms)
