"""Celery tasks of images."""

from celery import shared_task

from images.catalogue import look_up_all


@shared_task
def refresh() -> None:
    look_up_all()
