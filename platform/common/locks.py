"""Row locks in one order, and the database's clock without its jumps.

The order everywhere: lease, quota rows (teams from root to leaf, then the user), nodes, GPUs, job, tasks. `lock_rows`
locks by ascending primary key, so two callers cannot deadlock.
"""

from datetime import UTC, datetime
from typing import TypeVar

from django.conf import settings
from django.db import connection, models
from django.db.transaction import TransactionManagementError

from common.steady_clock import SteadyClock, own_clock

Row = TypeVar("Row", bound=models.Model)


def lock_rows(rows: models.QuerySet[Row], *, share: bool = False) -> list[Row]:
    """Lock and return `rows` in primary-key order. Sum what they guard in a later statement.

    share: FOR SHARE, else FOR NO KEY UPDATE, which still lets foreign keys to them be inserted. Raises
    TransactionManagementError outside a transaction.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("rows are locked inside a transaction only")
    ordered = rows.order_by("pk")
    if not share:
        return list(ordered.select_for_update(no_key=True, of=("self",)))
    sql, params = ordered.query.sql_with_params()
    return list(rows.model._default_manager.raw(f"{sql} FOR SHARE", params))


def database_now() -> datetime:
    """Return the database's time, the one clock of records, for decisions: a step of it is not believed at once."""
    return datetime.fromtimestamp(_steady.now(), UTC)


def find_clock_jump_s() -> float:
    """Return the larger step of this process's and the database's clock that is not believed yet; 0 if none."""
    return max(own_clock.held_s, _steady.held_s, key=abs)


def _read_database_clock() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0].timestamp()


_steady = SteadyClock(_read_database_clock, lambda: settings.TESSERA_CLOCK_STEADY_S)
