"""Elastic gangs start with as many tasks, from their least to their most, as disturbs nobody."""

from collections import Counter
from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Plan
from scheduler.core.queueing.cycle_context import CycleMemo
from tests.core.brute_force import fits_somehow
from tests.core.test_cycle import cycle
from tests.core.test_properties import ASKS, NOW, POLICY, after, many, nodes, run, worlds
from tests.worlds import of_roles, wants, with_waiting, world

TWO, FOUR = {"gpu_milli": 2000}, {"gpu_milli": 4000}


def elastic(snapshot, most: int, job: int = 1):
    """The world in which the first role of this job may have so many tasks."""
    return with_waiting(
        snapshot, *(with_most(other, most) if other.job == job else other for other in snapshot.waiting)
    )


def with_most(job, most: int):
    return replace(job, gang=(replace(job.gang[0], max=most), *job.gang[1:]))


def sizes(plan: Plan) -> dict[int, int]:
    return {start.job: len(start.tasks) for start in plan.starts}


def test_a_gang_starts_with_its_most_where_there_is_room():
    assert sizes(cycle(elastic(world("n1: A100x8", wants("ada", "1", gang=2)), 5))) == {1: 5}


def test_a_gang_starts_with_what_there_is_between_its_least_and_its_most():
    assert sizes(cycle(elastic(world("n1: A100x2\nn2: A100x1", wants("ada", "1", gang=2)), 8))) == {1: 3}


def test_below_its_least_it_takes_nothing():
    assert sizes(cycle(elastic(world("n1: A100x2", wants("ada", "1", gang=3)), 8))) == {}


def test_tasks_beyond_the_least_are_ranked_behind_all_others():
    snapshot = world("n1: A100x4", wants("ada", "1"))
    ask = snapshot.waiting[0].gang[0].ask
    job = of_roles(snapshot.waiting[0], ("actor", 1, ask), ("learner", 1, ask))
    (start,) = cycle(with_waiting(snapshot, with_most(job, 3))).starts
    assert [(task.rank, task.role) for task in start.tasks] == [
        (0, "actor"),
        (1, "learner"),
        (2, "actor"),
        (3, "actor"),
    ]


def test_it_stays_within_the_limit_of_its_team():
    snapshot = world("n1: A100x8", wants("ada", "1"), limit={("ada", "dev"): FOUR})
    assert sizes(cycle(elastic(snapshot, 8))) == {1: 4}


def test_it_stays_within_the_limit_of_its_user():
    assert sizes(cycle(elastic(world("n1: A100x8", wants("ada", "1"), user_limit={"ada": TWO}), 8))) == {1: 2}


def test_another_job_comes_before_its_tasks_beyond_the_least():
    snapshot = world("n1: A100x4", wants("ada", "1"), wants("eve", "2"))
    assert sizes(cycle(elastic(snapshot, 4))) == {1: 2, 2: 1}


def test_it_leaves_what_somebody_who_waits_keeps_in_time():
    held = "n1: A100x4 | bob holds 1 until 500"
    assert sizes(cycle(elastic(world(held, wants("ada", "1"), wants("eve", "3")), 4))) == {1: 1}
    over_by_then = world(held, wants("ada", "1", time_s=300), wants("eve", "3"))
    assert sizes(cycle(elastic(over_by_then, 4))) == {1: 3}


def test_it_does_not_take_what_another_team_is_guaranteed():
    for preemptible in (False, True):
        waits = wants("ada", "1", preemptible=preemptible), wants("bob", "cpu")
        snapshot = world("n1: A100x6", *waits, guarantee={("ada", "dev"): TWO, ("bob", "dev"): FOUR})
        assert sizes(cycle(elastic(snapshot, 6)))[1] == 2


def test_while_others_are_stopped_to_make_room_it_does_not_grow():
    held = "n1: A100x2 | eve holds 2 low preemptible\nn2: T4x2"
    plan = cycle(elastic(world(held, wants("ada", "T4:1"), wants("bob", "A100:2", priority="high")), 2))
    assert plan.evictions and sizes(plan) == {1: 1}


def test_it_leaves_the_limit_to_a_job_of_its_team_that_waits():
    held = "n1: A100x2 | eve holds 2\nn2: T4x4"
    snapshot = world(held, wants("ada", "T4:1"), wants("ada", "A100:2"), limit={("ada", "dev"): FOUR})
    assert sizes(cycle(elastic(snapshot, 4))) == {1: 1}
    waits = replace(snapshot.waiting[1], held=True)
    assert sizes(cycle(elastic(with_waiting(snapshot, snapshot.waiting[0], waits), 4))) == {1: 4}


