"""Row locks in one order, and the database's clock.

The order everywhere: lease, quota rows (teams from root to leaf, then the user), nodes, GPUs, job, tasks. `lock_rows`
locks by ascending primary key, so two callers cannot deadlock.
"""

from datetime import datetime
from typing import TypeVar

from django.db import connection, models
from django.db.transaction import TransactionManagementError

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
    """Return the database's time, the one clock of leases and records."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]
