"""What was found possible is not judged again, until something changes that could make it impossible."""

import time
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cluster.models import Gpu
from common.errors import Impossible
from jobs.jobfile.parse import parse_spec
from jobs.submit import submit_job
from quotas.models import Quota
from quotas.services import get_default_limit
from scheduler.preview import feasibility_cache, preview
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def looks(monkeypatch):
    """How often the cluster was loaded to judge."""
    seen, load = [], preview.load_present_world
    monkeypatch.setattr(preview, "load_present_world", lambda **how: seen.append(how) or load(**how))
    return seen


@pytest.fixture
def cast():
    """A person's first submit makes rows for their limits."""
    feasibility_cache.clear_cache()
    cast = make.cast()
    get_default_limit()
    for person in (cast.ada, cast.bob):
        make.limit(person)
    return cast


def submit(person, **spec):
    asked = parse_spec({"run": "true", "name": "a job", "pool": "train", **spec})
    return submit_job(user=person, spec=asked, check=preview.check_possible, containers=True)


def test_alike_jobs_are_judged_once(cast, looks):
    for _ in range(3):
        submit(cast.ada, gpu="1")
    assert len(looks) == 1
    submit(cast.ada, gpu="1", priority="high")
    submit(cast.bob, gpu="1")
    assert len(looks) == 3


def test_what_runs_meanwhile_changes_nothing(cast, looks):
    make.start(submit(cast.ada, gpu="1"))
    submit(cast.ada, gpu="1")
    assert len(looks) == 1


def test_a_limit_that_falls_is_seen_at_once(cast):
    submit(cast.ada, gpu="1")
    Quota.objects.filter(team=cast.nlp, pool=cast.train).update(gpu_milli_limit=500)
    with pytest.raises(Impossible):
        submit(cast.ada, gpu="1")
    Quota.objects.filter(team=cast.nlp, pool=cast.train).update(gpu_milli_limit=None)
    submit(cast.ada, gpu="1")


def test_a_card_that_goes_is_seen_a_second_later(cast, monkeypatch):
    submit(cast.ada, gpu="1")
    Gpu.objects.filter(pool=cast.train).update(removed_at="2026-01-01T00:00Z")
    later = time.monotonic() + feasibility_cache.REFRESH_S
    monkeypatch.setattr(feasibility_cache, "time", SimpleNamespace(monotonic=lambda: later))
    with pytest.raises(Impossible):
        submit(cast.ada, gpu="1")


def test_machines_are_looked_at_once_in_a_while_however_many_submit(cast, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(feasibility_cache, "time", SimpleNamespace(monotonic=lambda: now))
    submit(cast.ada, gpu="1", cpu=1, memory="1GiB")
    with CaptureQueriesContext(connection) as seen:
        for _ in range(3):
            submit(cast.ada, gpu="1", cpu=1, memory="1GiB")
    assert not [each for each in seen.captured_queries if '"cluster_gpu"' in each["sql"]]


def test_what_was_impossible_is_judged_each_time(cast, looks):
    for _ in range(2):
        with pytest.raises(Impossible):
            submit(cast.ada, gpu="9")
    assert len(looks) == 2


def test_a_pool_that_does_not_suit_is_asked_once_by_those_who_name_none(cast, looks):
    """A slice is possible in `dev` only."""
    for _ in range(3):
        assert submit(cast.ada, gpu="1/4", pool=None).pool == cast.dev
    assert len(looks) == 2


def test_a_job_that_suits_no_pool_is_possible_once_a_limit_is_gone(cast):
    Quota.objects.filter(team=cast.nlp).update(gpu_milli_limit=500)
    for _ in range(2):
        with pytest.raises(Impossible):
            submit(cast.ada, gpu="1", pool=None)
    Quota.objects.filter(team=cast.nlp).update(gpu_milli_limit=None)
    submit(cast.ada, gpu="1", pool=None)
