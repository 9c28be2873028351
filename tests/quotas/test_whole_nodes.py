"""Guarantees of whole nodes: what may be promised, and what the scheduler reads of it."""

import pytest

from common.errors import InvalidInput
from jobs.reason_messages import describe_wait
from portal.wording.errors import describe_field_error
from quotas.models import Quota
from quotas.services import save_quota
from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Cell
from scheduler.loading.snapshots import load_world
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """Two nodes with two cards each, and one with one."""
    pool = make.pool("big")
    for name, cards in (("m1", 2), ("m2", 2), ("m3", 1)):
        node = make.node(name, pool=pool)
        for index in range(cards):
            make.gpu(node, index=index)
    return pool


def promise(team, pool, cards: int, cell: int) -> Quota:
    quota = Quota.objects.filter(team=team, pool=pool).first() or Quota(team=team, pool=pool)
    quota.gpu_milli_guarantee, quota.cell = 1000 * cards, cell
    return save_quota(actor=make.user(platform_role="admin", name=f"root{cards}{cell}{team}"), quota=quota)


def refused(team, pool, cards: int, cell: int) -> str:
    """The sentence of the one error, which names the field."""
    with pytest.raises(InvalidInput) as no:
        promise(team, pool, cards, cell)
    (error,) = no.value.errors
    assert error.pointer == "/cell"
    return describe_field_error(error)


def test_a_cell_is_as_large_as_a_node_of_the_pool(pool):
    words = refused(make.team("nlp"), pool, 4, 8)
    assert words.startswith("No node has exactly 8 cards of pool big; the largest has 2.")


def test_a_pool_without_cards_has_no_whole_nodes():
    assert refused(make.team("nlp"), make.pool("empty"), 0, 8).startswith("No node has a card of pool empty")


def test_the_guarantee_is_one_node_at_least(pool):
    assert refused(make.team("nlp"), pool, 1, 2).startswith("The GPU guarantee is less than one node of 2 cards.")


def test_no_more_nodes_are_promised_than_there_are(pool):
    make.gpu(make.node("m4", pool=pool))
    promise(make.team("nlp"), pool, 2, 2)
    words = refused(make.team("vision"), pool, 4, 2)
    assert "The pool has 2 such nodes, and 1 of them are not promised to others." in words


def test_a_team_below_another_shares_what_that_one_is_promised(pool):
    promise(lab := make.team("lab"), pool, 4, 2)
    assert promise(make.team("nlp", parent=lab), pool, 2, 2).whole_nodes == 1


def test_the_scheduler_reads_how_many_nodes_are_promised(pool):
    promise(make.team("nlp"), pool, 5, 2)
    promise(make.team("vision"), pool, 0, 1)
    assert load_world().snapshot.cells == (Cell(team=0, pool=0, cards=2, nodes=2),)


def test_who_would_break_a_promised_node_waits_and_is_told_whose_it_is(pool):
    """Of the three nodes one is not promised: the first job goes there, the second would break another."""
    promise(make.team("nlp"), pool, 4, 2)
    make.quota(vision := make.team("vision"), pool)
    eve = make.user("eve", vision)
    first, second = make.job(eve, gpu="1", pool="big"), make.job(eve, gpu="1", pool="big")
    world = load_world()
    plan = run_cycle(world.snapshot, world.policy, 0.0)
    (start,) = plan.starts
    assert (start.job, world.nodes[start.tasks[0].node].name) == (first.pk, "m3")
    (refusal,) = plan.refusals[second.pk]
    assert "promised to nlp" in describe_wait({"code": refusal.reason, "params": refusal.params})
