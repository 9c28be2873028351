"""When machines are in maintenance, and which: planned, changed, called off."""

import pytest
from django.utils import timezone

from cluster.maintenance import end_maintenance, load_maintenance, save_maintenance
from cluster.models import Maintenance
from common.errors import InvalidInput
from events.models import Event
from events.record_and_publish import Actor
from tests import make

pytestmark = pytest.mark.django_db
ROOT = Actor("rita")


@pytest.fixture
def nodes():
    dev, train = make.pool("dev"), make.pool("train")
    machines = [make.node("n1", pool=dev), make.node("n2", pool=dev), make.node("t1", pool=train)]
    make.gpu(machines[1], pool=train)
    return machines


def planned():
    return [(closed.maintenance, set(closed.node_ids)) for closed in load_maintenance(timezone.now())]


def history(node):
    return [event.verb for event in Event.objects.filter(kind="node", object_id=node.pk).order_by("seq")]


def test_it_is_of_the_machines_that_it_names(nodes):
    row = make.maintenance(nodes[0])
    assert planned() == [(row, {nodes[0].pk})]
    assert history(nodes[0]) == ["node.maintenance_planned"] and history(nodes[1]) == []


def test_of_a_pool_it_is_of_all_machines_at_home_in_it_or_with_a_card_of_it(nodes):
    row = make.maintenance(nodes[0], pool=make.pool("train"))
    assert planned() == [(row, {node.pk for node in nodes})]


def test_one_that_is_over_is_not_told_of_any_more(nodes):
    row = make.maintenance(nodes[0])
    assert load_maintenance(row.ends_at) == []


def test_changed_to_other_machines_it_leaves_the_first_ones(nodes):
    row = make.maintenance(nodes[0])
    save_maintenance(actor=ROOT, maintenance=row, nodes=[nodes[1]])
    assert planned() == [(row, {nodes[1].pk})]
    assert history(nodes[0]) == ["node.maintenance_planned", "node.maintenance_ended"]


def test_called_off_before_it_begins_it_is_gone_and_afterwards_it_ends_now(nodes):
    coming, lasting = make.maintenance(nodes[0], begins_in_s=60), make.maintenance(nodes[1], begins_in_s=-60)
    for row in (coming, lasting):
        end_maintenance(actor=ROOT, maintenance=row)
    assert planned() == [] and Maintenance.objects.get() == lasting
    assert history(nodes[0])[-1] == history(nodes[1])[-1] == "node.maintenance_ended"


@pytest.mark.parametrize(
    ("begins", "ends", "named", "field", "code"),
    [
        (60, 60, True, "/ends_at", "maintenance_backwards"),
        (-60, -30, True, "/ends_at", "maintenance_over"),
        (60, 90, False, "/nodes", "maintenance_nowhere"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(nodes, begins, ends, named, field, code):
    with pytest.raises(InvalidInput) as refused:
        make.maintenance(*nodes[: int(named)], begins_in_s=begins, lasts_s=ends - begins)
    assert [(error.pointer, error.code) for error in refused.value.errors] == [(field, code)]
    assert not Maintenance.objects.exists() and history(nodes[0]) == []
