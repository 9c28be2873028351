"""Jobs that make room for others: stopped by the real cycle, queued again, and run once more when there is room."""

import re

import pytest
from django.utils import timezone

from events.models import Event
from jobs.control import stop_job
from jobs.jobfile.spec import from_json, roles_of
from jobs.models import Job
from jobs.states import JobState
from portal.wording.events import describe_event
from quotas.models import Quota
from runtimes.contract.task import Checkpoint
from scheduler.loading.snapshots import load_world
from scheduler.preview.preview import forecast_job, plan_job
from scheduler.reconcile.task_specs import build_checkpoint
from tests import make
from tests.runtimes.worlds import wait_for
from tests.scheduler.test_main_job import drive

pytestmark = pytest.mark.django_db(transaction=True)

CARD = {"gpu": "1", "run": "sleep 60", "pool": "train"}


def settle(job: Job, attempt: int) -> Job:
    """Until the job runs for the n-th time."""
    for _ in range(5):
        job = drive(job, JobState.RUNNING)
        if job.attempt == attempt:
            return job
    raise AssertionError(f"{job.public_id} is in attempt {job.attempt}")


def test_a_higher_class_stops_a_willing_job_which_runs_again_afterwards(local, ada):
    low = drive(make.job(ada, priority="low", preemptible=True, **CARD), JobState.RUNNING)
    high = drive(make.job(ada, priority="high", **CARD), JobState.RUNNING)
    low.refresh_from_db()
    assert (low.state, low.attempt) == (JobState.QUEUED, 2)
    first = low.tasks.get(attempt=1)
    assert (first.state, first.reason) == ("STOPPED", "preempted")
    stop_job(actor=ada, job=high)
    low = settle(low, attempt=2)
    assert low.retries_left == Job.objects.get(pk=high.pk).retries_left


SAVES = """
[ -e {0}/step ] && {{ echo found $(cat {0}/step); exec sleep 60; }}
mkdir -p {0}
trap 'echo 41 > {0}/step; exit 0' USR1
echo listens
while :; do sleep 0.1; done
"""


def saver(ada, folder: str, **more) -> Job:
    """A running job that listens for the wish to save its work, which it finds again in its next attempt."""
    checkpoint = {"dir": folder, "signal": "SIGUSR1", "grace": "20s"}
    return make.job(ada, checkpoint=checkpoint, **CARD | {"run": SAVES.format(folder)} | more)


def until_it_says(local, job: Job, words: str) -> Job:
    job = drive(job, JobState.RUNNING)
    task = job.newest_tasks.get().uuid.hex
    wait_for(lambda: words in local.logs.read(task, 0, 4096)[0].decode())
    return job


@pytest.mark.parametrize(("folder", "data"), [("~/ckpt", {}), ("out", {"out": "home:7"}), ("out", {"out": "team:run"})])
def test_a_job_saves_its_work_before_it_makes_room_and_finds_it_again(local, ada, folder, data):
    low = until_it_says(local, saver(ada, folder, priority="low", preemptible=True, data=data), "listens")
    high = drive(make.job(ada, priority="high", **CARD), JobState.RUNNING)
    first = low.tasks.get(attempt=1)
    assert (first.state, first.reason, first.exit_code) == ("STOPPED", "preempted", 0)
    assert first.started_at < first.checkpointed_at < first.ended_at
    told = describe_event(Event.objects.get(kind="task", to_state="STOPPED"), alone=True)
    assert re.fullmatch(r"Task main made room for others, \ds after its last checkpoint", told)
    stop_job(actor=ada, job=high)
    until_it_says(local, settle(low, attempt=2), "found 41")


def test_a_job_that_a_person_stops_saves_its_work_first(local, ada):
    job = until_it_says(local, saver(ada, "~/ckpt"), "listens")
    stop_job(actor=ada, job=job)
    task = drive(job, JobState.CANCELLED).tasks.get()
    assert task.exit_code == 0 and task.checkpointed_at is not None


