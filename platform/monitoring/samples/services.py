"""What services answer: one sample of each, of what gateways counted since about the last one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from jobs.states import JOB_FINAL, JobState
from monitoring.models import Sample, Source
from monitoring.series.keys import Kind
from monitoring.series.store import keep_samples
from monitoring.series.tally import TALLY_S
from services.in_flight import read_loads
from services.models import Replica, Service
from services.traffic import SLOT_S, Traffic, sum_slots
from services.traffic_counts import floor_slot, read_slots_of

LATE_S = 2
"""Gateways add what they counted each second."""


@dataclass(frozen=True)
class Replicas:
    """How many replicas take requests or come up, and how many of them answer. The keys are services."""

    all: Mapping[int, int]
    ready: Mapping[int, int]


def record_traffic(now: float) -> None:
    """Keep a sample of each service, also of those that sleep: that nobody called is known. now: seconds since 1970."""
    services = list(Service.objects.live().values_list("pk", flat=True))
    end = floor_slot(now - LATE_S)
    slots = read_slots_of(services, end - TALLY_S, end - SLOT_S)
    loads, replicas = read_loads(), _count_replicas()
    keep_samples(
        [
            _build(
                pk,
                end,
                None if slots is None else sum_slots(slots[pk], 0),
                None if loads is None else loads.services.get(pk, 0),
                replicas,
            )
            for pk in services
        ]
    )


def _count_replicas() -> Replicas:
    rows = Replica.objects.filter(draining_at=None).exclude(job__state__in=sorted(JOB_FINAL))
    found = list(rows.values_list("service", "ready_task", "job__state"))
    ready = (service for service, task, state in found if task is not None and state == JobState.RUNNING)
    return Replicas(Counter(service for service, _, _ in found), Counter(ready))


def _build(pk: int, end: int, answered: Traffic | None, in_flight: int | None, replicas: Replicas) -> Sample:
    values = [
        *_measure(answered),
        None if in_flight is None else 100 * in_flight,
        100 * replicas.all.get(pk, 0),
        100 * replicas.ready.get(pk, 0),
    ]
    return Sample(
        kind=Kind.SERVICE,
        subject=pk,
        card=0,
        at=datetime.fromtimestamp(end, UTC),
        span_ms=1000 * TALLY_S,
        source=Source.MEASURED,
        values=values,
    )


def _measure(answered: Traffic | None) -> list[int | None]:
    """Return requests and errors in thousandths a second, and p50 and p95 in microseconds."""
    if answered is None:
        return [None] * 4
    times = [answered.find_quantile_ms(share) for share in (0.5, 0.95)]
    rates = [round(1000 * count / TALLY_S) for count in (answered.requests, answered.errors)]
    return [*rates, *(None if ms is None else round(1000 * ms) for ms in times)]
