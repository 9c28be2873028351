"""A pool lends its cards to another for a while."""

from dataclasses import replace
from math import inf

from scheduler.core.cycle import run_cycle
from scheduler.core.possible import could_ever_run
from scheduler.core.types import Eviction, Policy
from tests.core.test_cycle import started, why
from tests.worlds import wants, world

DEV, TRAIN = 0, 1
NIGHT = "d1 dev: V100-32GBx1\nt1 train: V100-32GBx1 | bob holds 1"
MORNING = "d1 dev: V100-32GBx1{}\nt1 train: V100-32GBx1 | bob holds 1"


def lends(text: str, *wishes, lent=TRAIN, may=True, **words):
    """The snapshot in which the card of dev is lent, to jobs that may use it."""
    snapshot = world(text, *wishes, **words)
    snapshot.gpu_lent[:] = [lent, -1]
    snapshot.waiting = tuple(replace(job, lent=may and job.pool == lent) for job in snapshot.waiting)
    return snapshot


def cards(plan) -> dict[int, int]:
    return {start.job: start.tasks[0].cards[0].gpu for start in plan.starts}


def plan_of(snapshot):
    return run_cycle(snapshot, Policy(), 100.0)


def test_a_job_of_the_borrower_takes_a_lent_card():
    assert cards(plan_of(lends(NIGHT, wants("ada", "1", pool="train", time_s=60)))) == {1: 0}


def test_one_that_may_not_use_it_waits_though_another_that_asks_alike_starts():
    snapshot = lends(NIGHT, wants("ada", "1", pool="train", at=1), wants("ada", "1", pool="train", at=2))
    first, second = snapshot.waiting
    snapshot.waiting = replace(first, lent=False), second
    assert cards(plan_of(snapshot)) == {2: 0}


def test_without_a_window_the_card_is_for_its_own_pool_only():
    assert started(plan_of(lends(NIGHT, wants("ada", "1", pool="train"), lent=-1))) == []


def test_the_lender_still_uses_its_cards():
    assert cards(plan_of(lends(NIGHT, wants("ada", "1", pool="dev")))) == {1: 0}


def test_a_lent_card_is_no_place_for_a_reservation():
    snapshot = lends(
        "d1 dev: V100-32GBx1 | eve holds 1 until 500\nt1 train: V100-32GBx1 | bob holds 1 until 900",
        wants("ada", "1", pool="train", time_s=50),
    )
    assert plan_of(snapshot).reserved_at == {1: 900}


def test_what_is_lent_makes_nothing_possible_that_its_own_pool_could_never_run():
    [job] = (snapshot := lends(NIGHT, wants("ada", "1", gang=2, pool="train"))).waiting
    assert could_ever_run(snapshot, job)[0].reason == "impossible"
    [job] = (snapshot := lends(NIGHT, wants("ada", "1", pool="dev"))).waiting
    assert could_ever_run(snapshot, job) == []


def overstaying(*more: str, wish: str = "1", **words):
    """In the morning a job of train still stands on the card of dev: the stranger is job -1."""
    snapshot = lends(
        MORNING.format(" | eve holds 1 " + " ".join(more)), wants("ada", wish, pool="dev", **words), lent=-1
    )
    stranger, *others = snapshot.running
    snapshot.leave(stranger)
    stranger = replace(stranger, pool=TRAIN)
    snapshot.come_back(stranger)
    snapshot.running = stranger, *others
    return snapshot


def test_when_the_window_has_closed_the_owners_take_their_cards_back():
    plan = plan_of(overstaying("preemptible"))
    assert plan.evictions == [Eviction(-1, "window_closed", 1)] and why(plan, 1)[0] == "making_room"


def test_even_from_a_job_of_a_higher_class():
    assert plan_of(overstaying("high", "preemptible")).evictions == [Eviction(-1, "window_closed", 1)]


def test_but_not_while_the_window_is_open():
    snapshot = overstaying("preemptible")
    snapshot.gpu_lent[0] = TRAIN
    assert plan_of(snapshot).evictions == []


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
