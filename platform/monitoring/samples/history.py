"""Samples to keep of a card, a task and its shares: what two looks that follow each other say of the time between."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings

from monitoring.models import CardNow, Sample, Source, TaskNow
from monitoring.samples.growth import LONGEST_SPAN_MS
from monitoring.series.keys import COLUMNS, Kind


def sample_card(before: CardNow | None, now: CardNow) -> Sample:
    return _build(Kind.CARD, now.gpu_id, 0, now.at, _span_ms(before, now), now.source, tell_card(now))


def tell_card(now: CardNow) -> dict[str, int | None]:
    """Return the columns of a card's newest sample."""
    known = {"busy_centi": _in_hundredths(now.busy_percent), **now.counted}
    known |= {name: getattr(now, name) for name in ("used_mib", "temperature_c", "power_w")}
    return {name: known.get(name) for name in COLUMNS[Kind.CARD]}


def sample_task(before: TaskNow | None, now: TaskNow, age_ms: int) -> Sample | None:
    """Return the sample of a task whose counters were read, age_ms before the tick; None if they were not since."""
    if before is not None and before.term == now.term and now.up_ms <= before.up_ms:
        return None
    values = {name: getattr(now, name) for name in COLUMNS[Kind.TASK]}
    sample = _build(Kind.TASK, now.task_id, 0, now.at, _span_ms(before, now), Source.MEASURED, values)
    sample.at -= timedelta(milliseconds=age_ms)
    return sample


def sample_machine(node_id: int, at: datetime, span_ms: int | None, use: dict) -> Sample:
    """Return the sample of a machine. span_ms: since the one before, None at the beginning of a run."""
    values = {name: use.get(name) for name in COLUMNS[Kind.NODE]}
    return _build(Kind.NODE, node_id, 0, at, _limit_span(span_ms), Source.MEASURED, values)


def sample_shares(before: TaskNow | None, now: TaskNow, gpu_ids: Mapping[str, int]) -> list[Sample]:
    """Return a sample of each share. gpu_ids: of the machine's cards, by uuid."""
    earlier = {share["uuid"]: share for share in before.shares} if before and before.term == now.term else {}
    found = []
    for share in now.shares:
        if (gpu_id := gpu_ids.get(share["uuid"])) is not None:
            last = earlier.get(share["uuid"])
            span_ms = _limit_span(share["up_ms"] - last["up_ms"] if last else None)
            values = {"busy_centi": _in_hundredths(share.get("busy_percent")), "used_mib": share.get("used_mib")}
            found.append(_build(Kind.SHARE, now.task_id, gpu_id, now.at, span_ms, share["source"], values))
    return found


def _build(kind: Kind, subject: int, card: int, at: datetime, span_ms: int, source: str, values: dict) -> Sample:
    told = [values[name] for name in COLUMNS[kind]]
    return Sample(kind=kind, subject=subject, card=card, at=at, span_ms=span_ms, source=source, values=told)


def _span_ms(before: CardNow | TaskNow | None, now: CardNow | TaskNow) -> int:
    return _limit_span(now.up_ms - before.up_ms if before is not None and before.term == now.term else None)


def _limit_span(span_ms: int | None) -> int:
    """Return how long a sample speaks for: of the first of a run, as long as the next is expected to."""
    if span_ms is None:
        return 1000 * settings.TESSERA_SAMPLE_S
    return min(max(span_ms, 0), LONGEST_SPAN_MS)


def _in_hundredths(percent: float | None) -> int | None:
    return None if percent is None else round(100 * percent)
