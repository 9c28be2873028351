"""What reconciling does with each pair of row and container, and what a crash between two steps costs: nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs.control import stop_job
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from quotas.models import Holding
from runtimes.contract.container import ContainerView, GpuUse
from runtimes.contract.errors import NodeRefused, Rejected
from runtimes.contract.node import NodeView
from scheduler.lease import acquire
from scheduler.models import Lease
from scheduler.reconcile.compare import (
    LONGEST_DETAIL,
    UNASKED,
    Forget,
    Start,
    StartProgress,
    Stop,
    TaskObserved,
    TaskProgress,
    TaskRow,
    compare,
)
from scheduler.reconcile.observations import measure_lost_work
from scheduler.reconcile.round import Poller, reconcile_once
from tests import make
from tests.fakes.runtime import FakeRuntime

T = TaskState
A = "a" * 32
NOON, HOUR = datetime(2026, 11, 21, 12, tzinfo=UTC), timedelta(hours=1)


def row(state: str, stop: str = "") -> TaskRow:
    return TaskRow(A, 7, state, stop)


def seen(phase: str, **fields) -> ContainerView:
    return ContainerView(A, "n1", phase, **fields)


@pytest.mark.parametrize(
    ("task", "view", "step"),
    [
        (row("ASSIGNED"), None, Start(A, 7)),
        (row("ASSIGNED", "stopped_by_user"), None, Stop(A, 7, "stopped_by_user", mark=False)),
        (row("RUNNING"), None, TaskObserved(A, 7, "LOST")),
        (row("LOST"), None, None),
        (row("ASSIGNED"), seen("starting"), TaskObserved(A, 7, "STARTING", "", seen("starting"))),
        (row("STARTING"), seen("starting"), None),
        (row("ASSIGNED"), seen("starting", abandoned=True), Start(A, 7, again=True)),
        (row("STARTING"), seen("starting", abandoned=True), Start(A, 7, again=True)),
        (row("LOST"), seen("starting", abandoned=True), None),
        (row("STARTING", "preempted"), seen("starting", abandoned=True), Stop(A, 7, "preempted", mark=True)),
        (row("STARTING"), seen("running"), TaskObserved(A, 7, "RUNNING", "", seen("running"))),
        (row("RUNNING"), seen("running"), None),
        (row("LOST"), seen("running"), TaskObserved(A, 7, "RUNNING", "", seen("running"))),
        (row("RUNNING"), seen("lost"), TaskObserved(A, 7, "LOST", "", seen("lost"))),
        (row("RUNNING", "preempted"), seen("running"), Stop(A, 7, "preempted", mark=True)),
        (row("STOPPING", "preempted"), seen("running"), Stop(A, 7, "preempted", mark=False)),
        (replace(row("STOPPING", "preempted"), drains=True), seen("running"), None),
    ],
)
def test_a_task_and_what_is_seen_of_it_give_one_step(task, view, step):
    assert compare([task], [view] if view else [], set()) == ([step] if step else [])


def test_a_newer_checkpoint_is_noted_and_an_older_one_is_not():
    def steps(known, found):
        return compare([TaskRow(A, 7, "RUNNING", "", known)], [seen("running", checkpointed_at=found)], set())

    assert steps(None, NOON) == steps(NOON - HOUR, NOON) == [TaskProgress(A, NOON)]
    assert steps(NOON, NOON) == steps(NOON + HOUR, NOON) == steps(NOON, None) == []


def test_how_a_start_goes_on_is_noted_once_and_not_after_it():
    fetching = seen("starting", fetching_since=NOON, detail="")
    stuck = seen("starting", detail="x" * 400)
    said = StartProgress(None, "x" * LONGEST_DETAIL)
    assert compare([row("STARTING")], [fetching], set()) == [TaskProgress(A, start_progress=StartProgress(NOON))]
    assert compare([row("STARTING")], [stuck], set()) == [TaskProgress(A, start_progress=said)]
    assert compare([TaskRow(A, 7, "STARTING", "", start_progress=said)], [stuck], set()) == []
    assert compare([TaskRow(A, 7, "STARTING", "", start_progress=said)], [fetching], set()) == [
        TaskProgress(A, start_progress=StartProgress(NOON))
    ]
    assert compare([TaskRow(A, 7, "RUNNING", "", start_progress=said)], [seen("running")], set()) == []


@pytest.mark.parametrize(
    ("used", "peak", "refused", "limit", "noted"),
    [
        (100, 200, 0, 1000, False),
        (109, 200, 0, 1000, False),  # not a hundredth of its slice
        (110, 200, 0, 1000, True),
        (90, 200, 0, 1000, True),
        (100, 209, 0, 1000, False),
        (100, 210, 0, 1000, True),
        (100, 200, 1, 1000, True),
        (100, 200, 0, 2000, True),  # the slice was resized
    ],
)
def test_what_a_task_uses_of_a_card_is_noted_in_steps(used, peak, refused, limit, noted):
    use = GpuUse("GPU-a", limit, used, peak, refused)
    before = TaskRow(A, 7, "RUNNING", "", None, (GpuUse("GPU-a", 1000, 100, 200, 0),))
    steps = compare([before], [seen("running", gpu_use=(use,))], set())
    assert steps == ([TaskProgress(A, None, (use,))] if noted else [])


def test_that_nobody_looks_at_a_slice_any_more_is_noted():
    use = GpuUse("GPU-a", 1000, 100, 200, 0)
    blind = replace(use, watched=False)
    before = TaskRow(A, 7, "RUNNING", "", None, (use,))
    assert compare([before], [seen("running", gpu_use=(blind,))], set()) == [TaskProgress(A, None, (blind,))]


def test_a_task_that_its_machines_agent_says_is_above_its_slice_ends_with_its_words():
    use = GpuUse("GPU-a", 1000, 1400, 1400, 0, over="It used 1400 MiB.")
    above = TaskRow(A, 7, "RUNNING", "gpu_out_of_memory", None, (use,))
    assert compare([above], [seen("running")], set()) == [Stop(A, 7, "gpu_out_of_memory", mark=True)]
    ending = replace(above, state="STOPPING")
    (step,) = compare([ending], [seen("exited", cause="stopped", signal=15)], set())
    assert (step.state, step.reason, step.seen.detail) == ("FAILED", "gpu_out_of_memory", "It used 1400 MiB.")
    (step,) = compare([ending], [seen("exited", exit_code=0)], set())
    assert (step.state, step.reason) == ("SUCCEEDED", "completed")


@pytest.mark.parametrize(
    ("reason", "saved_at", "told"),
    [
        ("preempted", None, {"kind": "unsaved", "lost_s": 10_800}),
        ("reclaimed", NOON - HOUR, {"kind": "unsaved", "lost_s": 10_800}),  # what an attempt before it has kept
        ("reclaimed", NOON + HOUR, {"kind": "saved", "lost_s": 7_200}),
        ("stopped_by_user", NOON + HOUR, {}),
    ],
)
def test_what_making_room_cost_is_counted_since_the_last_checkpoint_of_this_start(reason, saved_at, told):
    ended = seen("exited", started_at=NOON, ended_at=NOON + 3 * HOUR)
    task = Task(started_at=NOON, checkpointed_at=saved_at)
    assert measure_lost_work(task, ended, TaskObserved(A, 7, "STOPPED", reason, ended)) == told


@pytest.mark.parametrize(
    ("wish", "end", "state", "reason"),
    [
        ("", {"exit_code": 0}, "SUCCEEDED", "completed"),
        ("", {"exit_code": 2}, "FAILED", "exit_nonzero"),
        ("", {"signal": 9}, "FAILED", "exit_nonzero"),
        ("", {}, "FAILED", "container_lost"),
        ("", {"cause": "out_of_memory"}, "FAILED", "out_of_memory"),
        ("", {"cause": "time_limit"}, "FAILED", "time_limit"),
        ("", {"cause": "image_pull"}, "FAILED", "image_pull"),
        ("stopped_by_user", {"cause": "stopped", "signal": 15}, "STOPPED", "stopped_by_user"),
        ("stopped_by_user", {"cause": "never_started"}, "STOPPED", "stopped_by_user"),
        ("stopped_by_user", {"exit_code": 0}, "SUCCEEDED", "completed"),
        ("", {"cause": "stopped", "signal": 15}, "FAILED", "container_lost"),
        ("", {"cause": "evicted"}, "FAILED", "evicted"),
        ("", {"cause": "node_lost"}, "FAILED", "node_lost"),
        ("preempted", {"cause": "evicted"}, "STOPPED", "preempted"),
        ("stopped_by_user", {"cause": "node_lost"}, "STOPPED", "stopped_by_user"),
        ("", {"cause": "refused_by_node"}, "FAILED", "container_lost"),  # it ran: its node is wrong
    ],
)
def test_an_exit_means_one_state_and_reason(wish, end, state, reason):
    (step,) = compare([row("RUNNING", wish)], [seen("exited", **end)], set())
    assert (step.state, step.reason) == (state, reason)


def test_a_task_that_will_never_come_up_is_ended_and_its_end_says_why():
    hopeless = seen("starting", cause="image_pull", detail="ErrImagePull: no such image")
    assert compare([row("ASSIGNED")], [hopeless], set()) == [Stop(A, 7, "image_pull", mark=False)]
    assert compare([row("ASSIGNED", "stopped_by_user")], [hopeless], set()) == [
        Stop(A, 7, "stopped_by_user", mark=True)
    ]


@pytest.mark.parametrize("state", ["ASSIGNED", "STARTING"])
def test_a_task_that_its_node_refused_never_ran(state):
    (step,) = compare([row(state)], [seen("exited", cause="refused_by_node")], set())
    assert (step.state, step.reason) == ("FAILED", "refused_by_node")


def test_an_end_that_nobody_asked_for_is_told_in_words():
    ended = seen("exited", cause="stopped", signal=15)
    assert compare([row("RUNNING")], [ended], set())[0].seen.detail == UNASKED
    assert compare([row("RUNNING", "idle")], [ended], set())[0].seen.detail == ""


def test_an_ended_task_is_forgotten_and_a_stranger_is_left_alone():
    other = ContainerView("b" * 32, "n1", "running")
    assert compare([], [seen("exited"), other], {A}) == [Forget(A)]


def test_a_container_that_runs_though_its_end_is_recorded_is_stopped():
    assert compare([], [seen("running")], {A}) == [Stop(A, 0, "", mark=False)]


def test_what_ended_is_kept_while_its_log_is_awaited():
    assert compare([], [seen("exited")], {A}, {A}) == []
    assert compare([], [seen("running")], {A}, {A}) == [Stop(A, 0, "", mark=False)]


@pytest.fixture
def cast(db):
    return make.cast()


def placed(cast, **spec) -> Job:
    job = make.job(cast.ada, **spec)
    make.start(job, state=TaskState.ASSIGNED)
    return job


def fake() -> FakeRuntime:
    return FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])


def next_term() -> int:
    Lease.objects.filter(name="reconcile").update(expires_at=None)
    return acquire("reconcile")


def test_starting_twice_runs_once(cast):
    job, runtime = placed(cast, gpu="1/4", run="sleep 5"), fake()
    for _ in range(3):
        reconcile_once(Poller(runtime), next_term())
    assert len(runtime.starts) == 1
    assert job.newest_tasks.get().state in {TaskState.STARTING, TaskState.RUNNING, TaskState.ASSIGNED}


def test_a_task_above_its_slice_fails_with_the_agents_words(cast):
    job, runtime = placed(cast, gpu="1/4", run="sleep 60", retry=0), fake()
    use = {"uuid": "GPU-a", "limit_mib": 1000, "used_mib": 1400, "peak_mib": 1400, "refused": 0, "watched": True}
    Task.objects.filter(job=job).update(gpu_use=[use | {"over": ""}])
    reconcile_until(runtime, job, TaskState.RUNNING)
    Task.objects.filter(job=job).update(gpu_use=[use | {"over": "It used 1400 MiB."}])
    reconcile_until(runtime, job, TaskState.FAILED)
    task = job.newest_tasks.get()
    assert (task.reason, task.detail) == ("gpu_out_of_memory", "It used 1400 MiB.")
    job.refresh_from_db()
    assert (job.state, job.reason) == (JobState.FAILED, "gpu_out_of_memory")
    assert not Holding.objects.live().exists()


def reconcile_until(runtime: FakeRuntime, job: Job, state: str) -> None:
    for _ in range(40):
        reconcile_once(Poller(runtime), next_term())
        if job.newest_tasks.get().state == state:
            return
        runtime.advance(1)
    raise AssertionError(f"It is {job.newest_tasks.get().state}, not {state}.")


def test_a_lost_task_keeps_what_it_holds(cast):
    job = placed(cast, gpu="1/4", run="sleep 5")
    make.move(job.newest_tasks.get(), TaskState.RUNNING)
    reconcile_once(Poller(fake()), next_term())  # a runtime that knows nothing of it
    assert job.newest_tasks.get().state == TaskState.LOST
    assert Holding.objects.live().count() == 2


def test_a_job_that_its_node_refuses_is_queued_again_a_few_times(cast, monkeypatch):
    job, runtime = placed(cast, run="true", retry=0), fake()

    def refuse(spec):
        raise NodeRefused("There is no node n1.")

    monkeypatch.setattr(runtime, "start", refuse)
    for attempt in (1, 2, 3):
        reconcile_once(Poller(runtime), next_term())
        job.refresh_from_db()
        assert (job.state, job.attempt) == (JobState.QUEUED, attempt + 1) and job.not_before is not None
        assert not Holding.objects.live().exists()
        make.start(job, state=TaskState.ASSIGNED)
    reconcile_once(Poller(runtime), next_term())
    job.refresh_from_db()
    assert (job.state, job.reason) == (JobState.FAILED, "refused_by_node")
    assert job.newest_tasks.get().detail == "There is no node n1."


def test_a_start_that_the_engine_refuses_fails_in_its_own_words(cast, monkeypatch):
    job, runtime = placed(cast, run="true", retry=0), fake()

    def refuse(spec):
        raise Rejected("no such shell")

    monkeypatch.setattr(runtime, "start", refuse)
    reconcile_once(Poller(runtime), next_term())
    task = Task.objects.get(job=job)
    assert (task.reason, task.detail) == ("rejected_by_cluster", "no such shell")
    assert not Holding.objects.live().exists()


def test_the_writes_of_an_old_leader_change_nothing(cast):
    job, runtime = placed(cast, run="sleep 5"), fake()
    reconcile_once(Poller(runtime), epoch=1)
    assert runtime.starts == [] and job.newest_tasks.get().state == TaskState.ASSIGNED


def test_a_stop_wish_before_the_start_leaves_a_tombstone(cast):
    job, runtime = placed(cast, run="sleep 5"), fake()
    Job.objects.filter(pk=job.pk).update(stop_requested_at="2026-01-01T00:00Z", stop_reason="stopped_by_user")
    for _ in range(2):
        reconcile_once(Poller(runtime), next_term())
    job.refresh_from_db()
    assert (job.state, runtime.starts) == (JobState.CANCELLED, [])


def test_a_stop_that_is_refused_holds_up_nothing_behind_it(cast, monkeypatch):
    runtime, jobs = FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())]), []
    for number in range(2):
        jobs.append(make.job(cast.ada, name=f"one of two {number}"))
        make.start(jobs[-1], state=T.ASSIGNED)
    stop_job(actor=cast.ada, job=jobs[0])
    monkeypatch.setattr(runtime, "stop", refuse)
    reconcile_once(Poller(runtime), acquire("reconcile"))
    states = [Task.objects.get(job=job).state for job in jobs]
    assert states[0] == T.ASSIGNED and len(runtime.list_containers()) == 1


def refuse(*args, **named):
    raise Rejected("a policy says no")
