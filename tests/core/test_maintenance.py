"""Machines that go into maintenance: what starts on them ends before, and what may be stopped is stopped."""

from collections import Counter
from dataclasses import replace
from math import inf

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.forecast.start_suggestions import suggest_run_times
from scheduler.core.model.types import Eviction, MaintenanceWindow, Policy
from scheduler.core.queueing.maintenance import find_nodes_in_maintenance
from tests.core.test_properties import NOW, worlds
from tests.worlds import wants, world

ONE = "n1: V100-32GBx1"


def plan_of(snapshot, *closings, now=0.0):
    snapshot.closings = closings
    return run_cycle(snapshot, Policy(), now)


def closed(node, at, until, *, stops=False):
    return MaintenanceWindow((node,), at, until, stops)


def nodes_of(plan):
    return {start.job: start.tasks[0].node for start in plan.starts}


def test_a_job_that_ends_before_starts_and_a_longer_one_is_told_of_the_maintenance():
    assert nodes_of(plan_of(world(ONE, wants("ada", "1", time_s=100)), closed(0, 100, 200))) == {1: 0}
    plan = plan_of(world(ONE, wants("ada", "1", time_s=101)), closed(0, 100, 200))
    reason = plan.refusals[1][0]
    assert plan.starts == [] and plan.reserved_at == {1: 200}
    assert (reason.reason, reason.params) == ("maintenance", {"at": 100, "until": 200, "nodes": ["n1"], "n": 1})


def test_a_job_of_unknown_length_goes_to_the_machine_that_stays():
    snapshot = world("n1: V100-32GBx1\nn2: V100-32GBx1", wants("ada", "1"))
    assert nodes_of(plan_of(snapshot, closed(0, 100, 200))) == {1: 1}


@pytest.mark.parametrize(("expected_s", "started"), [(100, {1: 0}), (101, {})])
def test_a_job_of_unknown_length_is_taken_to_last_as_long_as_such_jobs_of_its_pool_did(expected_s, started):
    snapshot = world(ONE, wants("ada", "1"))
    snapshot.expected_s = (expected_s,)
    plan = plan_of(snapshot, closed(0, 100, 200))
    assert nodes_of(plan) == started
    assert not started or not plan.refusals
    assert started or plan.refusals[1][0].params["taken_s"] == expected_s
    assert nodes_of(plan_of(world(ONE, wants("ada", "1")))) == {1: 0}  # nobody asks while nothing is planned


@pytest.mark.parametrize(("latest_s", "started"), [(100, {1: 0}), (101, {})])
def test_a_job_that_might_be_late_is_not_started_before(latest_s, started):
    snapshot = world(ONE, wants("ada", "1", time_s=50))
    snapshot.waiting = (replace(snapshot.waiting[0], latest_s=latest_s),)
    plan = plan_of(snapshot, closed(0, 100, 200))
    assert nodes_of(plan) == started
    told = {"at": 100, "until": 200, "nodes": ["n1"], "n": 1, "taken_s": latest_s, "predicted": True}
    assert started or plan.refusals[1][0].params == told


def test_a_job_that_may_be_stopped_starts_until_the_maintenance_that_stops_it():
    job = wants("ada", "1", time_s=1000, preemptible=True)
    assert nodes_of(plan_of(world(ONE, job), closed(0, 100, 200, stops=True), now=99)) == {1: 0}
    assert nodes_of(plan_of(world(ONE, job), closed(0, 100, 200, stops=True), now=100)) == {}
    assert nodes_of(plan_of(world(ONE, job), closed(0, 100, 200))) == {}
    both = closed(0, 100, 200, stops=True), closed(0, 300, 400)
    assert nodes_of(plan_of(world(ONE, job), *both)) == {}  # the second would not stop it


def test_the_first_in_line_that_may_be_stopped_gets_a_place_before_the_maintenance():
    text, job = f"{ONE} | ada holds 1 until 50", wants("bob", "1", time_s=1000, preemptible=True)
    assert plan_of(world(text, job), closed(0, 100, 200, stops=True)).reserved_at == {1: 50}
    assert plan_of(world(text, job), closed(0, 50, 200, stops=True)).reserved_at == {1: 200}


def test_a_drained_node_loses_what_can_be_queued_again_and_nothing_else():
    snapshot = world("n1: V100-32GBx2 | ada holds 1 preemptible | bob holds 1")
    snapshot.draining, snapshot.node_open[0] = (0,), False
    assert [(one.job, one.reason) for one in run_cycle(snapshot, Policy(), 0.0).evictions] == [(-1, "maintenance")]


