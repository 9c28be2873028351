"""Jobs that are alike start in one transaction, and each is judged by itself where that fails."""

import pytest

from accounts.models import Team
from jobs.control import hold_job
from jobs.models import Job, Task
from jobs.states import TaskState
from quotas.models import Holding, Quota
from scheduler.commit import step_runner
from scheduler.commit.step_runner import list_batches
from tests import make
from tests.one_cycle import decide, perform

pytestmark = pytest.mark.django_db(transaction=True)


def test_each_is_written_as_if_it_had_started_alone(bob):
    alone, *others = [make.job(bob, pool="train", gpu=1, cpu=cpu, memory="1GiB") for cpu in (1, 2, 3)]
    first, *together = decide()
    assert perform([first]) + perform(together) == 3
    for job in (alone, *others):
        (task,) = Task.objects.filter(job=job)
        assert (task.state, task.cpu_milli) == (TaskState.ASSIGNED, job.request["cpu_milli"])
        assert Holding.objects.live().filter(task=task.uuid, node=task.node).count() == 2
        assert task.cards[0]["uuid"] and task.ports["master"] and task.assigned_at


def test_who_was_held_meanwhile_takes_none_of_the_others_with_it(bob):
    jobs = [make.job(bob, pool="train", gpu=1) for _ in range(3)]
    steps = decide()
    hold_job(actor=bob, job=jobs[1])
    assert perform(steps) == 2
    assert [Job.objects.get(pk=job.pk).state for job in jobs] == ["STARTING", "QUEUED", "STARTING"]


def test_limits_that_fell_meanwhile_hold_for_all_together(bob):
    for _ in range(3):
        make.job(bob, pool="train", gpu=1)
    steps = decide()
    Quota.objects.update(gpu_milli_limit=2000)
    assert perform(steps) == 2
    make.limit(bob, jobs_running=1)
    Quota.objects.update(gpu_milli_limit=None)
    assert perform(steps) == 0


def test_only_jobs_of_one_person_start_in_one_transaction(bob):
    cyd = make.user("cyd", Team.objects.get())
    owners = [make.job(person, pool="train", gpu=1).user for person in (bob, bob, cyd)]
    assert owners == [bob, bob, cyd]
    assert sorted(len(alike) for alike in list_batches(decide())) == [1, 2]


def test_what_takes_too_long_is_left_to_the_next_cycle(bob, monkeypatch):
    make.job(bob, pool="train", gpu=1)
    steps = decide()
    monkeypatch.setattr(step_runner, "STARTING_S", 0.0)
    assert perform(steps) == 0
    monkeypatch.setattr(step_runner, "STARTING_S", 9.0)
    assert perform(steps) == 1
