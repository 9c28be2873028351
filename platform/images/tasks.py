"""Celery tasks of images."""

from celery import shared_task

from images.catalogue import update_all_digests


@shared_task
def refresh() -> None:
    update_all_digests()
