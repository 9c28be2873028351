"""A machine whose agent is silent for a minute is suspect: nothing new starts there, and what runs stays."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Agent, Node, NodeState
from common.errors import StaleState
from events.models import Event
from jobs.states import TaskState
from monitoring.models import CardNow
from scheduler import tasks
from scheduler.inventory import nodes
from scheduler.inventory.silence import find_silent, mark_silent_nodes
from tests import make

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def ago(seconds: float):
    return timezone.now() - timedelta(seconds=seconds)


@pytest.fixture
def world():
    """Its node has an agent that is silent, beside one that is heard."""
    cast = make.cast()
    cast.agent = Agent.objects.create(node_name=cast.node.name, digest="one", reported_at=ago(70))
    Agent.objects.create(node_name="other", digest="two", reported_at=ago(5))
    return cast


def state(world) -> str:
    return Node.objects.get(pk=world.node.pk).state


def test_it_is_suspect_takes_nothing_new_and_is_ready_when_it_is_heard_again(world):
    (task,) = make.start(make.job(world.ada, gpu="1/4"), world.gpus[0])
    tasks.suspect()
    assert state(world) == NodeState.SUSPECT
    with pytest.raises(StaleState):
        make.start(make.job(world.ada, gpu="1/4"), world.gpus[0])
    task.refresh_from_db()
    assert task.state == TaskState.RUNNING
    nodes._follow_health(Node.objects.get(pk=world.node.pk), ready=True)  # the runtime hears of it: its agent is silent
    assert state(world) == NodeState.SUSPECT
    Agent.objects.filter(pk=world.agent.pk).update(reported_at=timezone.now())
    mark_silent_nodes()
    assert state(world) == NodeState.READY
    moves = Event.objects.filter(kind="node", verb="state")
    assert list(moves.order_by("pk").values_list("to_state", flat=True)) == ["SUSPECT", "READY"]


def test_samples_of_its_cards_are_heard_too(world):
    CardNow.objects.create(gpu=world.gpus[0], at=ago(8), term=1, up_ms=1, source="measured")
    mark_silent_nodes()
    assert state(world) == NodeState.READY


@pytest.mark.parametrize("taken_out", [NodeState.CORDONED, NodeState.DRAINING, NodeState.NOT_READY])
def test_other_states_are_left_as_they_are(world, taken_out):
    Node.objects.filter(pk=world.node.pk).update(state=taken_out)
    mark_silent_nodes()
    assert state(world) == taken_out


@pytest.mark.parametrize("change", [{"revoked_at": NOW}, {"reported_at": None}])
def test_an_agent_that_is_revoked_or_never_came_says_nothing(world, change):
    Agent.objects.filter(pk=world.agent.pk).update(**change)
    mark_silent_nodes()
    assert state(world) == NodeState.READY


def test_where_nobody_at_all_is_heard_it_is_the_platform_that_is_deaf():
    late, fresh = NOW - timedelta(seconds=90), NOW - timedelta(seconds=10)
    assert find_silent({"n1": late, "n2": late}, NOW) is None
    assert find_silent({"n1": late}, NOW) == {"n1"}
    assert find_silent({"n1": late, "n2": fresh}, NOW) == {"n1"} and find_silent({}, NOW) == set()
