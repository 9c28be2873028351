"""What the scheduler counts on of a notebook with an end, and of a job with a time limit."""

from datetime import timedelta
from math import inf

import pytest
from django.utils import timezone

from jobs.models import Job
from notebooks import tasks as notebook_tasks
from notebooks.models import Notebook
from notebooks.services import create_notebook, extend_notebook, start_notebook
from scheduler.loading.snapshots import load_world
from tests import make
from tests.described_world import make_room

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(settings, tmp_path):
    make_room(settings, tmp_path)
    return make.cast()


def started(cast, **hours):
    notebook = create_notebook(user=cast.ada, name="lab", gpu="1/4", **hours)
    return start_notebook(actor=cast.ada, notebook=notebook, check=lambda draft: None, containers=False)


def waiting():
    (times,) = {(job.time_s, job.limit_s) for job in load_world().snapshot.waiting}  # the same in each pool
    return times


def running():
    (job,) = load_world().snapshot.running
    return job.time_s, job.limit_s, job.ends_at - timezone.now().timestamp()


def test_a_notebook_with_hours_ends_when_they_are_over(cast):
    notebook = started(cast, hours=2)
    assert waiting() == (7200, 7200)
    job = Notebook.objects.get(pk=notebook.pk).job
    make.start(job)
    notebook_tasks.keep_time()
    time_s, limit_s, left = running()
    assert time_s == limit_s == 7200 and left == pytest.approx(7200, abs=30)


def test_one_that_is_extended_is_counted_on_for_longer(cast):
    notebook = started(cast, hours=2)
    make.start(Notebook.objects.get(pk=notebook.pk).job)
    notebook_tasks.keep_time()
    extend_notebook(actor=cast.ada, notebook=Notebook.objects.get(pk=notebook.pk), hours=3)
    time_s, limit_s, left = running()
    assert time_s == limit_s == 5 * 3600 and left == pytest.approx(5 * 3600, abs=30)


def test_one_without_hours_has_those_that_its_owner_may_have(cast):
    make.limit(cast.ada, notebook_hours=5)
    started(cast)
    assert waiting() == (5 * 3600, 5 * 3600)


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ({"time": "1h"}, (3600, inf)),
        ({"max_time": "2h"}, (7200, 7200)),
        ({"time": "1h", "max_time": "2h"}, (3600, 7200)),
        ({}, (inf, inf)),
    ],
)
def test_a_job_counts_by_its_estimate_within_its_limit(cast, said, counted):
    make.job(cast.ada, **said)
    assert waiting() == counted


def test_a_job_that_has_outlived_its_estimate_ends_at_its_limit(cast):
    job = make.job(cast.ada, time="1h", max_time="2h")
    make.start(job)
    started = timezone.now() - timedelta(minutes=90)
    Job.objects.get(pk=job.pk).newest_tasks.update(started_at=started)
    assert running()[2] == pytest.approx(1800, abs=30)
