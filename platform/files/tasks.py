"""Celery tasks of files."""

from celery import shared_task

from files import uploads, usage


@shared_task
def measure_places() -> None:
    usage.measure_stale()


@shared_task
def sweep_uploads() -> None:
    uploads.sweep_uploads()
