"""Many starts, stops and forgets in one message: each is done by itself."""

import time

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.control import stop_job
from jobs.models import Task
from jobs.running_slices import resize_job
from jobs.states import TaskState
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.node import NodeView
from scheduler.lease import acquire
from scheduler.reconcile import actions
from scheduler.reconcile.actions import FencedAction, decode_action, encode_action, load_starts, run_actions
from scheduler.reconcile.compare import Forget, Resize, Start, Stop
from tests import make
from tests.fakes.runtime import FakeRuntime

T = TaskState
pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return make.cast().ada


@pytest.fixture
def runtime():
    return FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])


def placed(person, count: int = 1, **spec) -> list[Task]:
    jobs = [make.job(person, run="sleep 5", cpu="10m", memory="16MiB", **spec) for _ in range(count)]
    return [task for job in jobs for task in make.start(job, state=T.ASSIGNED)]


def starts(tasks: list[Task], epoch: int) -> list[FencedAction]:
    return [FencedAction(Start(task.uuid.hex, task.job_id), epoch) for task in tasks]


def test_many_are_done_at_once(ada, runtime):
    """Side by side: each of them takes a tenth of a second."""
    tasks, epoch = placed(ada, 12), acquire("reconcile")
    start, runtime.start = runtime.start, lambda spec: (time.sleep(0.1), start(spec))
    began = time.monotonic()
    run_actions(starts(tasks, epoch), runtime)
    assert sorted(runtime.starts) == sorted(task.uuid.hex for task in tasks)
    assert time.monotonic() - began < 12 * 0.1


def test_stops_and_forgets_go_with_starts(ada, runtime):
    epoch = acquire("reconcile")
    first, second, third = placed(ada, 3)
    run_actions(starts([first, second], epoch), runtime)
    runtime.finish(second.uuid.hex)
    orders = [
        FencedAction(Stop(first.uuid.hex, first.job_id, "", mark=False), epoch + 1),
        FencedAction(Forget(second.uuid.hex), epoch),
    ]
    run_actions([*starts([third], epoch), *orders], runtime)
    phases = {view.uuid: view.phase for view in runtime.list_containers()}
    assert phases == {first.uuid.hex: "exited", third.uuid.hex: "running"}


def test_a_resize_goes_with_the_others(ada, runtime):
    """As it travels from `manage.py watch` to a worker."""
    (task,) = placed(ada, gpu="1/4", pool="dev")
    epoch = acquire("reconcile")
    run_actions(starts([task], epoch), runtime)
    make.move(task, T.RUNNING)
    resize_job(actor=ada, job=task.job, gpu="1/2")
    order = decode_action(encode_action(FencedAction(Resize(task.uuid.hex, task.job_id), epoch)))
    run_actions([*starts(placed(ada), epoch), order], runtime)
    task.refresh_from_db()
    assert (task.cards[0]["memory_mib"], task.resize["open"], len(runtime.starts)) == (16255, False, 2)


def test_one_that_is_refused_ends_alone(ada, runtime):
    bad, good, late = placed(ada, 3)
    start, words = runtime.start, {bad.uuid.hex: Rejected("no such thing"), late.uuid.hex: Unavailable("not now")}

    def pick(spec):
        if spec.uuid in words:
            raise words[spec.uuid]
        start(spec)

    runtime.start = pick
    run_actions(starts([bad, good, late], acquire("reconcile")), runtime)
    states = {task.pk: (task.state, task.reason) for task in Task.objects.all()}
    assert states == {bad.pk: (T.FAILED, "rejected_by_cluster"), good.pk: (T.ASSIGNED, ""), late.pk: (T.ASSIGNED, "")}
    assert runtime.starts == [good.uuid.hex]


def test_whoever_shall_end_is_not_started(ada, runtime):
    """Their ends leave tombstones, which a start that is told of them need not look for."""
    stopped, *gang = [*placed(ada), *placed(ada, nodes=2)]
    (good,) = placed(ada)
    stop_job(actor=ada, job=stopped.job)
    make.move(gang[0], T.FAILED, "container_lost")
    before, epoch = time.monotonic(), acquire("reconcile")
    specs = load_starts([task.uuid.hex for task in (stopped, *gang, good)], runtime, epoch)
    assert list(specs) == [good.uuid.hex]
    assert before <= specs[good.uuid.hex].looked_at <= time.monotonic()


def test_what_is_starting_is_started_again_only_where_its_start_was_broken_off(ada, runtime):
    """A late message must not start twice what a runtime has forgotten meanwhile."""
    (task,) = placed(ada)
    make.move(task, T.STARTING)
    epoch = acquire("reconcile")
    run_actions(starts([task], epoch), runtime)
    assert runtime.starts == []
    again = FencedAction(Start(task.uuid.hex, task.job_id, again=True), epoch)
    run_actions([decode_action(encode_action(again))], runtime)
    assert runtime.starts == [task.uuid.hex]


def test_an_old_term_starts_nothing(ada, runtime):
    run_actions(starts(placed(ada, 2), acquire("reconcile") - 1), runtime)
    assert runtime.starts == []


def test_whoever_cannot_begin_in_time_is_left_for_the_next_message(ada, runtime, monkeypatch):
    monkeypatch.setattr(actions, "PATIENCE_S", -1.0)
    run_actions(starts(placed(ada, 2), acquire("reconcile")), runtime)
    assert runtime.starts == []


def test_thirty_take_as_many_statements_as_three(ada, runtime):
    epoch, counts = acquire("reconcile"), []
    for count in (3, 30):
        uuids = [task.uuid.hex for task in placed(ada, count)]
        with CaptureQueriesContext(connection) as queries:
            assert len(load_starts(uuids, runtime, epoch)) == count
        counts.append(len(queries))
    assert counts[0] == counts[1] < 30
