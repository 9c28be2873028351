"""Samples of a running job, from its processes to its rows; and jobs that live on with samples all broken."""

import pytest
from django.db import connection

from jobs.models import Job
from jobs.states import JobState
from monitoring.models import CardNow, TaskNow
from runtimes.local.sampler import LocalSampler
from scheduler import tasks
from tests import make
from tests.runtimes.worlds import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sampler(local, monkeypatch):
    sampler = LocalSampler(local)
    monkeypatch.setattr(tasks, "get_sampler", lambda: sampler)
    return sampler


def run_until(job: Job, state: str) -> None:
    def is_there() -> bool:
        tasks.sample()
        tasks.cycle()
        tasks.reconcile()
        return Job.objects.get(pk=job.pk).state == state

    wait_for(is_there)


@pytest.mark.parametrize(("labels", "least", "most"), [({}, 0, 5), ({"simulated-trace": "hot"}, 2, 50)])
def test_a_running_job_is_sampled(sampler, ada, labels, least, most):
    """Half of a simulated card, in its first seconds: training still loads data, what the label names is faster."""
    job = make.job(ada, run="sleep 60", gpu="1/2", cpu="100m", memory="128MiB", labels=labels)
    run_until(job, JobState.RUNNING)

    def was_counted() -> bool:
        tasks.sample()
        row = TaskNow.objects.filter(task__job=job).first()
        return row is not None and row.memory_mib is not None and "busy_percent" in row.shares[0]

    wait_for(was_counted)
    task, card = TaskNow.objects.get(), CardNow.objects.get(gpu__uuid=TaskNow.objects.get().shares[0]["uuid"])
    assert task.processes >= 1 and task.cpu_ms >= 0 and task.peak_mib >= task.memory_mib
    assert task.shares[0]["source"] == card.source == "simulated"
    assert least <= task.shares[0]["busy_percent"] <= most and card.busy_percent == task.shares[0]["busy_percent"]
    other = CardNow.objects.exclude(pk=card.pk).get()
    assert (other.busy_percent, other.used_mib) == (0.0, 0)


def break_ingest(monkeypatch, sampler):
    def fail(*_):
        raise OSError("broken")

    monkeypatch.setattr(tasks, "take_samples", fail)


def break_sampler(monkeypatch, sampler):
    def fail():
        raise OSError("broken")

    monkeypatch.setattr(sampler, "take", fail)


def break_totals(monkeypatch, sampler):
    sampler.file.mkdir(parents=True)


def break_tables(monkeypatch, sampler):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE monitoring_tasknow RENAME TO gone")


@pytest.fixture
def whole_tables():
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE IF EXISTS gone RENAME TO monitoring_tasknow")


@pytest.mark.parametrize("ruin", [break_ingest, break_sampler, break_totals, break_tables])
def test_with_samples_broken_jobs_queue_start_and_end_as_before(sampler, ada, monkeypatch, whole_tables, ruin):
    ruin(monkeypatch, sampler)
    first = make.job(ada, run="sleep 0.2", gpu="1/2", cpu="100m", memory="128MiB")
    second = make.job(ada, run="exit 3", gpu="1/2", cpu="100m", memory="128MiB")
    run_until(first, JobState.SUCCEEDED)
    run_until(second, JobState.FAILED)


def test_where_agents_sample_the_platform_looks_at_nothing(local, monkeypatch):
    monkeypatch.setattr(tasks, "get_sampler", lambda: None)
    tasks.sample()
    assert not CardNow.objects.exists()
