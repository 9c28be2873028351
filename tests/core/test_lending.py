"""A pool lends its cards to another for a while."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.run_times import RunTimeHistory
from scheduler.core.forecast.start_forecast import forecast_starts
from scheduler.core.model.types import Eviction, LendingWindow, Policy, StartRange
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from tests.core.test_cycle import started, why
from tests.worlds import wants, world

DEV, TRAIN = 0, 1
NIGHT = "d1 dev: V100-32GBx1\nt1 train: V100-32GBx1 | bob holds 1"
MORNING = "d1 dev: V100-32GBx1{}\nt1 train: V100-32GBx1 | bob holds 1"

BOB = wants("bob", "1", held=True)
"""So that there is a team of that name."""


def lends(text: str, *wishes, begins=0.0, ends=1000.0, **words):
    """The snapshot in which the card of dev is lent to train from the one time to the other; now is 100."""
    return replace(world(text, *wishes, **words), windows=(LendingWindow((0,), TRAIN, begins, ends),))


def cards(plan) -> dict[int, int]:
    return {start.job: start.tasks[0].cards[0].gpu for start in plan.starts}


def plan_of(snapshot):
    return run_cycle(snapshot, Policy(), 100.0)


def test_a_job_of_the_borrower_takes_a_lent_card():
    assert cards(plan_of(lends(NIGHT, wants("ada", "1", pool="train", time_s=60)))) == {1: 0}


@pytest.mark.parametrize(
    ("said", "starts"),
    [({"time_s": 900}, [1]), ({"time_s": 901}, []), ({}, []), ({"preemptible": True}, [1])],
)
def test_who_ends_before_the_window_does_or_may_be_stopped_then_may_use_it(said, starts):
    assert started(plan_of(lends(NIGHT, wants("ada", "1", pool="train", **said)))) == starts


@pytest.mark.parametrize(("latest_s", "starts"), [(900, [1]), (901, [])])
def test_who_might_end_after_the_window_does_may_not(latest_s, starts):
    snapshot = lends(NIGHT, wants("ada", "1", pool="train", time_s=60))
    snapshot.waiting = (replace(snapshot.waiting[0], latest_s=latest_s),)
    assert started(plan_of(snapshot)) == starts


def test_two_that_differ_in_their_latest_end_alone_are_not_taken_for_alike():
    snapshot = lends(NIGHT, *[wants("ada", "1", pool="train", at=at, time_s=60) for at in (1, 2)])
    first, second = snapshot.waiting
    snapshot.waiting = (replace(first, latest_s=901), replace(second, gang=first.gang, latest_s=100))
    assert cards(plan_of(snapshot)) == {2: 0}


def test_one_that_is_too_long_waits_though_another_that_asks_alike_starts():
    snapshot = lends(NIGHT, wants("ada", "1", pool="train", at=1), wants("ada", "1", pool="train", at=2, time_s=60))
    assert cards(plan_of(snapshot)) == {2: 0}


@pytest.mark.parametrize("hours", [{"begins": 101.0}, {"ends": 100.0}])
def test_outside_of_its_hours_the_card_is_for_its_own_pool_only(hours):
    assert started(plan_of(lends(NIGHT, wants("ada", "1", pool="train", preemptible=True), **hours))) == []


def test_each_of_two_windows_takes_who_ends_before_it_does():
    short, long = (wants("ada", "1", pool="train", time_s=time_s) for time_s in (100, 400))
    snapshot = world("d1 dev: V100-32GBx2\nt1 train: cpu", short, long, short)
    snapshot = replace(snapshot, windows=(LendingWindow((0,), TRAIN, 0, 200), LendingWindow((1,), TRAIN, 0, 500)))
    assert cards(plan_of(snapshot)) == {1: 0, 2: 1}


def test_the_lender_still_uses_its_cards():
    assert cards(plan_of(lends(NIGHT, wants("ada", "1", pool="dev")))) == {1: 0}


def test_a_lent_card_is_no_place_for_a_reservation():
    snapshot = lends(
        "d1 dev: V100-32GBx1 | eve holds 1 until 500\nt1 train: V100-32GBx1 | bob holds 1 until 900",
        wants("ada", "1", pool="train", time_s=50),
    )
    assert plan_of(snapshot).reserved_at == {1: 900}


@pytest.mark.parametrize(
    ("said", "possible"), [({"time_s": 1000}, True), ({"time_s": 1001}, False), ({"preemptible": True}, True)]
)
@pytest.mark.parametrize("begins", [0.0, 5000.0])
def test_what_fits_only_with_lent_cards_is_possible_where_it_ends_in_time(said, possible, begins):
    snapshot = lends(NIGHT, wants("ada", "1", gang=2, pool="train", **said), begins=begins, ends=begins + 1000)
    assert (check_feasibility(snapshot, snapshot.waiting[0]) == []) == possible
    assert (plan_of(snapshot).refusals[1][0].reason == "impossible") == (not possible)


def test_a_pool_without_a_kind_of_card_is_lent_it():
    night = "d1 dev: A100x1\nt1 train: V100-32GBx1"
    wish = wants("ada", "A100:1", pool="train", time_s=60)
    assert cards(plan_of(lends(night, wish))) == {1: 0}
    later = lends(night, wish, begins=500.0)
    assert check_feasibility(later, later.waiting[0]) == [] and why(plan_of(later), 1)[0] == "model_unavailable"


def test_a_job_that_may_not_borrow_in_its_pool_takes_what_is_lent_to_it():
    """All of train is guaranteed to bob; what dev lends is nobody's guarantee there."""
    guarantee = {("bob", "train"): {"gpu_milli": 1000}}
    wish = wants("ada", "1", pool="train", time_s=60)
    free = "d1 dev: V100-32GBx1\nt1 train: V100-32GBx1"
    assert cards(plan_of(lends(free, wish, BOB, guarantee=guarantee))) == {1: 0}
    assert why(plan_of(lends(free, wish, BOB, begins=500.0, guarantee=guarantee)), 1) == ["borrow_denied"]


