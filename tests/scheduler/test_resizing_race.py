"""Eight tasks of one card that all want more of it at once, on real PostgreSQL: what they hold never exceeds it.

Without the locks it does, which proves that this test can fail.
"""

import threading
from contextlib import suppress

import pytest
from django.db import connection
from django.db.models import Sum

from common.errors import StaleState
from jobs.running_slices import resize_job
from quotas.models import Holding
from scheduler.commit import starting
from scheduler.lease import acquire
from scheduler.reconcile import resizing
from scheduler.reconcile.compare import Resize
from scheduler.reconcile.resizing import grow_holding
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)
TASKS = 7


def race() -> tuple[int, int]:
    """(MiB that are held of the card then, MiB that it sells)."""
    cast = make.cast()
    jobs = [make.job(cast.ada, gpu="1/8", pool="dev", cpu="10m", memory="16MiB") for _ in range(TASKS)]
    tasks = [task for job in jobs for task in make.start(job, cast.gpus[0])]
    for job in jobs:
        job.refresh_from_db()
        resize_job(actor=cast.ada, job=job, gpu="1/4")
    epoch, barrier, errors = acquire("reconcile"), threading.Barrier(TASKS), []

    def grow(task) -> None:
        try:
            barrier.wait(10)
            with suppress(StaleState):
                grow_holding(Resize(task.uuid.hex, task.job_id), epoch)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=grow, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors[:3]
    held = Holding.objects.live().filter(gpu=cast.gpus[0]).aggregate(mib=Sum("gpu_memory_mib"))["mib"]
    return held, cast.gpus[0].sellable_mib


def test_what_grows_at_once_never_exceeds_the_card():
    held, sells = race()
    assert sells - 4064 < held <= sells  # one of them has grown, and the others had no room


def test_without_the_locks_it_would(monkeypatch):
    barrier = threading.Barrier(TASKS)

    def look_together(gpu, memory_mib, compute_percent):
        starting.check_growth(gpu, memory_mib, compute_percent)
        barrier.wait(10)

    monkeypatch.setattr(starting, "lock_rows", lambda rows: list(rows))
    monkeypatch.setattr(resizing, "check_growth", look_together)
    held, sells = race()
    assert held > sells