@st.composite
def elastic_worlds(draw):
    snapshot = draw(worlds())
    jobs = (
        replace(job, gang=tuple(replace(r, max=r.min + draw(st.integers(0, 3))) for r in job.gang))
        for job in snapshot.waiting
    )
    return with_waiting(snapshot, *jobs)


@many(150)
@given(elastic_worlds())
def test_each_role_starts_with_its_least_to_its_most_or_the_job_not_at_all(snapshot):
    gangs = {job.job: job.gang for job in snapshot.waiting}
    for start in run_cycle(snapshot, POLICY, NOW).starts:
        count = Counter(task.role for task in start.tasks)
        assert all(role.min <= count[role.name] <= role.max for role in gangs[start.job])
        assert sorted(task.rank for task in start.tasks) == list(range(len(start.tasks)))
        least = sum(role.min for role in gangs[start.job])
        assert Counter(t.role for t in start.tasks[:least]) == {r.name: r.min for r in gangs[start.job]}


@many(150)
@given(elastic_worlds())
def test_no_limit_is_broken_and_nothing_oversold(snapshot):
    end = after(snapshot, run_cycle(snapshot, POLICY, NOW))
    for name in ("gpu_free_mib", "gpu_free_percent", "node_cpu_free", "node_memory_free"):
        assert (getattr(end, name) >= 0).all(), name
    assert (end.gpu_slices <= end.gpu_max_slices).all()
    assert not ((end.held > snapshot.held) & (end.held > end.limit)).any()
    assert not ((end.user_held > snapshot.user_held) & (end.user_held > end.user_limit)).any()


@many(100)
@given(elastic_worlds())
def test_what_is_beyond_the_least_changes_nothing_for_anybody_else(snapshot):
    """The same starts, stops, reasons and times as if every gang asked exactly its least; and the same plan again."""
    plan = run_cycle(snapshot, POLICY, NOW)
    exact = (replace(job, gang=tuple(replace(role, max=role.min) for role in job.gang)) for job in snapshot.waiting)
    without = run_cycle(with_waiting(snapshot, *exact), POLICY, NOW)
    assert [start.job for start in plan.starts] == [start.job for start in without.starts]
    for start, least in zip(plan.starts, without.starts, strict=True):
        assert start.tasks[: len(least.tasks)] == least.tasks
    assert (plan.evictions, plan.refusals) == (without.evictions, without.refusals)
    assert (plan.reserved_at, plan.positions) == (without.reserved_at, without.positions)
    assert run_cycle(snapshot, POLICY, NOW) == plan


@many(100)
@given(elastic_worlds())
def test_the_first_in_line_starts_no_later_for_it(snapshot):
    plan, jobs = run_cycle(snapshot, POLICY, NOW), {job.job: job for job in snapshot.waiting}
    for start in plan.starts:
        run(snapshot, start, jobs[start.job])
    for job, at in list(plan.reserved_at.items())[:1]:
        later = run_cycle(with_waiting(snapshot, jobs[job]), POLICY, NOW)
        assert later.reserved_at.get(job, NOW) <= at


@many(80)
@given(st.lists(nodes, min_size=1, max_size=3), st.sampled_from(ASKS), st.integers(1, 3), st.integers(0, 3))
def test_a_gang_alone_has_exactly_as_many_tasks_as_any_way_of_placing_them_allows(lines, ask, least, more):
    """Of one role. Every size is tried by brute force."""
    snapshot = world("\n".join(lines), wants("ada", ask, gang=least))
    (job,) = snapshot.waiting
    possible = [
        count
        for count in range(least, least + more + 1)
        if fits_somehow(snapshot, replace(job, gang=(replace(job.gang[0], min=count, max=count),)))
    ]
    plan = run_cycle(with_waiting(snapshot, with_most(job, least + more)), POLICY, NOW)
    assert sizes(plan) == ({1: max(possible)} if possible else {})


def test_a_gang_that_says_nothing_of_more_is_as_before():
    assert sizes(cycle(world("n1: A100x8", wants("ada", "1", gang=2, time_s=inf)))) == {1: 2}


@many(60)
@given(elastic_worlds())
def test_who_asks_for_no_reasons_gets_gangs_of_the_same_sizes(snapshot):
    assert run_cycle(snapshot, POLICY, NOW, CycleMemo(explains=False)).starts == run_cycle(snapshot, POLICY, NOW).starts