def test_in_a_play_a_job_that_may_be_stopped_runs_before_and_after_it():
    snapshot = world(ONE, wants("ada", "1", time_s=inf, preemptible=True))
    snapshot.closings = (closed(0, 100, 200, stops=True),)
    moments = list(Simulation(snapshot, Policy(), 0.0, lambda job: 150.0).run_steps())
    assert [(m.at, s.job) for m in moments for s in m.plan.starts] == [(0, 1), (200, 1)]
    assert [(m.at, e.job) for m in moments for e in m.plan.evictions] == [(100, 1)]


def test_a_slice_is_kept_away_as_a_whole_card_is():
    assert plan_of(world(ONE, wants("ada", "4GB", time_s=150)), closed(0, 100, 200)).starts == []


def test_one_that_comes_later_leaves_the_time_between_to_short_jobs():
    snapshot = world(ONE, wants("ada", "1", time_s=90), wants("ada", "1", time_s=300))
    assert nodes_of(plan_of(snapshot, closed(0, 100, 200), closed(0, 400, 500))) == {1: 0}


@pytest.mark.parametrize(("time_s", "stopped"), [(100, [-1]), (101, [])])
def test_nobody_is_stopped_on_a_machine_that_closes_too_soon(time_s, stopped):
    lower = f"{ONE} | ada holds 1 until 50 preemptible low"
    plan = plan_of(world(lower, wants("ada", "1", priority="high", time_s=time_s)), closed(0, 100, 200))
    assert [eviction.job for eviction in plan.evictions] == stopped


def test_work_without_a_card_is_kept_away_too():
    plan = plan_of(world("c1: cpu", wants("ada", "cpu", time_s=101)), closed(0, 100, 200))
    assert plan.starts == [] and plan.refusals[1][0].reason == "maintenance"


def test_while_it_lasts_the_machine_takes_nothing_and_afterwards_it_comes_back():
    snapshot = world(ONE, wants("ada", "1", time_s=1))
    plan = plan_of(snapshot, closed(0, 100, 200), now=150)
    assert plan.starts == [] and plan.refusals[1][0].params == {"until": 200, "nodes": ["n1"], "n": 1}
    assert find_nodes_in_maintenance(snapshot, 150).tolist() == [True]
    assert nodes_of(plan_of(snapshot, closed(0, 100, 200), now=200)) == {1: 0}
    assert find_nodes_in_maintenance(snapshot, 200).tolist() == [False]


def test_it_takes_not_even_who_takes_no_time():
    for now in (100, 150):
        assert plan_of(world(ONE, wants("ada", "1", time_s=0)), closed(0, 100, 200), now=now).starts == []


@pytest.mark.parametrize("words", ["", " preemptible"])
def test_nothing_that_runs_is_stopped_unless_the_maintenance_says_so(words):
    snapshot = world(f"{ONE} | ada holds 1{words}", wants("bob", "1"))
    assert plan_of(snapshot, closed(0, 100, 200), now=100).evictions == []


def test_at_its_beginning_what_may_be_stopped_is_and_nothing_before_nor_elsewhere():
    text = "n1: V100-32GBx2 | ada holds 1 preemptible | ada holds 1\nn2: V100-32GBx1 | eve holds 1 preemptible"
    closing = closed(0, 100, 200, stops=True)
    assert plan_of(world(text), closing, now=99).evictions == []
    assert plan_of(world(text), closing, now=100).evictions == [Eviction(-1, "maintenance")]
    assert plan_of(world(text), closing, now=200).evictions == []


def test_who_is_being_stopped_already_is_not_stopped_again():
    snapshot = world(f"{ONE} | ada holds 1 preemptible leaving")
    assert plan_of(snapshot, closed(0, 0, 200, stops=True)).evictions == []


def test_the_first_in_line_keeps_a_time_before_a_maintenance_where_it_ends_before():
    """A maintenance of next week does not put it off until then, to be passed by everybody who is short."""
    text = f"{ONE} | ada holds 1 until 50"
    assert plan_of(world(text, wants("bob", "1", time_s=50)), closed(0, 100, 200)).reserved_at == {1: 50}
    assert plan_of(world(text, wants("bob", "1", time_s=51)), closed(0, 100, 200)).reserved_at == {1: 200}


