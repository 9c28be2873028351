"""Machines that an admin takes out of service and back."""

import pytest

from cluster.models import Node, NodeState
from cluster.nodes import cordon_node, drain_node, uncordon_node
from events.models import Event
from events.record_and_publish import SYSTEM, Actor
from events.transitions import Move, advance
from scheduler.inventory.nodes import _follow_health
from scheduler.loading.snapshots import load_world
from tests import make

pytestmark = pytest.mark.django_db
ROOT = Actor("rita", 1)


@pytest.fixture
def node():
    return make.cast().node


def history(node):
    events = Event.objects.filter(kind="node", object_id=node.pk).order_by("seq")
    return [(event.to_state, event.actor, event.params) for event in events]


def test_each_change_is_history_with_its_reason_and_a_repeat_is_none(node):
    for act, why in (
        (cordon_node, {"why": "fans"}),
        (drain_node, {"why": "disk"}),
        (drain_node, {}),
        (uncordon_node, {}),
    ):
        act(actor=ROOT, node=node, **why)
    told = [("CORDONED", {"why": "fans"}), ("DRAINING", {"why": "disk"}), ("READY", {})]
    assert history(node) == [(state, "rita", params) for state, params in told]


@pytest.mark.parametrize("act", [cordon_node, drain_node])
def test_who_answers_again_stays_out_of_service(node, act):
    act(actor=ROOT, node=node)
    node.refresh_from_db()
    for ready in (False, True):
        _follow_health(node, ready=ready)
    assert Node.objects.get(pk=node.pk).state == node.state != NodeState.READY


def test_who_does_not_answer_is_not_made_ready(node):
    advance([Move(node)], NodeState.NOT_READY, actor=SYSTEM)
    uncordon_node(actor=ROOT, node=node)
    assert Node.objects.get(pk=node.pk).state == NodeState.NOT_READY


def test_nothing_starts_on_a_drained_machine_and_the_snapshot_knows_it(node):
    drain_node(actor=ROOT, node=node)
    seen = load_world().snapshot
    assert seen.draining == (0,) and not seen.node_open.any()
