"""Uses as rows of holdings: written through to what survives a crash, each resize and attempt for itself."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from jobs.models import Task
from monitoring.models import NodeNow, TaskNow, TaskUse, TaskUseNow
from monitoring.samples.ingest import take_samples
from monitoring.usage.keeping import KEEP_EVERY, keep_uses
from quotas.models import Holding
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    cast = make.cast()
    cast.card = cast.gpus[0]
    cast.task = make.start(make.job(cast.ada, gpu="1/4"), cast.card)[0]
    return cast


def send(
    world, seq: int, busy_ms: int | None = None, *, task: Task | None = None, run: str = "boot/1", **values
) -> None:
    """A tick each ten seconds. values: of the task."""
    uuid = world.card.uuid
    share = {"uuid": uuid, "source": "simulated", "busy_ms": busy_ms, "used_mib": 900}
    told = [{"task": (task or world.task).uuid.hex, "age_ms": 0, **values, "shares": [share]}]
    card = {"uuid": uuid, "source": "simulated", "busy_ms": 7 * seq, "used_mib": 950}
    tick = {
        "seq": seq,
        "age_ms": 0,
        "up_ms": 10_000 * seq,
        "cards": [card],
        "tasks": told if busy_ms is not None else [],
    }
    take_samples(world.node, {"run": run, "first": seq, "ticks": [tick]})


def use_of(model, *, gpu: bool = True):
    return model.objects.filter(holding__gpu__isnull=not gpu).order_by("-holding").first()


def test_uses_are_kept_each_quarter_of_an_hour_and_at_the_end(world):
    for seq in range(1, 4):
        send(world, seq, 2000 * seq, cpu_ms=500 * seq, memory_mib=64, peak_mib=80, read_kib=0, write_kib=seq)
    now = use_of(TaskUseNow)
    assert (now.busy_ms, now.seen_ms, now.active_ms, now.peak_mib, now.source) == (
        6000,
        20_000,
        20_000,
        900,
        "simulated",
    )
    host = use_of(TaskUseNow, gpu=False)
    assert (host.cpu_ms, host.seen_ms, host.peak_mib, host.write_kib, host.busy_ms) == (1500, 20_000, 80, 3, None)
    assert keep_uses() == 0 and not TaskUse.objects.exists()
    TaskUseNow.objects.update(saved_at=timezone.now() - KEEP_EVERY - timedelta(seconds=1))
    assert (keep_uses(), keep_uses(), TaskUse.objects.count(), TaskUseNow.objects.count()) == (2, 0, 2, 2)
    send(world, 4, 8000)
    make.end(world.task.job)
    assert keep_uses() == 2 and not TaskUseNow.objects.exists()
    assert (use_of(TaskUse).busy_ms, use_of(TaskUse).seen_ms) == (8000, 30_000)
    send(world, 5, 8500)  # late
    assert keep_uses() > 0 and use_of(TaskUse).busy_ms == 8500


def test_after_a_crash_counters_go_on_from_what_was_kept(world):
    send(world, 1, 2000)
    send(world, 2, 4000)
    TaskUseNow.objects.update(saved_at=timezone.now() - KEEP_EVERY - timedelta(seconds=1))
    keep_uses()
    send(world, 3, 6000)
    for model in (NodeNow, TaskNow, TaskUseNow):  # they are unlogged
        model.objects.all().delete()
    send(world, 2, 4000)  # told before
    send(world, 40, 9000)
    now = use_of(TaskUseNow)
    assert (now.busy_ms, now.seen_ms, now.active_ms) == (9000, 10_000, 10_000)


def test_a_resize_and_an_attempt_begin_rows_of_their_own(world):
    send(world, 1, 2500)
    first = Holding.objects.get(gpu=world.card)
    Holding.objects.filter(pk=first.pk).release()
    same = {name: getattr(first, name) for name in ("task", "team", "user", "pool", "node", "gpu")}
    larger = Holding.objects.create(**same, gpu_milli=500, gpu_memory_mib=16_000, gpu_compute_percent=50)
    send(world, 2, 5000)
    uses = {
        use.holding_id: (use.busy_ms, use.active_ms) for use in TaskUseNow.objects.filter(holding__gpu__isnull=False)
    }
    assert uses == {first.pk: (2500, 0), larger.pk: (2500, 10_000)}


def test_who_holds_a_whole_card_is_as_busy_as_the_card(world):
    make.end(world.task.job)
    world.task = make.start(make.job(world.ada, gpu="1", pool="dev"), world.card)[0]
    send(world, 1)
    send(world, 2)
    now = use_of(TaskUseNow)
    assert (now.of_card, now.busy_ms, now.seen_ms, now.peak_mib, now.source) == (True, 7, 10_000, 950, "simulated")


def test_uses_that_cannot_be_moved_are_in_nobodys_way(world):
    def rename(name: str, to: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {name} RENAME TO {to}")

    send(world, 1, 2000)
    rename("monitoring_taskusenow", "gone")
    send(world, 2, 4000)
    rename("gone", "monitoring_taskusenow")
    assert NodeNow.objects.get().seq == 2 and use_of(TaskUseNow).busy_ms == 2000
    send(world, 3, 6000)
    assert use_of(TaskUseNow).busy_ms == 6000
