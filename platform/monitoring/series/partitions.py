"""Partitions of samples and packs: made a day ahead, dropped when they are old. What fits in none goes to the rest."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from monitoring.series.tiers import TIERS, Tier, floor_time

log = logging.getLogger("tessera.samples")

AHEAD = timedelta(days=1)
STAMP = "%Y%m%d%H"
LOCK_TIMEOUT = "2s"
"""Whoever is at a table goes first: the next round retries."""


@dataclass(frozen=True)
class Partition:
    """A table of rows from start to end, named after its start."""

    table: str
    start: datetime
    end: datetime

    @property
    def name(self) -> str:
        return f"{self.table}_{self.start:{STAMP}}"


def tidy_partitions() -> None:
    """Make and drop the partitions of each tier, and drop what is old of the rest."""
    for tier in TIERS:
        missing, old = plan_partitions(tier, _list_starts(tier), _keep_since(tier), timezone.now())
        for partition in missing:
            _try(f"make {partition.name}", lambda partition=partition, tier=tier: _make(tier, partition))
        for partition in old:
            _try(f"drop {partition.name}", lambda partition=partition: _execute([f"DROP TABLE {partition.name}"]))
        _try(f"empty {tier.table}_rest", lambda tier=tier: _empty_rest(tier))


def plan_partitions(
    tier: Tier, starts: Iterable[datetime], keep_since: datetime, now: datetime
) -> tuple[list[Partition], list[Partition]]:
    """Return which partitions are missing from now on, and which are old. starts: of those that are there."""
    there, width = set(starts), timedelta(seconds=tier.part_s)
    wanted, at = [], floor_time(now, tier.part_s)
    while at <= now + AHEAD:
        wanted.append(at)
        at += width
    missing = [Partition(tier.table, start, start + width) for start in wanted if start not in there]
    old = [Partition(tier.table, start, start + width) for start in sorted(there) if start + width <= keep_since]
    return missing, old


def _make(tier: Tier, partition: Partition) -> None:
    """Make a partition, with the rows of its time that had gone to the rest."""
    unlogged, within = ("" if tier.span_s else "UNLOGGED"), f"{tier.column} >= %s AND {tier.column} < %s"
    between = [partition.start, partition.end]
    _execute(
        [
            f"CREATE {unlogged} TABLE {partition.name} (LIKE {tier.table} INCLUDING ALL)",
            (f"INSERT INTO {partition.name} SELECT * FROM {tier.table}_rest WHERE {within}", between),
            (f"DELETE FROM {tier.table}_rest WHERE {within}", between),
            (f"ALTER TABLE {tier.table} ATTACH PARTITION {partition.name} FOR VALUES FROM (%s) TO (%s)", between),
        ]
    )


def _empty_rest(tier: Tier) -> None:
    _execute([(f"DELETE FROM {tier.table}_rest WHERE {tier.column} < %s", [_keep_since(tier)])])


def _execute(statements: list) -> None:
    """Execute statements, each alone or with its parameters, in one transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        for statement in statements:
            cursor.execute(*((statement,) if isinstance(statement, str) else statement))


def _try(words: str, act) -> None:
    try:
        act()
    except DatabaseError as failed:
        log.warning("could not %s: %s", words, failed)


def _keep_since(tier: Tier) -> datetime:
    return timezone.now() - timedelta(seconds=getattr(settings, tier.setting) * tier.unit_s)


def _list_starts(tier: Tier) -> list[datetime]:
    """Return when the partitions begin that are there, by their names."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [tier.table])
        stamps = [name.removeprefix(f"{tier.table}_") for (name,) in cursor.fetchall()]
    return [datetime.strptime(stamp, STAMP).replace(tzinfo=UTC) for stamp in stamps if stamp.isdigit()]
