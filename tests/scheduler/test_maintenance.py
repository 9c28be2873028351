"""Machines in maintenance, by the real cycle on the real database: nothing new starts there, and who is stopped."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from cluster.maintenance import end_maintenance
from cluster.models import Maintenance, Node
from events.record_and_publish import SYSTEM
from jobs.models import Job
from jobs.pricing.expected_length import LEAST_S, UNKNOWN_S, expected_length
from jobs.states import JobState
from scheduler.commit.starting import DoesNotFit, check_maintenance
from scheduler.core.model.types import Plan
from scheduler.loading.change_detection import LOOK_AGAIN_S, compute_idle_period
from scheduler.loading.row_cache import read_change_mark
from scheduler.loading.snapshots import load_world
from tests import make
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def node(local):
    return Node.objects.get()


def stays_queued(job):
    with pytest.raises(AssertionError, match="QUEUED"):
        drive(job, JobState.RUNNING, seconds=1)
    job.refresh_from_db()
    return job.wait_reasons[0]


def test_a_job_waits_with_words_and_starts_when_the_maintenance_is_called_off(node, ada):
    row = make.maintenance(node, begins_in_s=600)
    short = drive(make.job(ada, run="sleep 60", time="5m"), JobState.RUNNING)
    job = make.job(ada, run="sleep 60", time="1h")
    reason = stays_queued(job)
    assert reason["code"] == "maintenance" and reason["params"]["nodes"] == [node.name]
    assert reason["params"]["until"] == pytest.approx(row.ends_at.timestamp())
    end_maintenance(actor=SYSTEM, maintenance=row)
    assert drive(job, JobState.RUNNING).state == JobState.RUNNING
    assert drive(short, JobState.RUNNING).state == JobState.RUNNING


def test_when_it_begins_what_may_be_stopped_is_queued_again_and_the_rest_goes_on(node, ada):
    firm = drive(make.job(ada, run="sleep 60"), JobState.RUNNING)
    soft = drive(make.job(ada, run="sleep 60", preemptible=True), JobState.RUNNING)
    row = make.maintenance(node, stops=True)
    drive(soft, JobState.QUEUED)
    assert soft.tasks.get(attempt=1).reason == "maintenance"
    firm.refresh_from_db()
    assert firm.state == JobState.RUNNING
    end_maintenance(actor=SYSTEM, maintenance=row)
    assert drive(soft, JobState.RUNNING).tasks.count() == 2


def test_it_comes_back_by_itself(node, ada):
    make.maintenance(node, lasts_s=3)
    job = make.job(ada, run="sleep 60")
    assert stays_queued(job)["code"] == "maintenance"
    assert drive(job, JobState.RUNNING, seconds=20).state == JobState.RUNNING


@pytest.fixture
def cast():
    return make.cast()


def test_the_allocating_transaction_asks_once_more(cast):
    make.maintenance(cast.node, begins_in_s=600)
    check_maintenance([make.job(cast.ada, time="5m")], [cast.node.pk])
    for late in ({"time": "1h"}, {}):
        with pytest.raises(DoesNotFit):
            check_maintenance([make.job(cast.ada, **late)], [cast.node.pk])


def test_a_job_without_a_time_is_taken_to_last_a_day_or_what_such_jobs_took(cast):
    make.maintenance(cast.node, begins_in_s=25 * 3600)
    check_maintenance([make.job(cast.ada, pool="dev")], [cast.node.pk])
    now = timezone.now()
    for number in range(20):
        job = make.job(cast.ada, pool="dev")
        took = timedelta(hours=number + 8, seconds=5)
        Job.objects.filter(pk=job.pk).update(state=JobState.SUCCEEDED, started_at=now - took, ended_at=now)
    assert load_world().snapshot.expected_s == (25 * 3600 + 60, UNKNOWN_S)
    with pytest.raises(DoesNotFit):
        check_maintenance([make.job(cast.ada, pool="dev")], [cast.node.pk])
    check_maintenance([make.job(cast.ada, pool="train")], [cast.node.pk])


def test_a_job_that_may_be_stopped_starts_before_a_maintenance_that_stops_it(cast):
    row = make.maintenance(cast.node, begins_in_s=600, stops=True)
    job = make.job(cast.ada, preemptible=True)
    check_maintenance([job], [cast.node.pk])
    Maintenance.objects.filter(pk=row.pk).update(stops=False)
    with pytest.raises(DoesNotFit):
        check_maintenance([job], [cast.node.pk])
    Maintenance.objects.filter(pk=row.pk).update(stops=True, begins_at=timezone.now())
    with pytest.raises(DoesNotFit):
        check_maintenance([job], [cast.node.pk])


@pytest.mark.parametrize(
    ("past_s", "expected_s"),
    [([], UNKNOWN_S), ([9.0] * 19, UNKNOWN_S), ([9.0] * 20, LEAST_S), ([7201.0] * 20, 7260.0)],
)
def test_the_length_of_most(past_s, expected_s):
    assert expected_length(past_s) == expected_s
    assert expected_length([*past_s, *[1e9] * (len(past_s) // 20)]) == expected_s  # one in ten may take long


def test_the_snapshot_knows_the_machines_and_times(cast):
    row = make.maintenance(cast.node, begins_in_s=600, stops=True)
    (closing,) = load_world().snapshot.closings
    assert closing.nodes == (0,) and closing.stops
    assert (closing.at, closing.ends_at) == (row.begins_at.timestamp(), row.ends_at.timestamp())


def test_a_maintenance_that_is_planned_changed_or_of_other_machines_wakes_the_cycle(cast):
    marks = [read_change_mark()]
    row = make.maintenance(cast.node, begins_in_s=600)
    marks.append(read_change_mark())
    row.ends_at += timedelta(seconds=1)
    row.save()
    marks.append(read_change_mark())
    row.nodes.clear()
    marks.append(read_change_mark())
    assert all(before != after for before, after in pairwise(marks))


def test_a_cycle_that_rests_looks_again_when_a_maintenance_begins_and_when_it_ends(cast):
    row = make.maintenance(cast.node, begins_in_s=2, lasts_s=2)
    snapshot, begins, ends = load_world().snapshot, row.begins_at.timestamp(), row.ends_at.timestamp()
    assert compute_idle_period({}, Plan(), snapshot, begins - 1).until == begins
    assert compute_idle_period({}, Plan(), snapshot, begins).until == ends
    assert compute_idle_period({}, Plan(), snapshot, ends).until == ends + LOOK_AGAIN_S
