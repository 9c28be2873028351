"""Simulated cards of a cluster's nodes: traces by the usual road, where no agent looks."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Task
from jobs.states import TaskState
from monitoring.models import CardNow, TaskNow
from monitoring.samples import pace
from runtimes.local.simulated_load import build_load
from scheduler import tasks
from scheduler.reconcile import simulated_samples
from scheduler.reconcile.simulated_samples import list_unwatched_nodes, sample_simulated_cards
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock(monkeypatch):
    """Each sample is a minute after the one before, and none is too early."""
    begun = timezone.now().timestamp()

    class Clock:
        now_s = begun

        def time(self) -> float:
            return self.now_s

    clock = Clock()
    monkeypatch.setattr(simulated_samples, "time", clock)
    monkeypatch.setattr(simulated_samples, "claim_sample", lambda name: True)
    return clock


@pytest.fixture
def task(clock) -> Task:
    """Half of a card of a node, which has run for ten minutes under the trace `hot`."""
    cast = make.cast()
    job = make.job(cast.ada, gpu="1/2", labels={"simulated-trace": "hot"})
    (task,) = make.start(job, cast.gpus[0])
    Task.objects.filter(pk=task.pk).update(started_at=timezone.now() - timedelta(minutes=10))
    return task


def test_tasks_on_simulated_cards_of_a_cluster_have_traces(task, clock):
    assert sample_simulated_cards() == 1
    clock.now_s += 60
    assert sample_simulated_cards() == 1
    now = TaskNow.objects.get(task=task)
    load = build_load("hot", task.uuid.hex)
    (share,) = now.shares
    assert share["source"] == "simulated" and share["busy_percent"] == pytest.approx(load.read_activity(660) / 2, abs=2)
    assert now.cpu_milli is None  # nobody looks at its processes
    held, other = CardNow.objects.order_by("gpu__index")
    assert held.busy_percent == pytest.approx(share["busy_percent"], abs=0.1) and held.source == "simulated"
    assert (other.busy_percent, other.used_mib) == (0, 0)


def test_where_an_agent_is_or_nothing_runs_nobody_simulates(task):
    assert [node.name for node in list_unwatched_nodes()] == ["n1"]
    agent = make.agent(task.node, make.report(make.reported_gpu(0)))
    assert not list_unwatched_nodes()
    agent.delete()
    make.move(task, TaskState.SUCCEEDED)
    assert not list_unwatched_nodes()


def test_real_cards_are_never_simulated(task):
    task.node.gpus.update(simulated=False)
    assert not list_unwatched_nodes() and sample_simulated_cards() == 0


def test_with_the_caches_server_away_nothing_is_sampled_and_nothing_fails(task, settings):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:9"}}
    assert sample_simulated_cards() == 1 and not CardNow.objects.exists()


def test_the_beat_samples_them_where_the_platform_sees_no_machine(task, monkeypatch):
    monkeypatch.setattr(tasks, "get_sampler", lambda: None)
    tasks.sample_when_due()
    assert CardNow.objects.filter(source="simulated").exists()


def test_a_node_is_sampled_at_its_pace(task, monkeypatch):
    monkeypatch.setattr(simulated_samples, "claim_sample", pace.claim_sample)
    assert (sample_simulated_cards(), sample_simulated_cards()) == (1, 0)
