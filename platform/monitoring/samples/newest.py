"""What pages show of the newest samples. What is missing, too old, or cannot be read is simply not there: not known."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, transaction
from django.utils import timezone

from monitoring.models import CardNow, NodeNow, TaskNow

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


@dataclass(frozen=True)
class DiskUse:
    """How full a disk is. inodes: in use; None where the file system makes them as needed."""

    path: str
    used_mib: int | None
    all_mib: int | None
    inodes: int | None
    all_inodes: int | None
    read_only: bool | None


@dataclass(frozen=True)
class NodeUse:
    """What a machine itself uses now. load: of its last minute. agent_*: of what samples it, where that is an agent."""

    at: datetime
    cpu_milli: int | None
    cores: int | None
    memory_mib: int | None
    memory_all_mib: int | None
    swap_mib: int | None
    swap_all_mib: int | None
    load: float | None
    net_rx_kib_s: int | None
    net_tx_kib_s: int | None
    agent_cpu_milli: int | None
    agent_mib: int | None
    disks: tuple[DiskUse, ...]


def load_node_uses(node_ids: Iterable[int]) -> dict[int, NodeUse]:
    """Return the use of each machine that is known now, by its id."""
    rows = NodeNow.objects.filter(node__in=list(node_ids), at__gt=timezone.now() - KNOWN_FOR)
    return {row.node_id: _read_machine(row.at, row.use) for row in _read(rows)}


def load_card_uses(gpu_ids: Iterable[int]) -> dict[int, CardUse]:
    """Return the use of each card that is known now, by its id."""
    names = ("gpu_id", "at", "source", "busy_percent", "used_mib", "temperature_c", "power_w")
    rows = CardNow.objects.filter(gpu__in=list(gpu_ids), at__gt=timezone.now() - KNOWN_FOR).values_list(*names)
    return {gpu_id: CardUse(*values) for gpu_id, *values in _read(rows)}


def load_task_uses(task_ids: Iterable[int]) -> dict[int, TaskUse]:
    """Return the use of each task that is known now, by its id."""
    rows = TaskNow.objects.filter(task__in=list(task_ids), at__gt=timezone.now() - KNOWN_FOR)
    return {row.task_id: _read_task(row) for row in _read(rows)}


def _read_machine(at: datetime, use: dict) -> NodeUse:
    load = use.get("load_centi")
    told: dict[str, Any] = {field.name: use.get(field.name) for field in fields(NodeUse)}
    disks = tuple(_read_disk(disk) for disk in use.get("disks", ()))
    return NodeUse(**told | {"at": at, "load": None if load is None else load / 100, "disks": disks})


def _read_disk(disk: dict) -> DiskUse:
    read_only = disk.get("read_only")
    told = {name: disk.get(name) for name in ("used_mib", "all_mib", "inodes", "all_inodes")}
    return DiskUse(path=disk["path"], read_only=None if read_only is None else bool(read_only), **told)


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
