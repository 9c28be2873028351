"""What a pool may decide for itself: each has its own policy, and another pool's does not reach into it."""

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Eviction, Policy
from scheduler.core.placement.scores import KIND_WEIGHT, MAX_WEIGHT, SCORES, SPREAD_WEIGHT, spread_scores, weigh_scores
from tests.core.test_cycle import started
from tests.worlds import wants, world

SPREAD = Policy(scores=spread_scores(SCORES))


def nodes_of(plan) -> list[int]:
    return sorted(task.node for start in plan.starts for task in start.tasks)


def two_pools(dev: Policy, train: Policy) -> Policy:
    """The pools of these worlds, in their order."""
    return Policy(pools=(dev, train))


def test_a_pool_that_spreads_fills_its_nodes_in_turn_and_one_that_packs_one_after_the_other():
    cluster = "n1: V100-32GBx2\nn2: V100-32GBx2\nn3 train: V100-32GBx2\nn4 train: V100-32GBx2"
    jobs = [wants("ada", "1", pool=pool) for pool in ("dev", "dev", "train", "train")]
    assert nodes_of(run_cycle(world(cluster, *jobs), two_pools(SPREAD, Policy()), 100.0)) == [0, 1, 2, 2]
    assert nodes_of(run_cycle(world(cluster, *jobs), two_pools(Policy(), SPREAD), 100.0)) == [0, 0, 2, 3]


def test_spreading_never_outweighs_the_kind_of_card_that_was_asked_first():
    cluster = "n1: V100-32GBx2\nn2: A100x2 | bob holds 1"
    assert nodes_of(run_cycle(world(cluster, wants("ada", "A100,V100-32GB")), SPREAD, 100.0)) == [1]


def test_no_weights_of_a_pool_outweigh_the_kind_of_card():
    most = dict.fromkeys(("useful", "whole", "full_cards", "links", "full_nodes"), MAX_WEIGHT)
    for scores in (weigh_scores(**most), spread_scores(weigh_scores(**most))):
        assert sum(weight for _, weight in scores) - KIND_WEIGHT < KIND_WEIGHT
    assert SPREAD_WEIGHT > MAX_WEIGHT * 4


def test_only_the_pool_that_allows_it_preempts():
    cluster = "n1: V100-32GBx1 | eve holds 1 low preemptible\nn2 train: V100-32GBx1 | bob holds 1 low preemptible"
    jobs = wants("ada", "1", pool="dev"), wants("ada", "1", pool="train")
    plan = run_cycle(world(cluster, *jobs), two_pools(Policy(preempt=False), Policy()), 100.0)
    assert plan.evictions == [Eviction(-2, "preempted", 2)]


def test_each_pool_keeps_as_many_places_as_it_says():
    cluster = "n1: V100-32GBx1 | eve holds 1 until 500\nn2 train: V100-32GBx1 | bob holds 1 until 500"
    jobs = [wants("ada", "1", pool=pool, time_s=100) for pool in ("dev", "dev", "train", "train")]
    plan = run_cycle(world(cluster, *jobs), two_pools(Policy(reservations=1), Policy(reservations=2)), 100.0)
    assert plan.reserved_at == {1: 500, 3: 500, 4: 600}


def test_a_pool_with_short_ageing_lets_the_one_who_waited_go_first():
    def first(policy: Policy) -> list[int]:
        jobs = wants("ada", "1", priority="low", at=0), wants("bob", "1", at=3000)
        return started(run_cycle(world("n1: V100-32GBx1", *jobs), policy, 4000.0))

    assert first(two_pools(Policy(), Policy(ageing_s=1800))) == [2]
    assert first(two_pools(Policy(ageing_s=1800), Policy())) == [1]
