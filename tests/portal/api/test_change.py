"""What a waiting job asks for, changed by REST: it keeps its id, its history and its place in the queue."""

import time

import pytest

from events.models import Event
from jobs import changing
from jobs.changing import change_job
from jobs.models import Job, Task
from jobs.states import JobState
from portal.wording.events import describe_event
from scheduler.commit.step_runner import run_steps
from scheduler.commit.steps import StartJob, build_steps
from scheduler.core.cycle import run_cycle
from scheduler.lease import acquire
from scheduler.loading.snapshots import load_world
from scheduler.preview.preview import check_possible
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cast):
    return make.job(cast.ada, gpu="1", pool="train")


def change(person, job, **changes):
    return person.patch(f"jobs/{job.public_id}", changes)


def code_of(answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_it_keeps_all_but_what_is_changed(ada, job):
    before = Job.objects.get(pk=job.pk)
    answer = change(ada, job, gpu="1/2", pool="dev", time="2h", preemptible=True)
    assert answer.status_code == 200, answer.json()
    after = Job.objects.get(pk=job.pk)
    assert (after.pool.name, after.time_s, after.preemptible) == ("dev", 7200, True)
    assert after.gang[0]["request"]["gpu"] == "1/2"
    kept = ("submitted_at", "priority", "attempt", "name", "state", "queued_at", "retries_left")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert answer.json()["spec"]["gpu"] == "1/2" and answer.json()["pool"] == "dev"
    event = ada.get(f"jobs/{job.public_id}/events").json()["results"][-1]
    assert (event["verb"], event["actor"]) == ("changed", "ada")
    assert event["params"]["changes"]["time"] == {"was": None, "now": "2h"}
    words = describe_event(Event.objects.get(verb="changed"))
    assert words == (
        "Changed while waiting: gpu from 1 to 1/2, pool from train to dev, time from none to 2h, "
        "preemptible from none to true"
    )


def test_null_is_the_default_again(ada, cast):
    job = make.job(cast.ada, gpu="1/4", pool="dev", time="2h", cpu=3)
    usual = make.job(cast.ada, gpu="1/4", pool="dev").gang
    assert change(ada, job, time=None, cpu=None).status_code == 200
    after = Job.objects.get(pk=job.pk)
    assert (after.time_s, after.gang) == (None, usual)


def test_a_gang_has_as_many_tasks_as_it_asks_for(ada, cast):
    make.gpu(make.node("n2", pool=cast.train), pool=cast.train)
    job = make.job(cast.ada, gpu="1", pool="train", nodes=2)
    assert change(ada, job, nodes=1).status_code == 200
    assert [task.rank for task in Task.objects.filter(job=job)] == [0]
    assert change(ada, job, nodes=2).status_code == 200
    assert sorted(Task.objects.filter(job=job).values_list("rank", "state")) == [(0, "PENDING"), (1, "PENDING")]


@pytest.mark.parametrize(
    ("changes", "status", "pointer", "code"),
    [
        ({}, 400, "", "nothing_to_change"),
        ({"run": "true"}, 400, "/run", "not_changeable"),
        ({"retry": 2}, 400, "/retry", "not_changeable"),
        ({"gpu": "1/0"}, 400, "/gpu", None),
        ({"pool": "none"}, 400, "/pool", "unknown_pool"),
        ({"gpu": "8"}, 422, "/gpu", None),
    ],
)
def test_what_cannot_be_is_refused_by_its_field_and_nothing_is_written(ada, job, changes, status, pointer, code):
    answer = change(ada, job, **changes)
    (error, *_) = answer.json()["errors"]
    assert (answer.status_code, error["pointer"]) == (status, pointer)
    assert code in (None, error["code"])
    assert Job.objects.get(pk=job.pk).spec == job.spec


def test_who_left_the_queue_is_not_changed(ada, cast, job):
    make.start(job)
    assert code_of(change(ada, job, time="2h")) == (409, "only_waiting_jobs_change")


def test_two_who_change_it_at_once_do_not_undo_each_other(cast, job):
    read = Job.objects.get(pk=job.pk)
    can = {"check": check_possible, "containers": False}
    change_job(actor=cast.ada, job=Job.objects.get(pk=job.pk), changes={"time": "2h"}, **can)
    with pytest.raises(changing.StaleState):
        change_job(actor=cast.ada, job=read, changes={"preemptible": True}, **can)
    assert Job.objects.get(pk=job.pk).time_s == 7200


def test_a_plan_that_was_made_before_starts_nothing(ada, cast, job):
    """Its place is for what the job asked for then."""
    epoch, world = acquire("cycle"), load_world()
    steps = build_steps(run_cycle(world.snapshot, world.policy, time.time()), world)
    assert [step.job_id for step in steps if isinstance(step, StartJob)] == [job.pk]
    assert change(ada, job, cpu=1).status_code == 200
    assert run_steps(steps, epoch) == 0
    assert Job.objects.get(pk=job.pk).state == JobState.QUEUED
    world = load_world()
    steps = build_steps(run_cycle(world.snapshot, world.policy, time.time()), world)
    assert run_steps(steps, epoch) == 1


def test_it_is_the_owners(cast, job):
    assert change(Api(make.token(cast.bob)), job, time="2h").status_code == 403
    assert change(Api(make.token(cast.eve)), job, time="2h").status_code == 404
    assert Job.objects.get(pk=job.pk).state == JobState.QUEUED
