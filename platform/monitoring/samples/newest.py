"""What pages show of the newest samples. What is missing, too old, or cannot be read is simply not there: not known."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.utils import timezone

from monitoring.models import CardNow, TaskNow

KNOWN_FOR = timedelta(seconds=120)
"""An older sample says nothing of now."""


@dataclass(frozen=True)
class CardUse:
    """A card's use now. None is what is not known."""

    at: datetime
    source: str
    busy_percent: float | None
    used_mib: int | None
    temperature_c: int | None
    power_w: int | None


@dataclass(frozen=True)
class ShareUse:
    """A task's use of one card. busy_percent: of the whole card's time."""

    source: str
    busy_percent: float | None
    used_mib: int | None


@dataclass(frozen=True)
class TaskUse:
    """A task's use now. shares: by the card's uuid."""

    at: datetime
    cpu_milli: int | None
    memory_mib: int | None
    peak_mib: int | None
    processes: int | None
    read_kib_s: int | None
    write_kib_s: int | None
    net_rx_kib_s: int | None
    net_tx_kib_s: int | None
    shares: dict[str, ShareUse]


def load_card_uses(gpu_ids: Iterable[int]) -> dict[int, CardUse]:
    """Return the use of each card that is known now, by its id."""
    fields = ("gpu_id", "at", "source", "busy_percent", "used_mib", "temperature_c", "power_w")
    rows = CardNow.objects.filter(gpu__in=list(gpu_ids), at__gt=timezone.now() - KNOWN_FOR).values_list(*fields)
    return {gpu_id: CardUse(*values) for gpu_id, *values in _read(rows)}


def load_task_uses(task_ids: Iterable[int]) -> dict[int, TaskUse]:
    """Return the use of each task that is known now, by its id."""
    rows = TaskNow.objects.filter(task__in=list(task_ids), at__gt=timezone.now() - KNOWN_FOR)
    return {row.task_id: _read_task(row) for row in _read(rows)}


def _read_task(row: TaskNow) -> TaskUse:
    return TaskUse(
        at=row.at,
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        peak_mib=row.peak_mib,
        processes=row.processes,
        read_kib_s=row.read_kib_s,
        write_kib_s=row.write_kib_s,
        net_rx_kib_s=row.net_rx_kib_s,
        net_tx_kib_s=row.net_tx_kib_s,
        shares={share["uuid"]: _read_share(share) for share in row.shares},
    )


def _read_share(share: dict) -> ShareUse:
    return ShareUse(share["source"], share.get("busy_percent"), share.get("used_mib"))


def _read(rows: Iterable) -> list:
    """Read rows; none if their table is broken, as no page may fail for want of samples."""
    try:
        with transaction.atomic():
            return list(rows)
    except DatabaseError:
        return []