def test_who_runs_on_a_lent_card_uses_up_nothing_that_its_pool_could_let_others_borrow():
    """One card of train is guaranteed to bob, the other may be borrowed though ada has one that is lent."""
    snapshot = lends(
        "d1 dev: V100-32GBx1\nt1 train: V100-32GBx2",
        *[wants("ada", "1", pool="train", time_s=60)] * 3,
        BOB,
        guarantee={("bob", "train"): {"gpu_milli": 1000}},
    )
    plan = plan_of(snapshot)
    assert len(plan.starts) == 2 and why(plan, 3) == ["borrow_denied"]


@pytest.mark.parametrize(("guest", "starts"), [("", [1]), (" | eve holds 1", []), (" | eve holds 1 preemptible", [1])])
def test_a_pool_lends_nobody_what_a_guest_leaves_of_its_guarantee(guest, starts):
    """One card of dev is guaranteed to bob; of both, eve of train has one."""
    nodes = "d1 dev: V100-32GBx2" + guest + "\nt1 train: cpu"
    guarantee = {("bob", "dev"): {"gpu_milli": 1000}}
    snapshot = in_train(world(nodes, wants("ada", "1", time_s=60), BOB, guarantee=guarantee))
    assert started(plan_of(replace(snapshot, windows=()))) == starts


def test_a_forecast_knows_when_the_window_opens():
    busy = "d1 dev: V100-32GBx1\nt1 train: V100-32GBx1 | bob holds 1 until 5000"
    snapshot = lends(busy, wants("ada", "1", pool="train", time_s=60), begins=700.0)
    assert forecast_starts(snapshot, Policy(), 100.0, RunTimeHistory())[1] == StartRange(700, 700, 700)


def test_and_that_it_closes_before_a_long_job_would_end():
    busy = "d1 dev: V100-32GBx1\nt1 train: V100-32GBx1 | bob holds 1 until 5000"
    snapshot = lends(busy, wants("ada", "1", pool="train", time_s=301), begins=700.0)
    assert forecast_starts(snapshot, Policy(), 100.0, RunTimeHistory())[1] == StartRange(5000, 5000, 5000)


def overstaying(*more: str, wish: str = "1", **words):
    """In the morning a job of train still stands on the card of dev: the stranger is job -1."""
    snapshot = lends(
        MORNING.format(" | eve holds 1 " + " ".join(more)), wants("ada", wish, pool="dev", **words), ends=100.0
    )
    return in_train(snapshot)


def in_train(snapshot):
    """The first that runs is a job of train, wherever it stands."""
    if not snapshot.running:
        return snapshot
    stranger, *others = snapshot.running
    snapshot.remove_job(stranger)
    stranger = replace(stranger, pool=TRAIN)
    snapshot.restore_job(stranger)
    return replace(snapshot, running=(stranger, *others))


def test_when_the_window_has_closed_the_owners_take_their_cards_back():
    plan = plan_of(overstaying("preemptible"))
    assert plan.evictions == [Eviction(-1, "window_closed", 1)] and why(plan, 1)[0] == "making_room"


def test_even_from_a_job_of_a_higher_class():
    assert plan_of(overstaying("high", "preemptible")).evictions == [Eviction(-1, "window_closed", 1)]


def test_but_not_while_the_window_is_open():
    assert run_cycle(overstaying("preemptible"), Policy(), 99.0).evictions == []


def test_nor_from_one_that_cannot_be_stopped():
    plan = plan_of(overstaying())
    assert plan.evictions == [] and plan.reserved_at == {}


def test_nobody_takes_cards_of_a_pool_that_is_not_its_own():
    """A high job of train does not stop a low one of dev, whose card is lent."""
    snapshot = lends(
        "d1 dev: V100-32GBx1 | eve holds 1 low preemptible\nt1 train: V100-32GBx1 | bob holds 1",
        wants("ada", "1", pool="train", priority="high", time_s=inf),
    )
    assert plan_of(snapshot).evictions == []
