"""Celery tasks of monitoring. Nothing else waits for them."""

import logging
from collections.abc import Callable
from time import time

from celery import shared_task
from django.conf import settings
from django.db import DatabaseError

from monitoring.alerts.foreign import drop_old_foreign_alerts
from monitoring.alerts.round import drop_old_alerts
from monitoring.checks import drop_old_changes
from monitoring.engine.endpoint import Endpoint
from monitoring.engine.sending import send_samples
from monitoring.idle.touches import drop_old_touches
from monitoring.people.reminding import remind_away
from monitoring.reports.days import settle_days
from monitoring.samples.services import record_traffic
from monitoring.series.packing import pack_for
from monitoring.series.partitions import tidy_partitions
from monitoring.series.tally import record_tally
from monitoring.usage.keeping import keep_uses

log = logging.getLogger("tessera.samples")

PACK_FOR_S = 2.0
"""Of each 20 s, so that other tasks of the worker go on."""
SETTLE_FOR_S = 20.0
"""Of each 5 min: after an upgrade, all that was ever held is summed."""


@shared_task
def pack() -> None:
    """Make packs of samples that are complete."""
    _try(lambda: pack_for(PACK_FOR_S))


@shared_task
def tidy() -> None:
    """Make partitions ahead, drop old ones, old alerts, and what checks said a year ago."""
    _try(tidy_partitions)
    _try(drop_old_alerts)
    _try(drop_old_foreign_alerts)
    _try(drop_old_touches)
    _try(drop_old_changes)


@shared_task
def tally() -> None:
    """Sample what pools and teams hold and use, and what services answer."""
    _try(record_tally)
    _try(lambda: record_traffic(time()))


@shared_task
def keep() -> None:
    """Write what holdings were used for to the table that reports read."""
    _try(keep_uses)


@shared_task
def settle() -> None:
    """Sum by day what has been over for a while, for reports."""
    _try(lambda: settle_days(SETTLE_FOR_S))


@shared_task
def remind() -> None:
    """Remind people who are away of what they hold."""
    _try(remind_away)


@shared_task
def send() -> None:
    """Send samples to the series engine that the settings name."""
    endpoint = Endpoint(**settings.TESSERA_REMOTE_WRITE)
    if endpoint.url:
        _try(lambda: send_samples(endpoint))


def _try(act: Callable[[], object]) -> None:
    """Act; the next beat retries what fails."""
    try:
        act()
    except DatabaseError as failed:
        log.warning("not done: %s", failed)
