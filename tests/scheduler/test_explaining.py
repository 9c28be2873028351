"""Reasons are written at once where somebody would notice, the rest a little later: a long queue costs little."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.models import Event
from jobs.models import Job
from scheduler.commit import explaining
from scheduler.commit.explaining import explain_jobs, load_stored_reasons
from scheduler.commit.steps import ExplainJobs
from scheduler.core.model.types import Refusal
from scheduler.lease import lead
from scheduler.loading.row_cache import caching, read_change_mark
from scheduler.loading.snapshots import load_queue
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def jobs(monkeypatch):
    """Three jobs that wait, explained once as a, b, c; only the first place counts as near the front."""
    nlp, dev = make.team("nlp"), make.pool("dev")
    make.quota(nlp, dev)
    ada = make.user("ada", nlp)
    jobs = [make.job(ada, gpu=0).pk for _ in range(3)]
    monkeypatch.setattr(explaining, "NEAR_FRONT", 1)
    explain({job: (code, place, 3) for place, (job, code) in enumerate(zip(jobs, "abc", strict=True), start=1)})
    return jobs


def explain(told: dict[int, tuple[str, int, int]], **params) -> None:
    refusals = {job: [Refusal(code, params)] for job, (code, _, _) in told.items()}
    positions = {job: place for job, (_, *place) in told.items()}
    with lead("cycle") as epoch:
        explain_jobs(ExplainJobs(refusals, {job: (place, of) for job, (place, of) in positions.items()}), epoch)


def stored() -> list[tuple]:
    rows = Job.objects.order_by("pk").values_list("wait_reasons", "wait_position", "wait_of")
    return [(reasons[0]["code"] if reasons else "", position, of) for reasons, position, of in rows]


def test_who_was_never_told_is_told_at_once_and_no_event_is_made(jobs):
    assert stored() == [("a", 1, 3), ("b", 2, 3), ("c", 3, 3)]
    assert set(Event.objects.filter(kind="job").values_list("seq", flat=True)) == {1}


def test_a_new_code_is_told_at_once_wherever_the_job_stands(jobs):
    explain({jobs[0]: ("a", 1, 3), jobs[1]: ("b", 2, 3), jobs[2]: ("d", 3, 3)})
    assert stored()[2] == ("d", 3, 3)


def test_a_new_place_is_told_at_once_near_the_front_only(jobs):
    explain({jobs[1]: ("b", 1, 2), jobs[2]: ("c", 2, 2)})
    assert stored() == [("a", 1, 3), ("b", 1, 2), ("c", 3, 3)]


def test_numbers_are_told_when_they_are_old_the_oldest_first(jobs, monkeypatch):
    monkeypatch.setattr(explaining, "REFRESH_REASONS_S", 0)
    monkeypatch.setattr(explaining, "MOST_REFRESHED", 1)
    told = {jobs[1]: ("b", 4, 9), jobs[2]: ("c", 5, 9)}
    Job.objects.filter(pk=jobs[2]).update(explained_at="2020-01-01T00:00Z")
    explain(told)
    assert stored()[1:] == [("b", 2, 3), ("c", 5, 9)]
    explain(told)
    assert stored()[1:] == [("b", 4, 9), ("c", 5, 9)]


def test_what_is_the_same_is_not_written_again(jobs, monkeypatch):
    monkeypatch.setattr(explaining, "REFRESH_REASONS_S", 0)
    before = list(Job.objects.order_by("pk").values_list("explained_at", flat=True))
    explain({jobs[0]: ("a", 1, 3), jobs[1]: ("b", 2, 3), jobs[2]: ("c", 3, 3)})
    assert list(Job.objects.order_by("pk").values_list("explained_at", flat=True)) == before


def test_a_job_that_no_longer_waits_is_left_as_it_is(jobs):
    Job.objects.filter(pk=jobs[0]).update(state="CANCELLED")
    explain({jobs[0]: ("d", 1, 3)})
    assert stored()[0] == ("a", 1, 3)


def test_who_holds_a_job_is_named(jobs):
    Job.objects.filter(pk=jobs[0]).update(held_by="bob")
    explain({jobs[0]: ("held", 1, 3)})
    assert Job.objects.get(pk=jobs[0]).wait_reasons == [{"code": "held", "params": {"who": "bob"}}]


def test_what_was_written_is_known_and_not_read_again(jobs):
    Job.objects.update(explained_at="2020-01-01T00:00Z")
    with caching(read_change_mark()):
        load_stored_reasons(), load_queue()
        explain({job: ("d", place, 3) for place, job in enumerate(jobs, start=1)}, n=7)
    with caching(read_change_mark()), CaptureQueriesContext(connection) as seen:
        told, queue = load_stored_reasons(), load_queue()
    assert not seen.captured_queries
    assert told == load_stored_reasons() and queue == load_queue()  # as one reads them that remembers nothing
    assert [row.codes for row in told] == [["d"]] * 3


def test_a_job_that_changed_meanwhile_is_left_to_the_next_cycle(jobs):
    with caching(read_change_mark()):
        load_stored_reasons()
        Job.objects.filter(pk=jobs[0]).update(priority=3)
        explain({job: ("d", place, 3) for place, job in enumerate(jobs, start=1)})
    assert [code for code, _, _ in stored()] == ["a", "d", "d"]
    with caching(read_change_mark()):
        assert load_queue()[0].priority == 3
