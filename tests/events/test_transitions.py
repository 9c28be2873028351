"""States move in one place: legally, once, with a line of history."""

import pytest

from cluster.models import Node
from common.errors import StaleState
from events.models import Event
from events.record_and_publish import SYSTEM
from events.transitions import IllegalTransition, Move, advance
from jobs.states import HOLDING, JOB_MOVES, TASK_FINAL, TASK_MOVES, TaskState, derive_job_state
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def node():
    return make.node("n1", pool=make.pool("dev"))


def test_a_move_is_written_with_its_event(node):
    advance([Move(node, "disk")], "CORDONED", actor=SYSTEM)
    event = Event.objects.get()
    assert (event.from_state, event.to_state, event.reason, event.actor, event.seq) == (
        "READY",
        "CORDONED",
        "disk",
        "system",
        1,
    )


def test_an_illegal_move_is_a_bug(node):
    with pytest.raises(IllegalTransition):
        advance([Move(node)], "READY", actor=SYSTEM)


def test_whoever_comes_second_is_stale_and_writes_nothing(node):
    slow = Node.objects.get()
    advance([Move(node)], "CORDONED", actor=SYSTEM)
    with pytest.raises(StaleState):
        advance([Move(slow)], "SUSPECT", actor=SYSTEM)
    assert Event.objects.count() == 1


def test_final_states_are_never_left_and_lists_agree():
    assert all(not TASK_MOVES[state] for state in TASK_FINAL)
    assert set(TASK_MOVES) == set(TaskState.values) == HOLDING | TASK_FINAL | {TaskState.PENDING}
    assert all(targets <= set(JOB_MOVES) for targets in JOB_MOVES.values())


@pytest.mark.parametrize(
    ("tasks", "stopping", "job"),
    [
        (["PENDING", "PENDING"], False, "QUEUED"),
        (["ASSIGNED", "RUNNING"], False, "STARTING"),
        (["RUNNING", "SUCCEEDED"], False, "RUNNING"),
        (["LOST"], False, "RUNNING"),
        (["RUNNING"], True, "STOPPING"),
        (["RUNNING", "FAILED"], False, "STOPPING"),
        (["SUCCEEDED", "SUCCEEDED"], False, "SUCCEEDED"),
        (["STOPPED", "SUCCEEDED"], True, "CANCELLED"),
        (["STOPPED", "FAILED"], False, "FAILED"),
        (["STOPPED"], False, "FAILED"),
    ],
)
def test_a_jobs_state_follows_from_its_tasks(tasks, stopping, job):
    assert derive_job_state(tasks, stopping=stopping) == job


def test_nothing_else_writes_a_state(request):
    """`state=` in an update() or create() outside transitions.py would be a second way to move."""
    root = request.config.rootpath
    offenders = [
        str(path.relative_to(root))
        for folder in ("platform", "scheduler", "portal")
        for path in (root / folder).rglob("*.py")
        if path.name != "transitions.py" and "update(state=" in path.read_text()
    ]
    assert offenders == []
