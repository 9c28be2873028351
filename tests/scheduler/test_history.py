"""What is usually asked is read from the newest jobs, and decides where the next one goes."""

import numpy as np
import pytest

from cluster.models import Gpu
from scheduler import tasks
from scheduler.core.placement.usual_requests import BLOCK, SCALE, TYPICAL_HALF_LIFE, RequestHistory
from scheduler.loading import snapshots
from scheduler.loading.snapshots import load_world
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada():
    """ada's team has quota in a shared pool of two cards on two nodes."""
    dev, nlp = make.pool("dev", shared=True), make.team("nlp")
    make.quota(nlp, dev)
    for name in ("n1", "n2"):
        make.gpu(make.node(name, pool=dev))
    return make.user("ada", nlp)


def test_each_task_of_the_newest_jobs_counts_once(ada):
    make.job(ada, gpu="1/2", cpu="1", nodes=3)
    make.job(ada, gpu="1/2", cpu="1")
    make.job(ada, gpu="1", cpu="1")
    typical = load_world(queue=False).snapshot.typical
    assert typical.count.tolist() == [4 * SCALE, SCALE] and typical.need[0].tolist() == [500, 1000]


def test_each_role_of_a_job_counts_with_its_own_tasks(ada):
    head, worker = {"run": "a", "cpu": "1", "memory": "1GiB"}, {"run": "b", "cpu": "1", "memory": "1GiB"}
    make.job(ada, roles={"head": head, "worker": worker | {"gpu": "1/2", "count": "2..5"}})
    snapshot = load_world(queue=False).snapshot
    assert sorted(zip(snapshot.typical.gpus.tolist(), snapshot.typical.count.tolist(), strict=True)) == [
        (0, SCALE),
        (1, 2 * SCALE),
    ]
    assert sorted(zip(snapshot.wishes.milli.tolist(), snapshot.wishes.count.tolist(), strict=True)) == [
        (0, SCALE),
        (500, 2 * SCALE),
    ]


def test_what_was_asked_long_ago_counts_less_and_at_last_nothing(ada, monkeypatch):
    """Each job is a block of its own here, and two are looked at."""
    monkeypatch.setattr(snapshots, "BLOCK", 1)
    monkeypatch.setattr(snapshots, "HISTORY", 2)
    for gpu in ("1/2", "1/4", "1"):
        make.job(ada, gpu=gpu, cpu="1")
    typical, older = load_world(queue=False).snapshot.typical, round(SCALE * 0.5 ** (BLOCK / TYPICAL_HALF_LIFE))
    assert dict(zip(typical.need[0].tolist(), typical.count.tolist(), strict=True)) == {1000: SCALE, 250: older}


def test_the_database_and_a_history_in_memory_teach_alike(ada):
    """The same jobs, in one order: so what is measured of the one is true of the other."""
    asked = [("1", "1"), ("1/2", "2"), ("1/4", "3"), ("1/2", "2"), ("2", "4"), ("1", "5")] * 10
    for gpu, cpu in asked:
        make.job(ada, gpu=gpu, cpu=cpu)
    world = load_world()
    history = RequestHistory(tuple(kind.sellable_mib for kind in world.kinds))
    for job in sorted(world.snapshot.waiting, key=lambda job: job.job):
        history.add(job.gang)
    taught = world.snapshot.copy()
    taught.typical = taught.wishes = None
    assert history.teach(taught)
    for name in ("count", "cpu_milli", "gpus", "need"):
        assert np.array_equal(getattr(taught.typical, name), getattr(world.snapshot.typical, name))
    for name in ("count", "cpu_milli", "milli", "accepts"):
        assert np.array_equal(getattr(taught.wishes, name), getattr(world.snapshot.wishes, name))


def test_without_any_job_nothing_is_usual(ada):
    assert load_world().snapshot.typical is None


def test_a_quarter_goes_where_it_leaves_a_half(ada):
    """n1 has three quarters free and n2 a half: the fuller card is n2, but halves are usual."""
    first, second = Gpu.objects.order_by("pk")
    make.start(make.job(ada, gpu="1/4", cpu="100m"), first)
    make.start(make.job(ada, gpu="1/2", cpu="100m"), second)
    for _ in range(30):
        make.job(ada, gpu="1/2", cpu="100m", hold=True)
    job = make.job(ada, gpu="1/4", cpu="100m")
    tasks.cycle()
    assert job.newest_tasks.get().node.name == "n1"
