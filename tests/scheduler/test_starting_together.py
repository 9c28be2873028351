"""Jobs that are alike start in one transaction, and each is judged by itself where that fails."""

import make
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.control import hold_job
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from quotas.models import Holding, Quota
from scheduler import commit, tasks
from scheduler.commit import list_together, run_steps
from scheduler.core.cycle import run_cycle
from scheduler.lease import leading
from scheduler.snapshots import load_world
from scheduler.steps import build_steps

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def nlp():
    train, nlp = make.pool("train"), make.team("nlp")
    for number in range(8):
        node = make.node(f"n{number}", pool=train)
        for _ in range(4):
            make.gpu(node)
    make.quota(nlp, train)
    return nlp


def decide():
    world = load_world()
    return build_steps(run_cycle(world.snapshot, world.policy, 0.0), world)


def perform(steps) -> int:
    with leading("cycle") as epoch:
        return run_steps(steps, epoch)


def test_a_cycle_asks_as_much_for_many_starts_as_for_few(nlp):
    bob, counts = make.user("bob", nlp), []
    for more in (2, 2, 20):
        for _ in range(more):
            make.job(bob, pool="train", gpu=1)
        with CaptureQueriesContext(connection) as seen:
            tasks.cycle()
        counts.append(len(seen))
    assert Job.objects.filter(state=JobState.STARTING).count() == 24
    assert Holding.objects.live().filter(gpu__isnull=False).values("gpu").distinct().count() == 24
    assert counts[2] <= counts[1] + 1  # what is usually asked is looked up after many submits


def test_each_is_written_as_if_it_had_started_alone(nlp):
    bob = make.user("bob", nlp)
    alone, *others = [make.job(bob, pool="train", gpu=1, cpu=cpu, memory="1GiB") for cpu in (1, 2, 3)]
    first, *together = decide()
    assert perform([first]) + perform(together) == 3
    for job in (alone, *others):
        (task,) = Task.objects.filter(job=job)
        assert (task.state, task.cpu_milli) == (TaskState.ASSIGNED, job.request["cpu_milli"])
        assert Holding.objects.live().filter(task=task.uuid, node=task.node).count() == 2
        assert task.cards[0]["uuid"] and task.ports["master"] and task.assigned_at


def test_who_was_held_meanwhile_takes_none_of_the_others_with_it(nlp):
    bob = make.user("bob", nlp)
    jobs = [make.job(bob, pool="train", gpu=1) for _ in range(3)]
    steps = decide()
    hold_job(actor=bob, job=jobs[1])
    assert perform(steps) == 2
    assert [Job.objects.get(pk=job.pk).state for job in jobs] == ["STARTING", "QUEUED", "STARTING"]


def test_limits_that_fell_meanwhile_hold_for_all_together(nlp):
    bob = make.user("bob", nlp)
    for _ in range(3):
        make.job(bob, pool="train", gpu=1)
    steps = decide()
    Quota.objects.update(gpu_milli_limit=2000)
    assert perform(steps) == 2
    make.limit(bob, jobs_running=1)
    Quota.objects.update(gpu_milli_limit=None)
    assert perform(steps) == 0


def test_only_jobs_of_one_person_start_in_one_transaction(nlp):
    bob, cyd = make.user("bob", nlp), make.user("cyd", nlp)
    owners = [make.job(person, pool="train", gpu=1).user for person in (bob, bob, cyd)]
    assert owners == [bob, bob, cyd]
    assert sorted(len(alike) for alike in list_together(decide())) == [1, 2]


def test_what_takes_too_long_is_left_to_the_next_cycle(nlp, monkeypatch):
    make.job(make.user("bob", nlp), pool="train", gpu=1)
    steps = decide()
    monkeypatch.setattr(commit, "STARTING_S", 0.0)
    assert perform(steps) == 0
    monkeypatch.setattr(commit, "STARTING_S", 9.0)
    assert perform(steps) == 1
