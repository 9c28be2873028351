"""One leader per loop, by leases with epochs and the database's clock.

New epochs exceed those of all leases, so no stop is older than its start, and the clock in ms, to grow after restored
backups. Each write checks its epoch, which fences old leaders.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from django.db import OperationalError, connection
from django.db.models import DateTimeField, Func, Max

from common.errors import StaleState
from events.bus import hint
from events.hints import clear_hint
from scheduler.models import Lease

LEASE_S = 10
HINTED = ("cycle", "reconcile")
"""Loops that run on request; the others wait for their beat."""
RENEW_S = 3
"""How often a leader renews its lease, in seconds."""


class ClockTimestamp(Func):
    template, output_field = "clock_timestamp()", DateTimeField()


ACQUIRE = """
INSERT INTO scheduler_lease AS lease (name, holder, epoch, wanted, expires_at)
VALUES (%(name)s, %(holder)s, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, false,
        clock_timestamp() + %(seconds)s * interval '1 second')
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder,
    epoch = greatest((SELECT max(epoch) FROM scheduler_lease) + 1, excluded.epoch),
    wanted = false,
    expires_at = excluded.expires_at
WHERE lease.expires_at IS NULL OR lease.expires_at < clock_timestamp()
RETURNING epoch
"""


@contextmanager
def lead(name: str) -> Iterator[int | None]:
    """Lead a loop within the block: yield the epoch, None if another leads.

    A late request starts another run.
    """
    epoch = acquire(name)
    try:
        yield epoch
    finally:
        if epoch is not None and release(name, epoch) and name in HINTED:
            clear_hint(name)
            hint(name)


@contextmanager
def renewing(name: str, epoch: int, every_s: float = RENEW_S) -> Iterator[None]:
    """Renew the lease in a thread: slow cycles can outlast it."""
    ended = threading.Event()
    keeper = threading.Thread(target=_renew_until, args=(name, epoch, every_s, ended), name=f"keep-{name}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()


def _renew_until(name: str, epoch: int, every_s: float, ended: threading.Event) -> None:
    try:
        while not ended.wait(every_s) and renew(name, epoch):
            pass
    except OperationalError:
        pass  # the leader fails likewise
    finally:
        connection.close()


def acquire(name: str) -> int | None:
    """Take the lease; return its epoch, None if another leads, which is asked to run again.

    An earlier request is checked first, to avoid waiting for the leader's row locks.
    """
    if Lease.objects.filter(name=name, wanted=True, expires_at__gt=ClockTimestamp()).exists():
        return None
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
    with connection.cursor() as cursor:
        cursor.execute(ACQUIRE, {"name": name, "holder": holder, "seconds": LEASE_S})
        row = cursor.fetchone()
    if row is None:
        Lease.objects.filter(name=name).update(wanted=True)
        return None
    return row[0]


def take_hint(name: str, epoch: int) -> bool:
    """Take a request to run again."""
    return bool(Lease.objects.filter(name=name, epoch=epoch, wanted=True).update(wanted=False))


def renew(name: str, epoch: int) -> bool:
    """Extend the lease; False if lost."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_lease SET expires_at = clock_timestamp() + %s * interval '1 second'"
            " WHERE name = %s AND epoch = %s AND expires_at IS NOT NULL",
            [LEASE_S, name, epoch],
        )
        return cursor.rowcount == 1


def newest_epoch() -> int:
    return Lease.objects.aggregate(newest=Max("epoch"))["newest"] or 0


def release(name: str, epoch: int) -> bool:
    """Release one's own lease; return whether another run was requested."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_lease SET expires_at = NULL, holder = '' WHERE name = %s AND epoch = %s RETURNING wanted",
            [name, epoch],
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def check_epoch(name: str, epoch: int) -> None:
    """Lock the epoch until commit. Raise StaleState if it is over."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM scheduler_lease WHERE name = %s AND epoch = %s FOR SHARE", [name, epoch])
        if cursor.fetchone() is None:
            raise StaleState(kind="lease", was=epoch)


def record_success(name: str, epoch: int, ms: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_lease SET last_ok_at = clock_timestamp(), last_ms = %s WHERE name = %s AND epoch = %s",
            [ms, name, epoch],
        )
