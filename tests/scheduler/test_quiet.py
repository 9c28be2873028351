"""A poke that finds the cluster and the queue as they were costs one look; every change is seen at once."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Gpu, Node
from jobs.models import Job
from jobs.states import JobState
from quotas.models import Quota
from scheduler import tasks
from scheduler.loading import change_detection
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada():
    """ada's team has quota for one of two cards; one job of hers runs on it and one waits."""
    dev, nlp = make.pool("dev", shared=True), make.team("nlp")
    node = make.node("n1", pool=dev)
    make.gpu(node), make.gpu(node)
    make.quota(nlp, dev, gpu_milli_limit=1000)
    ada = make.user("ada", nlp)
    make.start(make.job(ada, gpu=1))
    make.job(ada, gpu=1)
    return ada


@pytest.fixture
def cycles(ada, monkeypatch):
    """The moments of full cycles; the first two explained the queue and found nothing more to do."""
    real, seen = tasks.full_cycle, []
    monkeypatch.setattr(tasks, "full_cycle", lambda epoch, mark: seen.append(1) or real(epoch, mark))
    tasks.cycle()
    tasks.cycle()
    seen.clear()
    return seen


def test_where_nothing_changed_nothing_is_loaded(cycles):
    for _ in range(3):
        tasks.cycle()
    assert not cycles


@pytest.mark.parametrize(
    "change",
    [
        lambda ada: make.job(ada, gpu=1),
        lambda ada: make.end(Job.objects.get(state=JobState.RUNNING)),
        lambda ada: Job.objects.filter(state=JobState.RUNNING).update(stop_requested_at=timezone.now()),
        lambda ada: Quota.objects.update(gpu_milli_limit=None),
        lambda ada: Gpu.objects.filter(index=1).update(healthy=False),
        lambda ada: Node.objects.update(state="CORDONED"),
        lambda ada: make.limit(ada, jobs_running=1),
        lambda ada: make.team("vision"),
        lambda ada: make.window(make.pool("dev"), make.pool("train")),
    ],
)
def test_any_change_is_looked_at_at_once(ada, cycles, change):
    change(ada)
    tasks.cycle()
    assert len(cycles) == 1


def test_a_raised_limit_starts_the_job_that_waited_for_it(ada, cycles):
    Quota.objects.update(gpu_milli_limit=2000)
    tasks.cycle()
    assert not Job.objects.waiting().exists()


def test_after_a_while_it_looks_again_for_what_time_alone_changes(cycles, monkeypatch):
    rest = tasks._rest
    monkeypatch.setattr(tasks, "_rest", replace(rest, until=rest.until - change_detection.LOOK_AGAIN_S))
    tasks.cycle()
    tasks.cycle()
    assert len(cycles) == 1


def test_a_job_that_starts_later_ends_the_rest_at_its_moment(ada, cycles):
    Job.objects.waiting().update(not_before=timezone.now() + timedelta(seconds=2))
    tasks.cycle()
    tasks.cycle()
    due = Job.objects.waiting().get().not_before.timestamp()
    assert tasks._rest.until == due
    assert tasks._rest.covers(tasks._rest.mark, due - 0.1) and not tasks._rest.covers(tasks._rest.mark, due)
