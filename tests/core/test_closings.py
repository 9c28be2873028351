"""Cards that take nobody for a while: what starts on them ends before."""

from worlds import wants, world

from scheduler.core.cycle import run_cycle
from scheduler.core.types import Closing, Policy


def starts(snapshot, *closings, now=0.0):
    snapshot.closings = closings
    plan = run_cycle(snapshot, Policy(), now)
    return {start.job: start.tasks[0].cards[0].gpu for start in plan.starts}, plan


def test_a_job_that_ends_before_the_closing_starts_and_a_longer_one_waits():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", time_s=101))
    found, plan = starts(snapshot, Closing((0,), 100, 200))
    assert found == {} and plan.refusals[1][0].reason == "reserved_for_larger"
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", time_s=100))
    assert starts(snapshot, Closing((0,), 100, 200))[0] == {1: 0}


def test_a_job_of_unknown_length_takes_the_card_that_stays_open():
    snapshot = world("n1: V100-32GBx2", wants("ada", "1"))
    assert starts(snapshot, Closing((0,), 100, 200))[0] == {1: 1}


def test_the_first_in_line_is_told_the_end_of_the_closing():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", time_s=150))
    assert starts(snapshot, Closing((0,), 100, 200))[1].reserved_at == {1: 200}


def test_a_slice_is_closed_as_a_whole_card_is():
    snapshot = world("n1: V100-32GBx1", wants("ada", "4GB", time_s=150))
    assert starts(snapshot, Closing((0,), 100, 200))[0] == {}


def test_a_closing_that_comes_later_leaves_the_time_between_to_short_jobs():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", time_s=90), wants("ada", "1", time_s=300))
    closings = Closing((0,), 100, 200), Closing((0,), 400, 500)
    assert starts(snapshot, *closings)[0] == {1: 0}


def test_nobody_is_stopped_on_a_card_that_closes_too_soon():
    lower = "ada holds 1 until 50 preemptible low"
    for ends, stopped in ((100, [-1]), (101, [])):
        snapshot = world(f"n1: V100-32GBx1 | {lower}", wants("ada", "1", priority="high", time_s=ends))
        _, plan = starts(snapshot, Closing((0,), 100, 200))
        assert [eviction.job for eviction in plan.evictions] == stopped
