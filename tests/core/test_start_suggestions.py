"""What would help a waiting job, in worlds where the answer can be worked out by hand."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.run_times import RunTimeHistory
from scheduler.core.forecast.start_suggestions import (
    find_helpful_changes,
    is_worthwhile,
    keep_first_in_line,
    suggest_run_times,
)
from scheduler.core.model.types import HIGH, LendingWindow, Policy, Role, StartRange
from tests.worlds import build_ask, wants, with_waiting, world

EXACT = RunTimeHistory()


def asking(snapshot, job, text):
    """The job with another ask."""
    return replace(job, gang=(Role("worker", 1, 1, build_ask(snapshot.kind_names, text)),))


def find(snapshot, job, *families, **options):
    numbered = [[((n, step), (changed,)) for step, changed in enumerate(family)] for n, family in enumerate(families)]
    return find_helpful_changes(snapshot, Policy(), 0.0, options.pop("run_times", EXACT), (job,), numbered, **options)


def steps(levers):
    return [(*lever.change, lever.start.p50) for lever in levers.found]


def test_fewer_cards_start_now_where_two_wait_an_hour():
    snapshot = world("n1: A100x2 | bob holds 1 until 3600", wants("ada", "2"))
    found = find(snapshot, snapshot.waiting[0], [asking(snapshot, snapshot.waiting[0], "1")])
    assert found.start == StartRange(3600, 3600, 3600) and steps(found) == [(0, 0, 0)] and found.complete


def test_what_needs_room_first_does_not_start_in_the_next_cycle():
    """It was said to start now, and waited for the one that was stopped for it."""
    for held, next_cycle in (("bob holds 1 preemptible low | ", False), ("", True)):
        snapshot = world(f"n1: A100x2 | {held}eve holds 1 until 3600", wants("ada", "2"))
        (change,) = find(snapshot, snapshot.waiting[0], [asking(snapshot, snapshot.waiting[0], "1")]).found
        assert (change.start.p90, change.next_cycle) == (0, next_cycle)


def test_of_a_family_the_mildest_is_kept_and_what_helps_beyond_it():
    """Four cards at 4000, three at 3900, two at 1000, one now: three do not help over four, and now comes first."""
    held = "bob holds 1 until 1000 | bob holds 1 until 3900 | bob holds 1 until 4000"
    snapshot = world(f"n1: A100x4 | {held}", wants("ada", "4"))
    job = snapshot.waiting[0]
    found = find(snapshot, job, [asking(snapshot, job, text) for text in ("3", "2", "1", "1/2")])
    assert steps(found) == [(0, 2, 0), (0, 1, 1000)]


def test_another_pool_helps_where_it_is_free_and_not_where_its_line_is_longer():
    nodes = "n1: A100x1 | bob holds 1 until 3600\nn2 spare: A100x1\nn3 train: A100x1 | bob holds 1 until 7200"
    snapshot = world(nodes, wants("ada", "1"))
    job = snapshot.waiting[0]
    elsewhere = [[replace(job, pool=snapshot.pool_names.index(name))] for name in ("spare", "train")]
    assert steps(find(snapshot, job, *elsewhere)) == [(0, 0, 0)]


def test_a_time_that_ends_before_the_reservation_lets_it_start_now():
    """eve's two cards are kept for her at 7200; ada's one card is in the way for two hours and a half."""
    text = "n1: A100x2 | bob holds 1 until 7200"
    snapshot = world(text, wants("eve", "2", time_s=600, priority="high"), wants("ada", "1", time_s=9000))
    job, plan = snapshot.waiting[1], run_cycle(snapshot, Policy(), 0.0)
    assert plan.refusals[job.job][-1].reason == "reserved_for_larger"
    times = suggest_run_times(plan, job, 0.0)
    assert times == [7140.0]
    found = find(snapshot, job, [replace(job, time_s=time) for time in times])
    assert found.start.p50 == 7800 and steps(found) == [(0, 0, 0)]


def test_a_time_that_ends_within_a_window_lets_it_use_what_is_lent():
    """dev lends its card from 1000 to 5000: who says that it takes no longer starts then."""
    busy = world("n1: V100-32GBx1\nt1 train: V100-32GBx1 | bob holds 1 until 90000", wants("ada", "1", pool="train"))
    busy = replace(busy, windows=(LendingWindow((0,), 1, 1000.0, 5000.0),))
    [job] = busy.waiting
    times = suggest_run_times(run_cycle(busy, Policy(), 0.0), job, 0.0, busy.windows)
    assert times == [3900.0]  # less than 4000 s, with a minute to spare
    found = find_helpful_changes(busy, Policy(), 0.0, EXACT, (job,), [[(times[0], (replace(job, time_s=times[0]),))]])
    assert found.start.p50 == 90_000 and [(lever.change, lever.start.p50) for lever in found.found] == [(3900.0, 1000)]


def test_who_may_be_stopped_may_borrow():
    snapshot = world(
        "n1: A100x2", wants("ada", "2"), guarantee={("eve", "dev"): {"gpu_milli": 1000}}, parents={"eve": "lab"}
    )
    job = snapshot.waiting[0]
    assert run_cycle(snapshot, Policy(), 0.0).refusals[job.job][0].reason == "borrow_denied"
    found = find(snapshot, job, [replace(job, preemptible=True)])
    assert found.start.p50 == inf and steps(found) == [(0, 0, 0)]


def test_a_higher_class_helps_by_as_much_as_it_passes():
    """One card, an hour each: third in line, and first of those that wait."""
    jobs = [wants("ada", "1", time_s=3600) for _ in range(3)]
    snapshot = world("n1: A100x1 | bob holds 1 until 1800", *jobs)
    job = snapshot.waiting[2]
    found = find(snapshot, job, [replace(job, priority=HIGH)])
    assert found.start.p50 == 1800 + 7200 and steps(found) == [(0, 0, 1800)]


def test_both_queues_see_the_same_futures():
    """What runs and what waits before it draw alike: a change that changes nothing helps in none of them."""
    jobs = [wants("ada", "1", time_s=100) for _ in range(5)]
    snapshot = world("n1: A100x1", *jobs)
    job = snapshot.waiting[4]
    ratios = RunTimeHistory(tuple(0.25 * n for n in range(1, 12)))
    same = find(snapshot, job, [replace(job, held=False)], run_times=ratios)
    assert same.found == () and same.start.p10 < same.start.p90


def test_a_budget_that_is_spent_leaves_changes_untried_and_says_so():
    snapshot = world("n1: A100x2 | bob holds 1 until 3600", wants("ada", "2"))
    job = snapshot.waiting[0]
    found = find(snapshot, job, [asking(snapshot, job, "1")], budget_left=lambda: 0.0)
    assert (found.start, found.found, found.complete) == (None, (), False)


def test_what_starts_now_is_found_before_any_future_is_played():
    """A budget for two questions: both changes are looked at, and then it is spent."""
    jobs = [wants("eve", "2", time_s=60), wants("ada", "2")]
    snapshot = world("n1: A100x2 | bob holds 1 until 3600\nn2 spare: A100x2", *jobs)
    job, left = snapshot.waiting[1], iter([0.5, 0.2])
    elsewhere = [replace(job, pool=snapshot.pool_names.index("spare"))]
    found = find(snapshot, job, [asking(snapshot, job, "A100:2")], elsewhere, budget_left=lambda: next(left, 0.0))
    assert (found.start, steps(found), found.complete) == (None, [(1, 0, 0)], False)


def test_a_job_that_does_not_wait_yet_is_foretold_behind_the_others():
    snapshot = world("n1: A100x1", wants("ada", "1", time_s=100), wants("ada", "1", time_s=50))
    queue = with_waiting(snapshot, snapshot.waiting[0])
    assert find(queue, snapshot.waiting[1]).start.p50 == 100 and len(queue.waiting) == 1


@pytest.mark.parametrize(
    ("p50", "other", "does"),
    [
        *((3600, 2999, True), (7200, 6599, True), (7200, 6601, False), (1000, 800, True), (1000, 801, False)),
        *((inf, 9e9, True), (inf, inf, False), (900, 1200, False)),
    ],
)  # fmt: skip
def test_ten_minutes_or_a_fifth_of_the_wait_is_a_help(p50, other, does):
    assert is_worthwhile(StartRange(p50, p50, p50), StartRange(other, other, other), 0.0) is does


def test_a_start_now_is_a_help_however_short_the_wait():
    assert is_worthwhile(StartRange(5, 5, 5), StartRange(0, 0, 0), 0.0) and not is_worthwhile(
        StartRange(0, 0, 0), StartRange(0, 0, 0), 0.0
    )


def test_the_front_of_the_line_is_enough_to_foretell_it():
    snapshot = world("n1: A100x1", *[wants("ada", "1", time_s=100) for _ in range(9)])
    front = keep_first_in_line(snapshot, run_cycle(snapshot, Policy(), 0.0), 3)
    assert [job.job for job in front.waiting] == [1, 2, 3, 4]
