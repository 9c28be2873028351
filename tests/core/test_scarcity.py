"""Who could run anywhere leaves scarce cards and CPU to those who have no choice."""

import numpy as np
import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.model.requests import RequestClass, acceptable_kinds_mask
from scheduler.core.model.types import Policy
from scheduler.core.placement.scarcity import REPRICE_AFTER, build_demand_profile, find_prices, keep_scarce
from tests.worlds import SELLABLE_MIB, build_ask, wants, world

CLUSTER = "n1: T4x2\nn2: A100x2\nn3: A100x2"


def with_wishes(snapshot, cores=1, **counts):
    """with_wishes(snapshot, **{"T4:1": 3}): all of three tasks asked a T4."""
    asks = [(build_ask(snapshot.kind_names, text, cores=cores), count) for text, count in counts.items()]
    snapshot.wishes = build_demand_profile(asks, tuple(SELLABLE_MIB[kind] for kind in snapshot.kind_names))
    return snapshot


def node_of(snapshot) -> int:
    return run_cycle(snapshot, Policy(), 100.0).starts[0].tasks[0].node


def test_who_could_run_anywhere_leaves_the_model_that_others_ask_by_name():
    snapshot = world(CLUSTER, wants("ada", "1"))
    assert node_of(snapshot) == 0
    assert node_of(with_wishes(snapshot, **{"T4:1": 3, "1": 3})) == 1


def test_who_asks_the_scarce_model_by_name_gets_it():
    assert node_of(with_wishes(world(CLUSTER, wants("ada", "T4:1")), **{"T4:1": 3, "1": 3})) == 0


def test_the_scarce_model_serves_anybody_where_nothing_else_is_free():
    cluster = "n1: T4x2\nn2: A100x1 | bob holds 1"
    assert node_of(with_wishes(world(cluster, wants("ada", "1")), **{"T4:1": 3, "1": 3})) == 0


def test_much_cpu_goes_where_cpu_is_left_over():
    """The first node has CPU for one usual ask, though it has two cards: who takes little CPU goes there."""
    cluster = "n1: A100x2 cores 8\nn2: A100x2 cores 64"
    snapshot = with_wishes(world(cluster), cores=8, **{"1": 5})
    few, much = (RequestClass(ask := build_ask(("A100",), "1", cores=n), 0, acceptable_kinds_mask(ask)) for n in (1, 8))
    difference = [np.diff(keep_scarce(snapshot, request, snapshot.nodes))[0] for request in (few, much)]
    assert difference[0] < difference[1]


def test_prices_lie_between_nothing_and_a_card_and_alike_nodes_have_none():
    prices = find_prices(with_wishes(world(CLUSTER), **{"T4:1": 3, "1": 3}), 0)
    assert prices.cards[0] > prices.cards[1] == prices.cards[2] and 0 <= prices.cards.min() <= prices.cards.max() <= 1
    assert find_prices(with_wishes(world("n1: A100x2\nn2: A100x2"), **{"1": 1}), 0) is None
    assert find_prices(world(CLUSTER), 0) is None


@pytest.mark.parametrize("text", ["cpu", "H100:1"])
def test_a_history_that_wants_nothing_of_these_cards_gives_no_price(text):
    snapshot = world("n1: T4x2\nn2: A100x2\nn3 train: H100x1")
    assert find_prices(with_wishes(snapshot, **{text: 3}), 0) is None


def test_prices_follow_what_is_free_after_some_changes():
    snapshot = with_wishes(world(CLUSTER), **{"T4:1": 3, "1": 3})
    before = find_prices(snapshot, 0)
    snapshot.mark_changed(0)
    assert find_prices(snapshot, 0) is before
    snapshot.version += REPRICE_AFTER
    assert find_prices(snapshot, 0) is not before


def test_asks_that_are_nearly_alike_are_one_wish_and_an_empty_history_none():
    asks = [(build_ask(("A100",), "1", cores=cores), 2) for cores in (2, 2.5, 3.9, 4)]
    wishes = build_demand_profile(asks, (SELLABLE_MIB["A100"],))
    assert wishes.count.tolist() == [6, 2] and wishes.milli.tolist() == [1000, 1000]
    assert build_demand_profile([], (1,)) is None
