"""One leader per loop, by leases with epochs and the database's clock. One that is set back makes no lease longer.

New epochs exceed those of all leases, so no stop is older than its start, and the clock in ms, to grow after restored
backups. Each write checks its epoch, which fences old leaders.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

from django.db import OperationalError, connection
from django.db.models import DateTimeField, Func, Max

from common.errors import StaleState
from common.locks import find_clock_jump_s, lock_rows
from events.record_and_publish import clear_hint, hint
from metrics.process import STALE_WRITES
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
   OR lease.expires_at > clock_timestamp() + %(seconds)s * interval '1 second'
RETURNING epoch
"""
RELEASE = "UPDATE scheduler_lease SET expires_at = NULL, holder = '' WHERE name = %s AND epoch = %s RETURNING wanted"


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
def renewing(name: str, epoch: int) -> Iterator[None]:
    """Renew the lease in a thread: slow cycles can outlast it."""
    ended = threading.Event()
    keeper = threading.Thread(target=_renew_until, args=(name, epoch, ended), name=f"keep-{name}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()


def _renew_until(name: str, epoch: int, ended: threading.Event) -> None:
    try:
        while not ended.wait(RENEW_S) and renew(name, epoch):
            pass
    except OperationalError:
        pass  # the leader fails likewise
    finally:
        connection.close()


def acquire(name: str) -> int | None:
    """Take the lease; return its epoch, None if another leads, which is asked to run again.

    An earlier request is checked first, to avoid waiting for the leader's row locks.
    """
    end = ClockTimestamp() + timedelta(seconds=LEASE_S)
    if Lease.objects.filter(name=name, wanted=True, expires_at__gt=ClockTimestamp(), expires_at__lte=end).exists():
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
    own = Lease.objects.filter(name=name, epoch=epoch, expires_at__isnull=False)
    return bool(own.update(expires_at=ClockTimestamp() + timedelta(seconds=LEASE_S)))


def newest_epoch() -> int:
    return Lease.objects.aggregate(newest=Max("epoch"))["newest"] or 0


def release(name: str, epoch: int) -> bool:
    """Release one's own lease; return whether another run was requested."""
    with connection.cursor() as cursor:
        cursor.execute(RELEASE, [name, epoch])
        row = cursor.fetchone()
    return bool(row and row[0])


def check_epoch(name: str, epoch: int) -> None:
    """Lock the epoch until commit. Raise StaleState if it is over."""
    if not lock_rows(Lease.objects.filter(name=name, epoch=epoch), share=True):
        STALE_WRITES.inc()
        raise StaleState(kind="lease", was=epoch)


def record_success(name: str, epoch: int, ms: int) -> None:
    told = {"last_ok_at": ClockTimestamp(), "last_ms": ms, "clock_jump_s": round(find_clock_jump_s())}
    Lease.objects.filter(name=name, epoch=epoch).update(**told)
