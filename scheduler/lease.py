"""One leader at a time for each loop, by a row with an epoch and the database's clock.

Each taking raises the epoch over those of all leases, so a stop is never older than the start that it follows, and
never below the clock in milliseconds, so it still grows after a restored backup. Every write of the loop checks its
epoch in its own transaction: a leader that slept is refused.
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
from events.hints import heed
from scheduler.models import Lease

LEASE_S = 10
HINTED = ("cycle", "reconcile")
"""What is run when somebody asks; the others wait for their beat."""
RENEW_S = 3
"""Who leads for long asks for more time this often."""


class ClockTimestamp(Func):
    template, output_field = "clock_timestamp()", DateTimeField()


TAKE = """
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
def leading(name: str) -> Iterator[int | None]:
    """The epoch while this run leads, or None where another run does (which is told to look once more when it ends, and
    asks for another run where it cannot).
    """
    epoch = take(name)
    try:
        yield epoch
    finally:
        if epoch is not None and give_up(name, epoch) and name in HINTED:
            heed(name)
            hint(name)


@contextmanager
def kept(name: str, epoch: int, every_s: float = RENEW_S) -> Iterator[None]:
    """More time for the own term for as long as the block goes on. On a machine with too much to do a cycle outlasts
    a lease: all that it decided would be refused, and so would the next one's. Celery's limit ends one that hangs.
    """
    ended = threading.Event()
    keeper = threading.Thread(target=_keep, args=(name, epoch, every_s, ended), name=f"keep-{name}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()


def _keep(name: str, epoch: int, every_s: float, ended: threading.Event) -> None:
    """On a connection of its own, which only a slow block ever needs."""
    try:
        while not ended.wait(every_s) and renew(name, epoch):
            pass
    except OperationalError:
        pass  # who leads meets the same
    finally:
        connection.close()


def take(name: str) -> int | None:
    """The epoch of the new term, None where another one leads. While one does this writes once, for its wish: the row
    is locked by every transaction of the one who leads, and whoever asks each second would wait for them in turn.
    """
    if Lease.objects.filter(name=name, wanted=True, expires_at__gt=ClockTimestamp()).exists():
        return None
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
    with connection.cursor() as cursor:
        cursor.execute(TAKE, {"name": name, "holder": holder, "seconds": LEASE_S})
        row = cursor.fetchone()
    if row is None:
        Lease.objects.filter(name=name).update(wanted=True)
        return None
    return row[0]


def wanted_again(name: str, epoch: int) -> bool:
    """Whether somebody asked to run while this run led. The wish is taken by asking."""
    return bool(Lease.objects.filter(name=name, epoch=epoch, wanted=True).update(wanted=False))


def renew(name: str, epoch: int) -> bool:
    """More time for the own term; False where it is over."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_lease SET expires_at = clock_timestamp() + %s * interval '1 second'"
            " WHERE name = %s AND epoch = %s AND expires_at IS NOT NULL",
            [LEASE_S, name, epoch],
        )
        return cursor.rowcount == 1


def newest_epoch() -> int:
    """No older than that of anything in the rows that were read before."""
    return Lease.objects.aggregate(newest=Max("epoch"))["newest"] or 0


def give_up(name: str, epoch: int) -> bool:
    """Only the own term: an old leader cannot end a newer one's. Whether somebody asked to run while it led, after it
    looked for that last.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_lease SET expires_at = NULL, holder = '' WHERE name = %s AND epoch = %s RETURNING wanted",
            [name, epoch],
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def check_epoch(name: str, epoch: int) -> None:
    """Inside a transaction: hold the term still until it ends. Raises StaleState for an epoch that is over."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM scheduler_lease WHERE name = %s AND epoch = %s FOR SHARE", [name, epoch])
        if cursor.fetchone() is None:
            raise StaleState(kind="lease", was=epoch)


def note_success(name: str, epoch: int, ms: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_lease SET last_ok_at = clock_timestamp(), last_ms = %s WHERE name = %s AND epoch = %s",
            [ms, name, epoch],
        )
