"""Heartbeat file (TESSERA_ALIVE) of the worker and the beat, for liveness probes by its age, and their metrics.

It shows a running loop with a broker. A hung task ends by its time limit, except in the solo sender, where the file
ages with it.
"""

from pathlib import Path
from typing import Any

from celery import bootsteps
from celery.beat import Scheduler
from django.conf import settings
from django.utils.module_loading import import_string

from metrics.exposition import serve_where_told
from metrics.process import BEATS

EVERY_S = 10.0


def touch_heartbeat() -> None:
    if settings.TESSERA_ALIVE:
        Path(settings.TESSERA_ALIVE).touch()


class AliveStep(bootsteps.StartStopStep):
    """A consumer step that touches the file. It restarts with each broker connection, which loses its timers."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def start(self, parent: Any) -> None:
        touch_heartbeat()
        parent.timer.call_repeatedly(EVERY_S, touch_heartbeat)


def start_presence(role: str) -> Any:
    """Say from here on that this process is there. Its tables are loaded only after this module."""
    presence = import_string("monitoring.presence.Presence")(role, settings.TESSERA_METRICS_LISTEN)
    presence.start()
    return presence


class MetricsStep(bootsteps.StartStopStep):
    """A worker's step that serves the metrics of the worker and its children, and says that it is there."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        self._server = serve_where_told(settings.TESSERA_METRICS_LISTEN, settings.TESSERA_METRICS_TOKEN)
        role = "sender" if parent.hostname.startswith("sender") else "worker"
        self._presence = start_presence(role)

    def stop(self, parent: Any) -> None:
        self._presence.stop()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class AliveBeat(Scheduler):
    """A beat scheduler that touches the file after each tick.

    It keeps no file of its own, without which it could not start on a full disk: the longest period is an hour.
    """

    def setup_schedule(self) -> None:
        super().setup_schedule()
        serve_where_told(settings.TESSERA_METRICS_LISTEN, settings.TESSERA_METRICS_TOKEN)
        self._presence = start_presence("beat")

    def close(self) -> None:
        self._presence.stop()
        super().close()

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        super().apply_entry(entry, producer)
        BEATS.labels(entry.task).inc()

    def tick(self, *args: Any, **options: Any) -> float:
        rest = super().tick(*args, **options)
        touch_heartbeat()
        return rest
