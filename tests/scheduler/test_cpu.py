"""What a pool promises of its cores and of its memory, and where a task's cores lie."""

import pytest
from django.utils import timezone

from cluster.models import Node, Pool
from events.models import Event
from portal.wording.events import describe_event
from quotas.models import Holding
from scheduler import tasks
from scheduler.loading import row_cache
from scheduler.loading.snapshots import load_world
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


def test_a_task_without_cards_may_have_its_cores_anywhere_where_numa_nodes_are_not_known(cast):
    job = make.job(cast.ada, pool="dev", gpu="0")
    tasks.cycle()
    assert build_task_spec(job.newest_tasks.get()).numa == ()


@pytest.fixture
def two_numa_nodes(cast):
    """The machine's 16 cores and 64 GiB are of two NUMA nodes, which the kernel calls 0 and 2."""
    halves = [
        {"id": number, "cpus": list(range(8 * at, 8 * at + 8)), "memory_mib": 32768} for at, number in ((0, 0), (1, 2))
    ]
    Node.objects.filter(pk=cast.node.pk).update(numa=halves)


def started(cast, **spec):
    """The task of a new job of ada's that starts at once, with its runtime's spec."""
    task = make.job(cast.ada, pool="dev", gpu="0", memory="1GiB", **spec)
    tasks.cycle()
    task = task.newest_tasks.get()
    return task, build_task_spec(task)


def held(task):
    return [(row.numa, row.cpu_milli, row.memory_mib) for row in Holding.objects.filter(task=task.uuid).order_by("pk")]


def test_a_task_without_cards_keeps_to_one_numa_node(cast, two_numa_nodes):
    """What an earlier cycle gave is known to the next one, and to one that starts anew."""
    task, spec = started(cast, cpu=5)
    assert spec.numa == (0,) * 5 and held(task) == [(0, 5000, 1024)]
    task, spec = started(cast, cpu=5)
    assert spec.numa == (2,) * 5 and held(task) == [(2, 5000, 1024)]
    row_cache.clear_cache()
    assert started(cast, cpu="2500m")[1].numa == (0,) * 3
    assert load_world().snapshot.numa_free[0].tolist() == [[500, 30720], [3000, 31744]]
    words = [describe_event(row, alone=True) for row in Event.objects.filter(to_state="ASSIGNED").order_by("pk")]
    assert words[0] == "Task main was placed on n1, NUMA node 0" and words[1].endswith("NUMA node 2")


def test_one_that_fits_on_none_is_divided_among_the_fewest(cast, two_numa_nodes):
    assert started(cast, cpu=5)[1].numa == (0,) * 5
    task, spec = started(cast, cpu=10)
    assert spec.numa == (0,) * 2 + (2,) * 8 and [row[:2] for row in held(task)] == [(0, 2000), (2, 8000)]
    (running,) = [job for job in load_world().snapshot.running if len(job.tasks[0].near) == 2]
    assert sum(share.memory_mib for share in running.tasks[0].near) == running.tasks[0].memory_mib == 1024
    event = Event.objects.filter(to_state="ASSIGNED").last()
    assert describe_event(event, alone=True) == "Task main was placed on n1, NUMA nodes 0, 2"
    Holding.objects.live().release()
    assert load_world().snapshot.numa_free.tolist() == load_world().snapshot.numa_total.tolist()


def test_what_was_given_before_numa_nodes_were_known_counts_evenly(cast, two_numa_nodes):
    started(cast, cpu=4)
    Holding.objects.update(numa=None)
    row_cache.clear_cache()
    assert load_world().snapshot.numa_free[0, :, 0].tolist() == [6000, 6000]


def test_overcommitted_cores_are_as_many_more_on_each_numa_node(cast, two_numa_nodes):
    Pool.objects.filter(pk=cast.dev.pk).update(cpu_overcommit_percent=200)
    assert load_world().snapshot.numa_total[0, :, 0].tolist() == [16000, 16000]
