"""What free GPU is of no use to the usual asks, and placements that keep it useful."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.model.requests import RequestClass, acceptable_kinds_mask
from scheduler.core.model.types import CardShare, Policy, TaskPlacement
from scheduler.core.placement.fragmentation import (
    NodeStates,
    find_typical_requests,
    fragmentation_gain,
    fragmentation_gain_by_card,
    measure_fragmentation,
    most_frequent_requests,
)
from scheduler.core.placement.scores import ScoreTable
from tests.worlds import SELLABLE_MIB, build_ask, wants, world


def usual(snapshot, **counts):
    """usual(snapshot, **{"1": 3, "1/4": 1}): three of four ask one card."""
    asks = [(build_ask(snapshot.kind_names, text, cores=1), count) for text, count in counts.items()]
    return find_typical_requests(asks, tuple(SELLABLE_MIB[kind] for kind in snapshot.kind_names))


def with_usual(snapshot, **counts):
    snapshot.typical = usual(snapshot, **counts)
    return snapshot


def wasted(snapshot) -> list[float]:
    return measure_fragmentation(snapshot.typical, NodeStates.from_snapshot(snapshot, snapshot.nodes)).tolist()


def request(snapshot, text: str, cores: float = 1) -> RequestClass:
    ask = build_ask(snapshot.kind_names, text, cores=cores)
    return RequestClass(ask, 0, acceptable_kinds_mask(ask))


def cards(snapshot) -> list[int]:
    plan = run_cycle(snapshot, Policy(), 100.0)
    return [card.gpu for start in plan.starts for task in start.tasks for card in task.cards]


def test_what_is_free_on_cards_too_small_for_the_usual_asks_is_wasted():
    """Free are a whole card and half of one: nothing of it is lost to halves, the half is to whole cards."""
    snapshot = with_usual(world("n1: A100x2 | bob holds 1/2"), **{"1/2": 1, "1": 1})
    assert wasted(snapshot) == [(0 + 500) / 2]


def test_where_a_usual_ask_does_not_fit_at_all_everything_is_wasted_for_it():
    snapshot = with_usual(world("n1: A100x2 | bob holds 1/2"), **{"1/2": 1, "2": 3})
    assert wasted(snapshot) == [1500 * 3 / 4]


def test_cards_without_cpu_are_wasted():
    assert wasted(with_usual(world("n1: A100x2 cores 0.5"), **{"1": 1})) == [2000]


def test_cards_that_the_usual_asks_do_not_accept_are_wasted():
    assert wasted(with_usual(world("n1: A100x1 T4x2\nn2: T4x1"), **{"T4:1": 1})) == [1000, 0]


def test_compute_that_is_gone_wastes_memory_that_is_left():
    assert wasted(with_usual(world("n1: A100x1 | bob holds 1GB@80"), **{"1/4": 1})) == [200]


def test_for_cpu_only_asks_every_free_card_is_wasted():
    assert wasted(with_usual(world("n1: A100x1"), **{"cpu": 1, "1": 1})) == [500]


def test_a_slice_that_fills_a_half_gains_and_one_that_opens_a_card_loses():
    snapshot = with_usual(world("n1: A100x2 | bob holds 1/2"), **{"1/2": 1, "1": 1})
    _, gpus, gain = fragmentation_gain_by_card(snapshot, request(snapshot, "1/2"), snapshot.nodes)
    assert gpus.tolist() == [0, 1] and gain.tolist() == [250, 250 - (0 + 1000) / 2]
    assert fragmentation_gain(snapshot, request(snapshot, "1/2"), snapshot.nodes).tolist() == [250]


def test_the_usual_asks_are_those_that_cover_95_percent():
    typical = most_frequent_requests([((1, 1, (9,)), 60), ((2, 1, (8,)), 35), ((3, 1, (7,)), 5)])
    assert typical.count.tolist() == [60, 35] and typical.of == 100 and most_frequent_requests([]) is None


def test_a_slice_goes_where_it_leaves_room_for_what_is_usually_asked():
    """The fuller card is best where nobody knows what comes; where halves come, the other one keeps room for one."""
    snapshot = world("n1: A100x1 | bob holds 1/4\nn2: A100x1 | bob holds 1/2", wants("ada", "1/4"))
    assert cards(snapshot) == [1]
    assert cards(with_usual(snapshot, **{"1/2": 1})) == [0]


def test_cpu_only_work_leaves_the_cpu_that_cards_need():
    snapshot = world("n1: A100x1 cores 2\nn2: A100x1 cores 8", wants("ada", "cpu", cores=2))
    assert run_cycle(snapshot, Policy(), 100.0).starts[0].tasks[0].node == 0
    with_usual(snapshot, **{"1": 1})
    assert run_cycle(snapshot, Policy(), 100.0).starts[0].tasks[0].node == 1


def test_what_is_liked_best_still_comes_first():
    snapshot = with_usual(world("n1: A100x1\nn2: H100x1 | bob holds 1/2", wants("ada", "A100,H100/4")), **{"H100:1": 1})
    assert cards(snapshot) == [0]


asks = st.sampled_from(("1", "2", "1/4", "1/2", "T4:1", "A100,T4/2", "4GB", "2GB@60", "cpu"))


@settings(max_examples=80, deadline=None, database=None)
@given(st.lists(asks, max_size=6), asks, st.dictionaries(asks, st.integers(1, 9), min_size=1), st.integers(1, 4))
def test_the_gain_is_what_taking_it_changes(held, ask, counts, cores):
    jobs = [wants("ada", text) for text in held]
    snapshot = with_usual(world("n1: A100x2\nn2: T4x4 cores 6\nn3: A100x1", *jobs), **counts)
    jobs = {job.job: job for job in snapshot.waiting}
    for start in run_cycle(snapshot, Policy(), 100.0).starts:
        snapshot.allocate(start, jobs[start.job])
    wish = request(snapshot, ask, cores)
    wish, node = ScoreTable(snapshot).best_node(wish.ask, 0, wish.kinds)
    if node < 0:
        return
    here, before = snapshot.nodes[node : node + 1], wasted(snapshot)[node]
    changes = [before - wasted(taken(snapshot, wish, node, gpus))[node] for gpus in choices(snapshot, wish, node)]
    assert np.isclose(fragmentation_gain(snapshot, wish, here)[0], max(changes))


def choices(snapshot, wish, node) -> list[list[int]]:
    """Every single card for a slice; for whole cards those that the scheduler takes, which are all alike here."""
    if wish.ask.whole or not wish.ask.gpus:
        return [ScoreTable(snapshot).choose_cards(wish, node) if wish.ask.gpus else []]
    return [[gpu] for gpu in fragmentation_gain_by_card(snapshot, wish, snapshot.nodes[node : node + 1])[1].tolist()]


def taken(snapshot, wish, node, gpus):
    twin, ask = snapshot.copy(), wish.ask
    kinds = snapshot.gpu_kind[gpus].tolist() if gpus else []
    shares = tuple(
        CardShare(gpu, ask.need_mib[kind], ask.need_percent[kind], ask.need_milli[kind])
        for gpu, kind in zip(gpus, kinds, strict=True)
    )
    twin.allocate_task(TaskPlacement("worker", 0, node, shares, ask.cpu_milli, ask.memory_mib))
    return twin


def test_nodes_that_are_alike_are_measured_once_and_each_as_if_alone():
    text = "\n".join(f"n{n}: V100-32GBx4 | ada holds {1 + n % 3}" for n in range(80))
    snapshot = with_usual(world(text, wants("ada", "1")), **{"1": 3, "2": 1, "1/4": 2})
    ask = build_ask(snapshot.kind_names, "1", cores=1)
    request, seen = RequestClass(ask, 0, acceptable_kinds_mask(ask)), []

    def measure(typical, states):
        seen.append(len(states.cpu))
        return measure_fragmentation(typical, states)

    together = fragmentation_gain(snapshot, request, snapshot.nodes, measure)
    assert 0 < sum(seen) <= 6  # three states before and after, of which some are the same
    assert len(set(together.tolist())) > 1
    alone = [
        fragmentation_gain(snapshot, request, snapshot.nodes[n : n + 1], lambda *of: measure_fragmentation(*of))
        for n in range(80)
    ]
    assert together.tolist() == np.concatenate(alone).tolist()
    fragmentation_gain(snapshot, request, snapshot.nodes, measure)
    assert sum(seen) <= 6
