"""What a pool promises of its cores and of its memory, and where a task's cores lie."""

import pytest
from django.utils import timezone

from cluster.models import Pool
from quotas.models import Holding
from scheduler import tasks
from scheduler.reconcile.task_specs import build_task_spec
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cast():
    return make.cast()  # n1 has 16 cores and 64 GiB


def start_all(cast, count, **spec):
    """How many of these jobs start, and why the others wait."""
    jobs = [make.job(cast.ada, pool="dev", gpu="0", **spec) for _ in range(count)]
    tasks.cycle()
    for job in jobs:
        job.refresh_from_db()
    reasons = {(why["code"], why["params"].get("resource")) for job in jobs for why in job.wait_reasons}
    return sum(job.state != "QUEUED" for job in jobs), {pair for pair in reasons if pair[0] == "no_fit_now"}


@pytest.mark.parametrize(("percent", "started"), [(100, 2), (200, 4), (150, 3)])
def test_a_pool_promises_its_cores_as_often_as_it_says(cast, percent, started):
    Pool.objects.filter(pk=cast.dev.pk).update(cpu_overcommit_percent=percent)
    assert start_all(cast, 5, cpu=8, memory="1GiB") == (started, {("no_fit_now", "cpu_milli")})


def test_memory_is_promised_once(cast):
    Pool.objects.filter(pk=cast.dev.pk).update(cpu_overcommit_percent=1000)
    assert start_all(cast, 5, cpu=1, memory="20GiB") == (3, {("no_fit_now", "memory_mib")})


def test_the_cores_of_a_task_are_near_each_of_its_cards(cast):
    for index, numa in enumerate((1, 1, 0)):
        make.gpu(cast.node, pool=cast.train, numa=numa, uuid=f"GPU-{index}-{numa}")
    cast.train.gpus.filter(numa=None).update(healthy=False)
    job = make.job(cast.ada, pool="train", gpu="3", cpu=3)
    tasks.cycle()
    assert sorted(build_task_spec(job.newest_tasks.get()).numa) == [0, 1, 1]
    assert Holding.objects.get(gpu=None, task=job.newest_tasks.get().uuid).numa is None


def test_a_task_starts_on_its_card_as_that_is_now(cast):
    job = make.job(cast.ada, pool="dev", gpu="1/2")
    tasks.cycle()
    task = job.newest_tasks.get()
    card = cast.dev.gpus.get()
    type(card).objects.filter(pk=card.pk).update(index=6, enforcement="slice")
    (share,) = build_task_spec(task).gpus
    assert (share.index, share.card.index, share.card.mode, share.card.simulated) == (6, 6, "slice", card.simulated)
    type(card).objects.filter(pk=card.pk).update(removed_at=card.probed_at or timezone.now())
    assert build_task_spec(task).gpus[0].card is None


def test_a_task_without_cards_may_have_its_cores_anywhere(cast):
    job = make.job(cast.ada, pool="dev", gpu="0")
    tasks.cycle()
    assert build_task_spec(job.newest_tasks.get()).numa == ()
