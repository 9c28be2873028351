"""A worker and the beat touch a file (TESSERA_ALIVE) as long as they go round: who runs them looks how old it is.

Of a worker it tells that its loop turns and has a broker. A task that hangs is ended by its own time limit; in the
sender's only thread nobody could, and there the file grows old with it.
"""

from pathlib import Path
from typing import Any

from celery import bootsteps
from celery.beat import PersistentScheduler
from django.conf import settings

EVERY_S = 10.0


def touch() -> None:
    if settings.TESSERA_ALIVE:
        Path(settings.TESSERA_ALIVE).touch()


class AliveStep(bootsteps.StartStopStep):
    """Starts anew with each connection to the broker: the timers of the one before are gone with it."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def start(self, parent: Any) -> None:
        touch()
        parent.timer.call_repeatedly(EVERY_S, touch)


class AliveBeat(PersistentScheduler):
    """The beat's table, that touches the file where a round was made, with what was due sent."""

    def tick(self, *args: Any, **options: Any) -> float:
        rest = super().tick(*args, **options)
        touch()
        return rest
