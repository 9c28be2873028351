"""Nodes that hold what a job reads: they win by what they save, and never against a constraint."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.model.requests import RequestClass
from scheduler.core.model.types import CachedContent, Policy
from scheduler.core.placement.scores import SCORES, hold_data, spread_scores, weigh_scores
from tests.worlds import wants, world

GB = 10**9
TWO = "n1: V100-32GBx2\nn2: V100-32GBx2"


def content(**held) -> CachedContent:
    """content(n1=5): 5 GB on the second node (they are counted from n0)."""
    return CachedContent(np.array([int(name[1:]) for name in held]), np.array([size * GB for size in held.values()]))


def reading(snapshot, *contents, job=0):
    """The same world, where the first job reads these."""
    snapshot.contents = (*snapshot.contents, *contents)
    numbers = tuple(range(len(snapshot.contents) - len(contents), len(snapshot.contents)))
    jobs = list(snapshot.waiting)
    (role,) = jobs[job].gang
    jobs[job] = replace(jobs[job], gang=(replace(role, ask=replace(role.ask, fetch=numbers)),))
    snapshot.waiting = tuple(jobs)
    return snapshot


def nodes_of(snapshot, scores=SCORES):
    plan = run_cycle(snapshot, Policy(scores=scores), 0.0)
    return {start.job: [task.node for task in start.tasks] for start in plan.starts}


def score(snapshot, nodes=(0, 1)):
    ask = snapshot.waiting[0].gang[0].ask
    return hold_data(snapshot, RequestClass(ask, 0, 1), np.array(nodes)).tolist()


def test_a_minute_of_fetching_counts_half_and_what_several_nodes_hold_adds_up():
    snapshot = reading(world(TWO, wants("ada", "1")), content(n0=60, n1=30), content(n1=30))
    assert score(snapshot) == [0.5, 0.5]
    assert score(snapshot, [1]) == [0.5]
    assert score(reading(world(TWO, wants("ada", "1")), content(n1=180))) == [0, 0.75]


def test_who_reads_nothing_counts_nothing():
    snapshot = world(TWO, wants("ada", "1"))
    snapshot.contents = (content(n1=60),)
    assert score(snapshot) == [0, 0]


@pytest.mark.parametrize("held", [1, 100])
def test_the_job_goes_where_its_data_is(held):
    assert nodes_of(reading(world(TWO, wants("ada", "1")), content(n1=held))) == {1: [1]}
    assert nodes_of(world(TWO, wants("ada", "1"))) == {1: [0]}


def test_of_two_that_hold_it_the_one_that_holds_more_wins():
    assert nodes_of(reading(world(TWO, wants("ada", "1")), content(n0=10, n1=20))) == {1: [1]}


def test_data_never_beats_a_constraint():
    full = "n1: V100-32GBx2\nn2: V100-32GBx2 | bob holds 1"
    assert nodes_of(reading(world(full, wants("ada", "2")), content(n1=10_000))) == {1: [0]}
    shut = "n1: V100-32GBx2\nn2: closed V100-32GBx2"
    assert nodes_of(reading(world(shut, wants("ada", "1")), content(n1=10_000))) == {1: [0]}
    alone = reading(world("n1: V100-32GBx1 | bob holds 1\nn2: V100-32GBx1", wants("ada", "1")), content(n0=10_000))
    assert nodes_of(alone) == {1: [1]}


def test_nor_the_kind_of_card_that_is_liked_best():
    mixed = "n1: A100x1\nn2: T4x1"
    assert nodes_of(reading(world(mixed, wants("ada", "A100,T4:1")), content(n1=10_000))) == {1: [0]}


def test_a_pool_may_give_it_no_weight_or_all():
    """A slice beside another on n1, or on n2 where its data is."""
    text = "n1: V100-32GBx1 | bob holds 1/4\nn2: V100-32GBx1"

    def place(**weights):
        return nodes_of(reading(world(text, wants("ada", "1/4")), content(n1=20)), weigh_scores(**weights))

    assert place(data=0) == {1: [0]}
    assert place(data=100) == {1: [1]}


def test_where_work_is_spread_data_decides_between_nodes_that_are_alike():
    snapshot = reading(world(TWO, wants("ada", "1")), content(n1=60))
    assert nodes_of(snapshot, spread_scores(SCORES)) == {1: [1]}
    busy = reading(world("n1: V100-32GBx2\nn2: V100-32GBx2 | bob holds 1", wants("ada", "1")), content(n1=60))
    assert nodes_of(busy, spread_scores(SCORES)) == {1: [0]}


def test_a_whole_gang_goes_to_the_nodes_that_hold_it():
    text = "n1: V100-32GBx1\nn2: V100-32GBx1\nn3: V100-32GBx1"
    assert nodes_of(reading(world(text, wants("ada", "1", gang=2)), content(n1=60, n2=60))) == {1: [1, 2]}


def test_jobs_that_ask_alike_and_read_other_things_go_each_to_its_own():
    snapshot = world(TWO, wants("ada", "1"), wants("ada", "1"))
    snapshot = reading(reading(snapshot, content(n1=60)), content(n0=60), job=1)
    assert nodes_of(snapshot) == {1: [1], 2: [0]}
