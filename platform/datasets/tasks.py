"""Celery tasks of datasets."""

from celery import shared_task

from datasets import making


@shared_task
def start_versions() -> None:
    for pk, holder in making.claim_versions():
        making.start_process("make_dataset_version", str(pk), holder)


@shared_task
def sweep() -> None:
    making.start_process("sweep_datasets")
