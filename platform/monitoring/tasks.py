"""Celery tasks of monitoring."""

import logging

from celery import shared_task
from django.db import DatabaseError, connection

from monitoring.usage.keeping import keep_uses

log = logging.getLogger("tessera.samples")


@shared_task
def keep() -> None:
    """Write what holdings were used for to the table that reports read."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
    try:
        keep_uses()
    except DatabaseError as failed:  # the next beat retries
        log.warning("uses were not kept: %s", failed)
