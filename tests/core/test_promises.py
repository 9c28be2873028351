"""What the scheduler promises over time and beyond one plan, tried on many random small worlds."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.demand import build_demand
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Placement, WaitingJob
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from scheduler.core.placement.gang_placement import UNLIMITED_QUOTA, place_gang
from scheduler.core.placement.scores import ScoreTable
from scheduler.core.placement.shortfall import Shortfall
from tests.core.brute_force import fits_somehow
from tests.core.test_properties import NOW, POLICY, many, run, worlds
from tests.worlds import wants, with_waiting, world

CARD = 1000
"""Thousandths."""
HOLDERS = ("", "bob holds 1", "bob holds 1 preemptible", "eve holds 1 low preemptible")


@st.composite
def lent_out(draw) -> tuple[Snapshot, int, int]:
    """Nodes of whole cards, some of which bob and eve hold beyond any guarantee, and jobs of ada's of one card each.

    With it: how many cards ada is guaranteed, and how many of all are free or held by jobs that can be stopped.
    """
    lines, free_or_lent, total = [], 0, 0
    for number in range(draw(st.integers(1, 3))):
        cards, line = draw(st.integers(1, 4)), f"n{number}: A100x"
        line += str(cards)
        for _ in range(cards):
            holder = draw(
                st.sampled_from(("", "bob holds 1", "bob holds 1 preemptible", "eve holds 1 low preemptible"))
            )
            line += f" | {holder}" if holder else ""
            free_or_lent += not holder or "preemptible" in holder
        lines.append(line)
        total += cards
    guaranteed = draw(st.integers(1, total))
    waiting = [wants("ada", "1", preemptible=draw(st.booleans())) for _ in range(draw(st.integers(1, 8)))]
    others = [wants(name, "1", preemptible=draw(st.booleans())) for name in draw(st.lists(st.sampled_from(("bob",))))]
    guarantee = {("ada", "dev"): {"gpu_milli": guaranteed * CARD}}
    return world("\n".join(lines), *others[:3], *waiting, guarantee=guarantee), guaranteed, free_or_lent


@many(80)
@given(lent_out())
def test_a_guarantee_is_never_refused_while_others_borrow(case):
    """However many of hers wait: as soon as those who borrowed are gone, ada has what she asked up to her guarantee."""
    snapshot, guaranteed, free_or_lent = case
    ada = snapshot.team_names.index("ada")
    asked = sum(job.team == ada for job in snapshot.waiting)
    play = Simulation(snapshot, POLICY, NOW, lambda job: inf)
    next(play.run_steps())
    runs = sum(job.team == ada for job in play.running.values())
    assert runs >= min(asked, guaranteed, free_or_lent)


@pytest.mark.parametrize(("guaranteed", "asked"), [(8, 8), (5, 8), (8, 3)])
def test_room_for_all_owners_is_made_at_once_and_for_no_more(guaranteed, asked):
    hers = [wants("ada", "1") for _ in range(asked)]
    guarantee = {("ada", "dev"): {"gpu_milli": guaranteed * CARD}}
    snapshot = world("n0: A100x8" + " | bob holds 1 preemptible" * 8, *hers, guarantee=guarantee)
    gone: set[int] = set()
    for _ in range(3):
        gone |= {eviction.job for eviction in run_cycle(snapshot, POLICY, NOW).evictions}
        snapshot.running = tuple(replace(job, leaving=job.job in gone) for job in snapshot.running)
    assert len(gone) == min(guaranteed, asked)


GRACE_S, LOOK_S = 60.0, 10.0
"""So long at most somebody who is stopped stays; and a cycle looks so often."""


@many(30)
@given(lent_out(), st.data())
def test_within_a_grace_a_guarantee_is_given_back_whoever_else_would_borrow(case, data):
    """Those who are stopped leave when they like within their grace, and others would take their cards all the time.

    However many of hers wait, she has all that she asks of her guarantee within one grace and two looks.
    """
    snapshot, guaranteed, free_or_lent = case
    mine = snapshot.team_names.index("ada")
    comes = [NOW + data.draw(st.sampled_from((0.0, 5.0, 65.0, 200.0))) for job in snapshot.waiting]
    to_come = sorted(zip(comes, snapshot.waiting, strict=True), key=lambda pair: (pair[0], pair[1].job))
    snapshot.waiting, gone_at, since, wanted = (), dict[int, float](), inf, 0
    for now in (NOW + LOOK_S * count for count in range(45)):
        for job in [job for job in snapshot.running if gone_at.get(job.job, inf) <= now]:
            snapshot.remove_job(job)
            snapshot.running = tuple(other for other in snapshot.running if other is not job)
        snapshot.waiting += tuple(job for at, job in to_come if at <= now)
        to_come = [(at, job) for at, job in to_come if at > now]
        plan, waiting = run_cycle(snapshot, POLICY, now), {job.job: job for job in snapshot.waiting}
        for start in plan.starts:
            run(snapshot, start, waiting.pop(start.job))
        snapshot.waiting = tuple(waiting.values())
        for job in {eviction.job for eviction in plan.evictions}:
            gone_at[job] = now + data.draw(st.sampled_from((1.0, 31.0, GRACE_S)))
        snapshot.running = tuple(replace(job, leaving=job.job in gone_at) for job in snapshot.running)
        has = sum(job.team == mine for job in snapshot.running)
        asks = has + sum(job.team == mine for job in snapshot.waiting)
        before, wanted = wanted, min(asks, guaranteed, free_or_lent)
        if has >= wanted:
            since = inf
        elif wanted > before or since == inf:
            since = now
        assert now - since <= GRACE_S + 2 * LOOK_S


hers = st.builds(
    wants,
    st.just("ada"),
    st.sampled_from(("1", "1", "2", "1/2", "10GB", "T4:1", "cpu")),
    gang=st.integers(1, 2),
    at=st.sampled_from((0.0, 50_000.0, NOW + 10, NOW + 50, NOW + 500)),
    cores=st.integers(0, 3),
    time_s=st.sampled_from((100.0, 550.0, 600.0, 650.0, 3600.0, inf)),
)
machines = st.lists(st.sampled_from(("A100x1", "A100x2", "A100x2", "A100x1 T4x1 cores 4")), min_size=1, max_size=3)


@many(100)
@given(machines, st.lists(hers, min_size=3, max_size=10), st.data())
def test_the_head_of_the_line_starts_when_it_was_told_or_sooner_whoever_passes_it(nodes, line, data):
    """As long as nobody runs longer than said; those who come later are behind it. Played until all ended that can."""
    snapshot = world("\n".join(f"n{number}: {node}" for number, node in enumerate(nodes)), *line)
    takes = {job.job: job.time_s * data.draw(st.sampled_from((1.0, 0.5, 0.01))) for job in snapshot.waiting}
    come = [job for job in snapshot.waiting if job.submitted_at > NOW]
    snapshot.waiting = tuple(job for job in snapshot.waiting if job.submitted_at <= NOW)
    play = Simulation(snapshot, POLICY, NOW, lambda job: takes[job.job], arrivals=come, explains=True)
    told: dict[int, float] = {}
    for moment in play.run_steps():
        for start in moment.plan.starts:
            assert moment.at <= told.pop(start.job, inf)
        for job, (place_in_line, _) in moment.plan.positions.items():
            if place_in_line == 1 and job in moment.plan.reserved_at:
                told[job] = min(told.get(job, inf), moment.plan.reserved_at[job])
    assert not told


@many(60)
@given(worlds(free_for_all=True), st.data())
def test_no_job_waits_for_ever_where_all_that_run_end(snapshot, data):
    """Played to the end: whatever could run and is not held has started. Some say how long they take, and are wrong."""
    snapshot.gpu_open[:], snapshot.node_open[:] = True, True
    able = {job.job for job in snapshot.waiting if not job.held and not check_feasibility(snapshot, job)}
    ends = {job.job: NOW + data.draw(st.sampled_from((0.5, 10.0, 700.0))) for job in snapshot.running}
    takes = {job.job: data.draw(st.sampled_from((1.0, 90.0, 5000.0))) for job in snapshot.waiting}
    play = Simulation(snapshot, POLICY, NOW, lambda job: takes[job.job], ends=ends)
    started = {start.job for moment in play.run_steps() for start in moment.plan.starts}
    assert able <= started
    assert not play.running


@many(60)
@given(worlds(), st.randoms())
def test_the_plan_does_not_hang_on_the_order_in_which_jobs_are_listed(snapshot, dice):
    waiting, running = list(snapshot.waiting), list(snapshot.running)
    dice.shuffle(waiting)
    dice.shuffle(running)
    other = replace_jobs(snapshot, waiting, running)
    assert run_cycle(other, POLICY, NOW) == run_cycle(snapshot, POLICY, NOW)


def replace_jobs(snapshot: Snapshot, waiting: list[WaitingJob], running: list) -> Snapshot:
    twin = with_waiting(snapshot, *waiting)
    twin.running = tuple(running)
    return twin


@many(80)
@given(worlds(free_for_all=True))
def test_a_job_of_one_role_is_placed_wherever_any_way_to_place_it_exists(snapshot):
    for job in snapshot.waiting:
        alike = replace(job, gang=job.gang[:1])
        assert is_placed(snapshot, alike) == fits_somehow(snapshot, alike)


@many(60)
@given(worlds(free_for_all=True))
def test_a_gang_of_unlike_roles_is_placed_only_where_that_is_possible(snapshot):
    """And nearly wherever it is: the placer is greedy, and what it misses is measured, not forbidden."""
    for job in snapshot.waiting:
        if len(job.gang) > 1 and is_placed(snapshot, job):
            assert fits_somehow(snapshot, job)


def test_the_role_that_is_hard_to_please_goes_first_where_the_larger_one_took_its_only_card():
    snapshot = world("n1: A100x1\nn2: T4x1", wants("ada", "1"), wants("ada", "A100/4"))
    large, picky = (job.gang[0] for job in snapshot.waiting)
    gang = (replace(large, name="worker"), replace(picky, name="launcher"))
    assert is_placed(snapshot, replace(snapshot.waiting[0], gang=gang))


def is_placed(snapshot: Snapshot, job: WaitingJob) -> bool:
    demand = build_demand(snapshot, job.gang, job.pool)
    result = place_gang(snapshot, ScoreTable(snapshot), job, demand, demand.kinds, UNLIMITED_QUOTA)
    if isinstance(result, Shortfall):
        return False
    assert isinstance(result, Placement)
    snapshot.release(result, job)
    return True
