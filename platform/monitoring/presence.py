"""Processes of the platform say that they are there, so that one that is gone or stuck can be told."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now
from django.utils import timezone

from monitoring.models import ProcessNow

log = logging.getLogger("tessera.presence")

EVERY_S = 15.0
MISSED_AFTER = timedelta(seconds=60)
"""A process that said nothing for so long is gone or stuck."""
FORGOTTEN_AFTER = timedelta(days=1)


class Presence:
    """One process. metrics: where Prometheus may ask it, `host:port`; "" nowhere but where everybody asks."""

    def __init__(self, role: str, metrics: str = ""):
        self._role, self._metrics = role, _reachable(metrics)
        self._host, self._started_at = socket.gethostname()[:100], timezone.now()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="presence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End; a process that ends as it should is not missed."""
        self._ended.set()
        self._thread.join(2)

    def say(self) -> None:
        """Say that this process is there. Raises DatabaseError."""
        told = {"version": settings.TESSERA_VERSION, "metrics": self._metrics, "started_at": self._started_at}
        ProcessNow.objects.update_or_create(**self._key(), defaults=told | {"seen_at": Now()})
        ProcessNow.objects.filter(seen_at__lt=Now() - FORGOTTEN_AFTER).delete()

    def _key(self) -> dict[str, Any]:
        return {"role": self._role, "host": self._host, "pid": os.getpid()}

    def _go_on(self) -> None:
        try:
            while True:
                self._quietly(self.say)
                if self._ended.wait(EVERY_S):
                    self._quietly(lambda: ProcessNow.objects.filter(**self._key()).delete())
                    return
        finally:
            connection.close()

    def _quietly(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (DatabaseError, InterfaceError) as away:
            log.debug("nobody hears that %s is there: %s", self._role, away)
        finally:
            connection.close()


@contextmanager
def present(role: str, metrics: str = "") -> Iterator[None]:
    """Say that this process is there, for the time of a block."""
    presence = Presence(role, metrics)
    presence.start()
    try:
        yield
    finally:
        presence.stop()


def is_missed(process: ProcessNow) -> bool:
    return timezone.now() - process.seen_at > MISSED_AFTER


def _reachable(metrics: str) -> str:
    """Return an address for others: who listens everywhere is asked at the machine's own address."""
    host, _, port = metrics.rpartition(":")
    if host not in ("0.0.0.0", "[::]", "::"):  # noqa: S104 - it is told, not listened at
        return metrics
    return f"{os.environ.get('TESSERA_POD_IP') or socket.gethostname()}:{port}"