def test_a_pool_bounds_the_grace_of_its_jobs(local, ada):
    job = make.job(ada, checkpoint={"dir": "ckpt", "grace": "5m"}, **CARD)
    make.Pool.objects.filter(name="train").update(max_grace_s=30)
    spec = from_json(job.spec)
    assert build_checkpoint(Job.objects.get(pk=job.pk), spec, roles_of(spec)[0]) == Checkpoint("ckpt", "", 30)


def test_a_team_takes_back_its_guarantee_and_says_so_meanwhile(local, ada):
    vision = make.team("vision")
    make.quota(vision, make.Pool.objects.get(name="train"))
    eve = make.user("eve", vision)
    borrowed = drive(make.job(eve, preemptible=True, **CARD), JobState.RUNNING)
    Quota.objects.filter(team__name="nlp", pool__name="train").update(gpu_milli_guarantee=1000)
    mine = drive(make.job(ada, **CARD), JobState.RUNNING)
    borrowed.refresh_from_db()
    assert borrowed.tasks.get(attempt=1).reason == "reclaimed" and borrowed.state == JobState.QUEUED
    assert mine.attempt == 1


def test_short_work_stops_a_far_longer_job_where_the_pool_says_so_and_only_so_often(local, ada, client):
    make.Pool.objects.filter(name="train").update(short_first=True, stop_longer=2, most_stops=1)
    long = drive(make.job(ada, preemptible=True, time="10h", **CARD), JobState.RUNNING)
    assert plan_job(ada, from_json(long.spec | {"time": "10m"})).reasons[0]["code"] == "making_room"
    short = drive(make.job(ada, time="10m", **CARD), JobState.RUNNING)
    long.refresh_from_db()
    assert (long.state, long.attempt, long.stops, long.retries_left) == (JobState.QUEUED, 2, 1, short.retries_left)
    assert (short.stops, long.tasks.get(attempt=1).reason) == (0, "overtaken")
    assert minutes_to(forecast_job(long).start.p50) == pytest.approx(10, abs=1)
    client.force_login(ada)
    assert "Stopped to let shorter work run first." in client.get(f"/j/{long.public_id}/").content.decode()

    stop_job(actor=ada, job=short)
    long = settle(long, attempt=2)
    (running,) = load_world().snapshot.running
    waited_s = long.tasks.get(attempt=2).assigned_at - long.queued_at
    assert (running.stops, running.waited_s) == (1, pytest.approx(waited_s.total_seconds()))
    with pytest.raises(AssertionError, match="QUEUED"):
        drive(make.job(ada, time="10m", **CARD), JobState.RUNNING, seconds=1)
    long.refresh_from_db()
    assert (long.state, long.attempt) == (JobState.RUNNING, 2)


def test_nobody_is_stopped_for_shorter_work_where_the_pool_does_not_say_so(local, ada):
    long = drive(make.job(ada, preemptible=True, time="10h", **CARD), JobState.RUNNING)
    with pytest.raises(AssertionError, match="QUEUED"):
        drive(make.job(ada, time="10m", **CARD), JobState.RUNNING, seconds=1)
    long.refresh_from_db()
    assert (long.state, long.attempt) == (JobState.RUNNING, 1)


def minutes_to(at) -> float:
    return (at - timezone.now()).total_seconds() / 60


def test_a_job_that_was_not_asked_is_never_stopped(local, ada):
    low = drive(make.job(ada, priority="low", **CARD), JobState.RUNNING)
    urgent = make.job(ada, priority="high", **CARD)
    with pytest.raises(AssertionError, match="QUEUED"):
        drive(urgent, JobState.RUNNING, seconds=1)
    low.refresh_from_db()
    assert low.state == JobState.RUNNING and low.attempt == 1


def test_a_job_stopped_by_its_owner_while_it_makes_room_stays_stopped(local, ada):
    low = drive(make.job(ada, priority="low", preemptible=True, **CARD), JobState.RUNNING)
    drive(make.job(ada, priority="high", **CARD), JobState.STARTING, JobState.RUNNING)
    stop_job(actor=ada, job=Job.objects.get(pk=low.pk))
    low = drive(low, JobState.CANCELLED)
    assert low.reason == "stopped_by_user"
