"""What was seen of many tasks at once is recorded together: whole histories, and nothing that is stale takes others."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from events.models import Event, Notice
from jobs.control import stop_job
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from quotas.models import Holding
from runtimes.contract.container import ContainerView
from scheduler.lease import acquire
from scheduler.reconcile.compare import TaskObserved
from scheduler.reconcile.observations import TOGETHER, in_batches, record_batch, record_observations
from tests import make

T = TaskState
pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return make.cast().ada


def placed(person, count: int = 1, **spec) -> list[Task]:
    jobs = [make.job(person, run="sleep 5", cpu="10m", memory="16MiB", **spec) for _ in range(count)]
    return [task for job in jobs for task in make.start(job, state=T.ASSIGNED)]


def seen(task: Task, state: str, **told) -> TaskObserved:
    phase = "running" if state == T.RUNNING else "starting"
    return TaskObserved(task.uuid.hex, task.job_id, state, "", ContainerView(task.uuid.hex, "n1", phase, **told))


def over(task: Task, state: str, reason: str, **told) -> TaskObserved:
    return TaskObserved(task.uuid.hex, task.job_id, state, reason, ContainerView(task.uuid.hex, "n1", "exited", **told))


def moves_of(kind: str, pk: int) -> list[tuple[int, str, str]]:
    found = Event.objects.filter(kind=kind, object_id=pk).order_by("seq")
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    return [(event.from_state, event.to_state) for event in found if event.verb == "state"]


def test_tasks_come_up_together_with_their_whole_history(ada):
    tasks = placed(ada, 3)
    Job.objects.update(queued_at=Now() - timedelta(minutes=5), eligible_at=Now() - timedelta(minutes=5))
    told = [seen(task, T.RUNNING, address=f"10.0.0.{n}") for n, task in enumerate(tasks)]
    record_batch(told, acquire("reconcile"))
    for number, task in enumerate(Task.objects.filter(pk__in=[task.pk for task in tasks]).order_by("pk")):
        assert (task.state, task.address, task.job.state) == (T.RUNNING, f"10.0.0.{number}", JobState.RUNNING)
        assert task.started_at is not None and task.job.started_at is not None
        assert moves_of("task", task.pk)[-2:] == [("ASSIGNED", "STARTING"), ("STARTING", "RUNNING")]
        assert moves_of("job", task.job_id)[-1] == ("STARTING", "RUNNING")
    assert Notice.objects.filter(kind="job_started").count() == 3


def test_the_same_is_left_as_where_each_is_recorded_alone(ada):
    """Some are a step further, some carry words of the engine, some are a gang."""

    def lives() -> list[Task]:
        return [*placed(ada, 2), *placed(ada, nodes=2), *[make.move(task, T.STARTING) or task for task in placed(ada)]]

    one, many = lives(), lives()
    states = [T.STARTING, T.RUNNING, T.RUNNING, T.STARTING, T.RUNNING]
    epoch = acquire("reconcile")
    for task, state in zip(one, states, strict=True):
        record_observations([seen(task, state, detail="waits")], epoch)
    record_batch([seen(task, state, detail="waits") for task, state in zip(many, states, strict=True)], epoch)
    for alone, together in zip(one, many, strict=True):
        alone.refresh_from_db()
        together.refresh_from_db()
        assert (alone.state, alone.detail, alone.job.state) == (together.state, together.detail, together.job.state)
        assert moves_of("task", alone.pk) == moves_of("task", together.pk)
        assert moves_of("job", alone.job_id)[-1] == moves_of("job", together.job_id)[-1]


def test_what_is_stale_is_dropped_alone(ada):
    good, lost, gone, stopped = placed(ada, 4, retry=0)
    steps = [seen(task, T.RUNNING) for task in (good, lost, gone, stopped)]
    make.move(lost, T.FAILED, "container_lost")
    Job.objects.filter(pk=gone.job_id).delete()
    make.move(stopped, T.STOPPING, "preempted")
    record_observations(steps, acquire("reconcile"))
    left = {task.pk: task.state for task in Task.objects.all()}
    assert left == {good.pk: T.RUNNING, lost.pk: T.FAILED, stopped.pk: T.STOPPING}


def test_a_job_that_was_asked_to_stop_is_not_running(ada):
    task, other = placed(ada, 2)
    Job.objects.filter(pk=task.job_id).update(state=JobState.STARTING)
    stop_job(actor=ada, job=task.job)
    record_observations([seen(task, T.RUNNING), seen(other, T.RUNNING)], acquire("reconcile"))
    states = dict(Job.objects.values_list("pk", "state"))
    assert states == {task.job_id: JobState.STOPPING, other.job_id: JobState.RUNNING}


def test_an_old_term_records_nothing(ada):
    tasks = placed(ada, 2)
    record_observations([seen(task, T.RUNNING) for task in tasks], acquire("reconcile") - 1)
    assert set(Task.objects.values_list("state", flat=True)) == {T.ASSIGNED}


def test_ends_are_recorded_together_and_give_back_what_was_held(ada):
    """One did well, one failed for good, one is tried again, one made room, one is of a gang of which the rest runs."""
    good, bad = placed(ada, 2, retry=0)
    (again,) = placed(ada, retry={"times": 1, "when": ["exit_nonzero"]})
    (room,) = placed(ada, retry=0)
    first, second = placed(ada, nodes=2, retry=0)
    make.move(room, T.RUNNING)
    make.move(room, T.STOPPING, "preempted")
    steps = [
        over(good, T.SUCCEEDED, "completed", exit_code=0),
        over(bad, T.FAILED, "exit_nonzero", exit_code=3),
        over(again, T.FAILED, "exit_nonzero", exit_code=4),
        over(room, T.STOPPED, "preempted"),
        over(first, T.FAILED, "exit_nonzero", exit_code=5),
    ]
    assert record_batch(steps, acquire("reconcile")) == {step.uuid for step in steps}
    jobs = Job.objects.in_bulk([task.job_id for task in (good, bad, again, room, first)])
    told = {pk: (job.state, job.reason, job.exit_code, job.attempt) for pk, job in jobs.items()}
    assert told == {
        good.job_id: (JobState.SUCCEEDED, "completed", 0, 1),
        bad.job_id: (JobState.FAILED, "exit_nonzero", 3, 1),
        again.job_id: (JobState.QUEUED, "exit_nonzero", None, 2),
        room.job_id: (JobState.QUEUED, "preempted", None, 2),
        first.job_id: (JobState.STOPPING, "", None, 1),
    }
    assert jobs[again.job_id].retries_left == 0 and jobs[room.job_id].stops == 1
    assert set(Holding.objects.live().values_list("task", flat=True)) == {second.uuid}
    assert moves_of("task", good.pk)[-2:] == [("ASSIGNED", "STARTING"), ("STARTING", "SUCCEEDED")]
    assert moves_of("job", good.job_id)[-1] == ("STARTING", "SUCCEEDED")
    assert list(Notice.objects.filter(kind="job_failed").values_list("object_id", flat=True)) == [bad.job_id]


@pytest.mark.parametrize("state", [T.RUNNING, T.SUCCEEDED, T.FAILED])
def test_thirty_take_as_many_statements_as_three(ada, state):
    epoch, counts = acquire("reconcile"), []
    for count in (3, 30):
        tasks = placed(ada, count, retry=0)
        told = [seen(task, state, address=f"10.0.0.{n}", exit_code=n) for n, task in enumerate(tasks)]
        with CaptureQueriesContext(connection) as queries:
            record_batch(told, epoch)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 31


def test_so_many_at_most_move_in_one_transaction():
    steps = [TaskObserved(f"{n:032x}", n, T.RUNNING if n % 2 else T.FAILED) for n in range(2 * TOGETHER + 4)]
    batches = list(in_batches(steps))
    assert [len(batch) for batch in batches] == [TOGETHER, TOGETHER, 4]
    assert [step for batch in batches for step in batch] == steps
