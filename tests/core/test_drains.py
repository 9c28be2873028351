"""Who waited long drains its place: nothing starts there that may outlast its start."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import MaintenanceWindow, Plan, Policy
from tests.core.test_cycle import cards, started, why
from tests.core.test_properties import many
from tests.worlds import wants, world

NOW = 100.0
AT_ONCE = Policy(drains_from=0.0)
BUSY = "n1: A100x2 | bob holds 1 until 1000"


def plan_of(snapshot: Snapshot, policy: Policy = AT_ONCE, now: float = NOW) -> Plan:
    return run_cycle(snapshot, policy, now)


def bounded(snapshot: Snapshot, **lengths: list[float]) -> Snapshot:
    """Give the jobs that run, or wait, these pessimistic lengths or limits, in order."""
    for name, values in lengths.items():
        jobs, field = name.split("_", 1)
        told = [replace(job, **{field: s}) for job, s in zip(getattr(snapshot, jobs), values, strict=True)]
        setattr(snapshot, jobs, tuple(told))
    return snapshot


@pytest.mark.parametrize(
    ("latest_s", "limit_s", "starts"),
    [(inf, inf, False), (901.0, inf, False), (900.0, inf, True), (inf, 900.0, True), (901.0, 900.0, True)],
)
def test_only_who_is_gone_before_by_the_pessimistic_end_starts_there(latest_s, limit_s, starts):
    snapshot = world(BUSY, wants("ada", "2", at=0), wants("eve", "1", time_s=300))
    bounded(snapshot, waiting_latest_s=[inf, latest_s], waiting_limit_s=[inf, limit_s])
    plan = plan_of(snapshot)
    assert started(plan) == ([2] if starts else []) and plan.reserved_at == {1: 1000}
    if not starts:
        assert why(plan, 2) == ["ahead_in_queue", "reserved_for_larger"]


@pytest.mark.parametrize(("waited_h", "starts"), [(3.9, [2]), (4.1, [])])
def test_nobody_drains_before_a_third_of_the_time_that_raises_a_class(waited_h, starts):
    snapshot = world(BUSY, wants("ada", "2", at=NOW - waited_h * 3600), wants("eve", "1", time_s=300))
    assert started(plan_of(snapshot, Policy())) == starts


def test_small_work_goes_on_elsewhere():
    plan = plan_of(world(f"{BUSY}\nn2: A100x1", wants("ada", "2", at=0), *[wants("eve", "1", time_s=300)] * 2))
    assert started(plan) == [2] and cards(plan.starts[0]) == [2]


def test_the_place_is_where_all_is_gone_first_by_the_pessimistic_ends():
    busy = "n1: A100x2 | bob holds 2 until 500\nn2: A100x2 | bob holds 2 until 800"
    snapshot = bounded(world(busy, wants("ada", "2", at=0)), running_latest_s=[9000.0, 900.0])
    plan = plan_of(snapshot)
    assert plan.reserved_at == {1: 800} and plan.starts_by == {1: 900}


def test_where_nothing_bounds_the_ends_who_began_first_counts_as_first_to_end():
    busy = "n1: A100x2 | bob holds 1\nn2: A100x2 | bob holds 1"
    snapshot = bounded(world(busy, wants("ada", "2", at=0), wants("eve", "1")), running_started_at=[60.0, 30.0])
    plan = plan_of(snapshot)
    assert started(plan) == [2] and cards(plan.starts[0]) == [1]
    assert plan.starts_by == {}


@pytest.mark.parametrize(("latest_s", "starts"), [(inf, []), (400.0, [2])])
def test_where_the_start_is_not_known_only_a_job_of_known_pessimistic_end_passes(latest_s, starts):
    snapshot = world("n1: A100x2 | bob holds 1", wants("ada", "2", at=0), wants("eve", "1", time_s=300))
    plan = plan_of(bounded(snapshot, waiting_latest_s=[inf, latest_s]))
    assert started(plan) == starts and plan.refusals[1][0].params == {}
    if not starts:
        assert plan.refusals[2][-1].params == {"drained": True}


def test_at_most_so_many_drain_as_have_reservations_and_they_share_no_place():
    busy = (
        "n1: A100x2 | bob holds 1 until 1000\nn2: A100x2 | bob holds 1 until 2000\nn3: A100x2 | bob holds 1 until 3000"
    )
    snapshot = world(busy, *[wants("ada", "2", at=number) for number in range(3)], *[wants("eve", "1", time_s=5)] * 2)
    bounded(snapshot, running_limit_s=[1000.0, 2000.0, 3000.0])
    plan = plan_of(snapshot)
    assert plan.starts_by == {1: 1000, 2: 2000}
    assert started(plan) == [4] and cards(plan.starts[0]) == [5]


def test_a_job_that_its_team_s_limit_holds_drains_nothing():
    limit = {("ada", "dev"): {"gpu_milli": 1000}}
    plan = plan_of(world(BUSY, wants("ada", "2", at=0), wants("eve", "1", time_s=9000), limit=limit))
    assert started(plan) == [2] and plan.starts_by == {}


def test_no_machine_is_drained_that_goes_into_maintenance_before_the_job_would_end():
    busy = "n1: A100x2 | bob holds 1 until 500\nn2: A100x2 | bob holds 1 until 900"
    snapshot = bounded(world(busy, wants("ada", "2", at=0, time_s=5000)), running_limit_s=[500.0, 900.0])
    assert plan_of(snapshot).starts_by == {1: 500}
    snapshot.closings = (MaintenanceWindow((0,), 2000.0, 8000.0),)
    assert plan_of(snapshot).starts_by == {1: 900}


small = st.tuples(
    st.sampled_from((-300.0, -100.0, 0.0, 50.0, 400.0, 900.0, 2000.0)),  # when it comes
    st.sampled_from((100.0, 600.0, 3600.0)),  # what is expected
    st.sampled_from((1.0, 3.0, 10.0)),  # so many times as long at most
    st.sampled_from((1.0, 0.5, 0.05)),  # the part of that which it takes
)


SHORT, SLOW = (-300.0, 100.0, 1.0, 1.0), (900.0, 100.0, 10.0, 1.0)
"""The second comes when the liar has outlived its expected end, and would end after the latest but before that."""
LIAR, PASSER, LATE = (-300.0, 600.0, 3.0, 1.0), (900.0, 600.0, 10.0, 1.0), (2000.0, 100.0, 1.0, 1.0)
"""Who runs three times as long as expected; who would end before by the expected ends, and takes ten times as long."""


@many(60)
@example([2], [LIAR, PASSER, LATE, LATE], 1, "2")
@example([4], [SHORT, SHORT, LIAR, SLOW], 1, "4")
@given(
    st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=4),
    st.lists(small, min_size=4, max_size=16),
    st.integers(1, 4),
    st.sampled_from(("1", "2", "4")),
)
def test_a_gang_starts_no_later_than_told_while_no_job_outlasts_its_pessimistic_end(nodes, jobs, tasks, ask):
    """However wrong the expected ends are, whoever comes meanwhile."""
    text = "\n".join(f"n{number}: A100x{count}" for number, count in enumerate(nodes))
    line = [wants("ada", ask, gang=tasks, at=NOW, time_s=600.0)]
    line += [wants("ada", "1", at=NOW + comes, time_s=time_s) for comes, time_s, _, _ in jobs]
    snapshot = world(text, *line)
    gang, others = snapshot.waiting[0], snapshot.waiting[1:]
    most = [time_s * times for _, time_s, times, _ in jobs]
    others = [replace(job, latest_s=s) for job, s in zip(others, most, strict=True)]
    takes = {job.job: job.latest_s * part for job, (*_, part) in zip(others, jobs, strict=True)}
    snapshot.waiting = ()
    play = Simulation(
        snapshot, AT_ONCE, NOW - 300, lambda job: takes.get(job.job, 600.0), arrivals=[gang, *others], explains=True
    )
    told = inf
    for moment in play.run_steps():
        if any(start.job == gang.job for start in moment.plan.starts):
            assert moment.at <= told
            return
        told = min(told, moment.plan.starts_by.get(gang.job, inf))
    assert told == inf and sum(count // int(ask) for count in nodes) < tasks


@pytest.mark.parametrize(
    ("limits", "latest", "told"),
    [
        ([1000.0, 5000.0], [inf, inf], {"by": 1000.0}),
        ([1000.0, 5000.0], [900.0, inf], {"at": 1000.0}),  # an estimate is no promise
        ([1000.0, inf], [inf, inf], {"at": 1000.0}),
        ([inf, inf], [inf, inf], {"at": 1000.0}),
    ],
)
def test_the_job_is_told_a_bound_only_where_limits_bound_all_that_runs(limits, latest, told):
    busy = f"{BUSY}\nn2: A100x2 | bob holds 2 until 3000"
    snapshot = world(busy, wants("ada", "2", at=0), wants("eve", "1", time_s=300))
    plan = plan_of(bounded(snapshot, running_limit_s=limits, running_latest_s=latest))
    first, *_ = plan.refusals[1]
    assert (first.reason, first.params) == ("emptying", told)
    assert plan.refusals[2][-1].params == {"at": 1000.0, "drained": True}


def test_where_a_bound_is_told_only_a_limit_lets_a_job_in():
    snapshot = world(BUSY, wants("ada", "2", at=0), *[wants("eve", "1", time_s=300)] * 2)
    bounded(snapshot, running_limit_s=[1000.0], waiting_latest_s=[inf, 300.0, 300.0], waiting_limit_s=[inf, inf, 900.0])
    assert started(plan_of(snapshot)) == [3]