def test_the_first_in_line_may_stand_between_two_maintenances():
    text, closings = f"{ONE} | ada holds 1 until 50", (closed(0, 100, 200), closed(0, 300, 400))
    assert plan_of(world(text, wants("bob", "1", time_s=100)), *closings).reserved_at == {1: 200}
    assert plan_of(world(text, wants("bob", "1", time_s=101)), *closings).reserved_at == {1: 400}


def test_room_that_only_somebody_in_line_needs_is_not_called_maintenance():
    text = "n1: V100-32GBx2 | ada holds 1 until 50\nn2: V100-32GBx1"
    jobs = wants("ada", "2", time_s=10, priority="high"), wants("bob", "1", time_s=70), wants("bob", "1", time_s=70)
    plan = plan_of(world(text, *jobs), closed(1, 100, 200))
    assert nodes_of(plan) == {2: 1} and plan.refusals[3][1].reason == "reserved_for_larger"


def test_nobody_is_stopped_for_a_job_that_would_still_run_then():
    for time_s, stopped in ((100, [-1]), (101, [])):
        snapshot = world(f"{ONE} | ada holds 1 preemptible low", wants("ada", "1", priority="high", time_s=time_s))
        assert [eviction.job for eviction in plan_of(snapshot, closed(0, 100, 200)).evictions] == stopped


def test_in_a_play_the_jobs_start_when_the_maintenance_is_over():
    snapshot = world(ONE, wants("ada", "1", time_s=inf))
    snapshot.closings = (closed(0, 100, 200),)
    starts = [
        (m.at, s.job) for m in Simulation(snapshot, Policy(), 0.0, lambda job: 10.0).run_steps() for s in m.plan.starts
    ]
    assert starts == [(200, 1)]


def test_in_a_play_machines_are_cleared_when_their_time_comes():
    snapshot = world(f"{ONE} | ada holds 1 preemptible", wants("bob", "1"))
    snapshot.closings = (closed(0, 100, 200, stops=True),)
    moments = list(Simulation(snapshot, Policy(), 0.0, lambda job: 10.0).run_steps())
    assert [(m.at, e.job) for m in moments for e in m.plan.evictions] == [(100, -1)]
    assert [(m.at, s.job) for m in moments for s in m.plan.starts] == [(200, 1)]


def test_a_time_that_ends_before_it_may_be_said():
    snapshot = world(ONE, wants("ada", "1", time_s=7200))
    plan = plan_of(snapshot, closed(0, 3600, 7200))
    assert suggest_run_times(plan, snapshot.waiting[0], 0.0) == [3540]
    assert suggest_run_times(plan_of(snapshot, closed(0, 0, 7200)), snapshot.waiting[0], 0.0) == []  # it has begun


closings = st.builds(
    lambda node, begins, lasts, stops: closed(node, NOW + begins, NOW + begins + lasts, stops=stops),
    st.integers(0, 3),
    st.sampled_from((-200.0, 0.0, 100.0, 600.0, 5000.0)),
    st.sampled_from((100.0, 200.0, 4000.0)),
    st.booleans(),
)


@given(snapshot=worlds(), planned=st.lists(closings, max_size=3))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_starts_where_it_would_be_met_and_only_what_may_be_stopped_is(snapshot, planned):
    planned = [closing for closing in planned if closing.nodes[0] < len(snapshot.nodes)]
    plan = plan_of(snapshot, *planned, now=NOW)
    waiting, running = ({job.job: job for job in jobs} for jobs in (snapshot.waiting, snapshot.running))
    for start in plan.starts:
        for closing in planned:
            # Who asks for nothing at all fits anywhere; no job file can.
            asks = (task for task in start.tasks if task.cards or task.cpu_milli or task.memory_mib)
            if any(task.node in closing.nodes for task in asks):
                stopped = waiting[start.job].preemptible and closing.stops and closing.at > NOW
                assert stopped or NOW + waiting[start.job].time_s <= closing.at or closing.ends_at <= NOW
    begun = {c.nodes[0] for c in planned if c.stops and c.at <= NOW < c.ends_at}
    there = [j.job for j in running.values() if j.preemptible and any(t.node in begun for t in j.tasks)]
    stopped = [eviction.job for eviction in plan.evictions if eviction.reason == "maintenance"]
    assert sorted(stopped) == sorted(there)
    assert max(Counter(eviction.job for eviction in plan.evictions).values(), default=0) <= 1
    started = {start.job for start in plan.starts}
    assert all(job in started or plan.refusals[job] for job in waiting)
