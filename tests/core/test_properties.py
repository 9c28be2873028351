"""What no cluster, queue or quota may ever break, tried on many random small worlds."""

import os
from collections import Counter
from dataclasses import fields, replace
from math import inf
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.cycle import find_starts, run_cycle
from scheduler.core.model.demand import build_demand
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import Policy, RunningJob
from scheduler.core.placement.gang_placement import place_gang
from scheduler.core.placement.scores import ScoreTable, score_nodes
from scheduler.core.placement.shortfall import Shortfall
from scheduler.core.queueing.cycle_context import CycleMemo
from scheduler.core.queueing.priority_order import get_effective_priority
from scheduler.core.queueing.reservations import KnownReservations, ReservationPlan
from tests.worlds import build_ask, build_waiting, in_order, of_roles, wants, with_waiting, world

SHARE = 3 if os.environ.get("TESSERA_FEWER_EXAMPLES") == "1" else 1
NOW = 100_000.0
POLICY = Policy()
TEAMS = ("ada", "bob", "eve")
PARENTS = {"ada": "lab", "bob": "lab"}
ASKS = ("1", "2", "1/4", "1/2", "4GB", "10GB", "1GB", "2GB@60", "T4:1", "A100,T4/2", "T4,A100:1", "A100:10GB", "cpu")

nodes = st.builds(
    "n{}: {}{} cores {} memory {}".format,
    st.uuids(),
    st.sampled_from(("", "", "", "closed ")),
    st.sampled_from(("A100x1", "A100x2", "T4x2", "A100x1 T4x2", "T4x4", "")),
    st.integers(1, 8),
    st.sampled_from((3000, 9000, 30000)),
)
wishes = st.builds(
    wants,
    st.sampled_from(TEAMS),
    st.sampled_from(ASKS),
    gang=st.integers(1, 3),
    priority=st.sampled_from(("low", "normal", "high", "urgent")),
    at=st.sampled_from((0.0, 50_000.0, 60_000.0, 99_000.0)),
    cores=st.integers(0, 3),
    memory_mib=st.sampled_from((0, 1024, 4096)),
    held=st.sampled_from((False, False, False, False, True)),
    not_before=st.sampled_from((0.0, 0.0, 0.0, NOW + 1)),
    time_s=st.sampled_from((inf, 100.0, 600.0, 3600.0)),
    preemptible=st.booleans(),
)
amounts = st.fixed_dictionaries(
    {},
    optional={
        "gpu_milli": st.sampled_from((300, 1000, 2500)),
        "cpu_milli": st.sampled_from((1000, 4000)),
        "memory_mib": st.sampled_from((1024, 9000)),
    },
)


def quotas(names):
    return st.dictionaries(st.sampled_from([(name, "dev") for name in names]), amounts, max_size=3)


@st.composite
def worlds(draw, free_for_all=False) -> Snapshot:
    """A cluster of up to four nodes on which what an earlier cycle started is running, and up to ten jobs that wait."""
    running, waiting = draw(st.lists(wishes, max_size=5)), draw(st.lists(wishes, min_size=1, max_size=10))
    quota = {}
    if not free_for_all:
        quota = {"limit": draw(quotas((*TEAMS, "lab"))), "guarantee": draw(quotas((*TEAMS, "lab")))}
        quota["user_limit"] = draw(st.dictionaries(st.sampled_from(TEAMS), amounts, max_size=2))
        quota["jobs_limit"] = draw(st.dictionaries(st.sampled_from(TEAMS), st.integers(1, 3), max_size=2))
        everybody = [wants(team, "cpu") for team in TEAMS]
        snapshot = world(
            "\n".join(draw(st.lists(nodes, min_size=1, max_size=4))),
            *running,
            *waiting,
            *everybody,
            parents=PARENTS,
            **quota,
        )
    else:
        snapshot = world("\n".join(draw(st.lists(nodes, min_size=1, max_size=4))), *running, *waiting)
    jobs = [_with_second_role(draw, snapshot, job) for job in snapshot.waiting]
    earlier = with_waiting(snapshot, *jobs[: len(running)])
    for start in run_cycle(earlier, POLICY, NOW).starts:
        run(snapshot, start, jobs[start.job - 1])
    snapshot.gpu_open[:] = [draw(st.integers(0, 9)) > 0 for _ in snapshot.gpu_open]
    return with_waiting(snapshot, *jobs[len(running) : len(running) + len(waiting)])


def run(snapshot: Snapshot, start, job) -> None:
    """Let a job run from now on for as long as it says."""
    snapshot.allocate(start, job)
    running = RunningJob(
        job.job,
        job.team,
        job.user,
        job.pool,
        job.priority,
        start.tasks,
        saved_at=NOW,
        ends_at=NOW + job.time_s,
        started_at=NOW,
        time_s=job.time_s,
        preemptible=job.preemptible,
    )
    snapshot.running += (running,)


def _with_second_role(draw, snapshot, job):
    if draw(st.integers(0, 4)):
        return job
    second = build_ask(snapshot.kind_names, draw(st.sampled_from(ASKS)))
    return of_roles(job, ("worker", job.gang[0].min, job.gang[0].ask), ("launcher", 1, second))


def arrays(snapshot: Snapshot) -> dict[str, np.ndarray]:
    found = {field.name: getattr(snapshot, field.name) for field in fields(snapshot)}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


def after(snapshot: Snapshot, plan) -> Snapshot:
    """The cluster once the plan is carried out, by plain sums that share no code with the scheduler."""
    twin, jobs = snapshot.copy(), {job.job: job for job in snapshot.waiting}
    for start in plan.starts:
        job = jobs[start.job]
        twin.user_jobs[job.user] += 1
        for task in start.tasks:
            twin.node_cpu_free[task.node] -= task.cpu_milli
            twin.node_memory_free[task.node] -= task.memory_mib
            used = [sum(card.milli for card in task.cards), task.cpu_milli, task.memory_mib]
            twin.user_held[job.user] += used
            for team in twin.team_chain[job.team]:
                twin.held[team, job.pool] += used
            for card in task.cards:
                twin.gpu_free_mib[card.gpu] -= card.memory_mib
                twin.gpu_free_percent[card.gpu] -= card.compute_percent
                twin.gpu_slices[card.gpu] += 1
    return twin


def many(examples):
    """So many worlds; a third of them by `bin/test` alone."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples // SHARE, deadline=None, database=None, suppress_health_check=slow)


@many(150)
@given(worlds())
def test_no_card_and_no_node_is_oversold(snapshot):
    plan = run_cycle(snapshot, POLICY, NOW)
    end = after(snapshot, plan)
    for name in ("gpu_free_mib", "gpu_free_percent", "node_cpu_free", "node_memory_free"):
        assert (getattr(end, name) >= 0).all(), name
    assert (end.gpu_slices <= end.gpu_max_slices).all()
    for task in (task for start in plan.starts for task in start.tasks):
        assert snapshot.node_open[task.node]
        assert all(snapshot.gpu_open[card.gpu] and snapshot.gpu_node[card.gpu] == task.node for card in task.cards)


@many(150)
@given(worlds())
def test_nothing_that_starts_takes_a_team_or_a_user_over_a_limit(snapshot):
    end = after(snapshot, run_cycle(snapshot, POLICY, NOW))
    assert not ((end.held > snapshot.held) & (end.held > end.limit)).any()
    assert not ((end.user_held > snapshot.user_held) & (end.user_held > end.user_limit)).any()
    assert not ((end.user_jobs > snapshot.user_jobs) & (end.user_jobs > end.user_jobs_limit)).any()


@many(100)
@given(worlds())
def test_a_gang_starts_whole_on_what_each_role_asked(snapshot):
    jobs = {job.job: job for job in snapshot.waiting}
    for start in run_cycle(snapshot, POLICY, NOW).starts:
        gang = jobs[start.job].gang
        assert Counter(task.role for task in start.tasks) == {role.name: role.min for role in gang}
        assert [task.rank for task in start.tasks] == list(range(len(start.tasks)))
        for task in start.tasks:
            ask = next(role.ask for role in gang if role.name == task.role)
            kinds = [int(snapshot.gpu_kind[card.gpu]) for card in task.cards]
            assert len({card.gpu for card in task.cards}) == ask.gpus and len(set(kinds)) <= 1
            assert all(ask.preference[kind] >= 0 for kind in kinds)
            assert [card.memory_mib for card in task.cards] == [ask.need_mib[kind] for kind in kinds]


@many(60)
@given(worlds())
def test_the_same_snapshot_gives_the_same_plan_and_stays_as_it_was(snapshot):
    before = {name: array.copy() for name, array in arrays(snapshot).items()}
    assert run_cycle(snapshot, POLICY, NOW) == run_cycle(snapshot.copy(), POLICY, NOW)
    for name, array in arrays(snapshot).items():
        assert array.tobytes() == before[name].tobytes(), name


@many(100)
@given(worlds())
def test_every_waiting_job_starts_or_has_a_reason_and_a_position(snapshot):
    plan = run_cycle(snapshot, POLICY, NOW)
    started = {start.job for start in plan.starts}
    left = {job.job for job in snapshot.waiting} - started
    assert set(plan.refusals) == set(plan.positions) == left
    assert all(plan.refusals[job] for job in left)
    assert sorted(plan.positions.values()) == [(n, len(left)) for n in range(1, len(left) + 1)]


@many(100)
@given(worlds())
def test_undo_restores_bit_for_bit(snapshot):
    jobs = {job.job: job for job in snapshot.waiting}
    before = {name: array.copy() for name, array in arrays(snapshot).items()}
    starts = run_cycle(snapshot, POLICY, NOW).starts
    for start in starts:
        snapshot.allocate(start, jobs[start.job])
    for start in reversed(starts):
        snapshot.release(start, jobs[start.job])
    for name, array in arrays(snapshot).items():
        assert array.tobytes() == before[name].tobytes(), name


@many(100)
@given(worlds())
def test_a_gang_that_does_not_fit_leaves_no_trace(snapshot):
    before = {name: array.copy() for name, array in arrays(snapshot).items()}
    table = ScoreTable(snapshot)
    for job in snapshot.waiting:
        demand = build_demand(snapshot, job.gang, job.pool)
        result = place_gang(snapshot, table, job, demand, demand.kinds, 10**6)
        if not isinstance(result, Shortfall):
            snapshot.release(result, job)
        for name, array in arrays(snapshot).items():
            assert array.tobytes() == before[name].tobytes(), name


@many(100)
@given(worlds())
def test_no_job_overtakes_an_earlier_one_that_asks_the_same(snapshot):
    """Same team, user and gang, the same effective priority or more, submitted earlier: it goes first."""
    started = {start.job for start in run_cycle(snapshot, POLICY, NOW).starts}
    ready = [job for job in in_order(snapshot, snapshot.waiting, POLICY, NOW) if not job.held and job.not_before <= NOW]
    for place_in_line, later in enumerate(ready):
        if later.job in started:
            alike = [job for job in ready[:place_in_line] if (job.team, job.gang) == (later.team, later.gang)]
            assert {job.job for job in alike} <= started


@many(150)
@given(worlds(free_for_all=True))
def test_what_passes_the_first_in_line_does_not_delay_it(snapshot):
    plan, jobs = run_cycle(snapshot, POLICY, NOW), {job.job: job for job in snapshot.waiting}
    for start in plan.starts:
        run(snapshot, start, jobs[start.job])
    # The second in line may have a moment where the first has none: the first may delay it.
    for job, at in [(job, at) for job, at in plan.reserved_at.items() if plan.positions[job][0] == 1]:
        later = run_cycle(with_waiting(snapshot, jobs[job]), POLICY, NOW)
        begins = later.reserved_at | {start.job: NOW for start in later.starts}
        assert begins[job] <= at


@many(100)
@given(worlds())
def test_whoever_is_stopped_was_willing_and_makes_room_for_somebody_who_waits(snapshot):
    plan, running = run_cycle(snapshot, POLICY, NOW), {job.job: job for job in snapshot.running}
    waiting = {job.job: job for job in snapshot.waiting}
    for eviction in plan.evictions:
        victim, owner = running[eviction.job], waiting[eviction.to]
        assert victim.preemptible and eviction.to in plan.refusals and victim.pool == owner.pool
        assert eviction.reason == "reclaimed" or victim.priority < owner.priority
    assert len({eviction.job for eviction in plan.evictions}) == len(plan.evictions)


@many(100)
@given(worlds())
def test_once_the_stopped_are_gone_those_they_were_stopped_for_start(snapshot):
    plan, jobs = run_cycle(snapshot, POLICY, NOW), {job.job: job for job in snapshot.waiting}
    for start in plan.starts:
        run(snapshot, start, jobs[start.job])
    stopped = {eviction.job for eviction in plan.evictions}
    for job in snapshot.running:
        if job.job in stopped:
            snapshot.remove_job(job)
    owners = {eviction.to for eviction in plan.evictions}
    served = [job for job in snapshot.waiting if job.job in owners]
    later = run_cycle(with_waiting(snapshot, *served), POLICY, NOW)
    assert {start.job for start in later.starts} == owners


@many(60)
@given(worlds(), st.floats(0, 10**7))
def test_nobody_becomes_urgent_or_less_by_waiting(snapshot, now):
    for job in snapshot.waiting:
        effective = get_effective_priority(job, POLICY, now)
        assert effective == 3 if job.priority == 3 else job.priority <= effective <= 2


@many(100)
@given(worlds())
def test_the_table_says_the_same_as_looking_at_every_node_again(snapshot):
    table, jobs = ScoreTable(snapshot), {job.job: job for job in snapshot.waiting}
    for start in run_cycle(snapshot, POLICY, NOW).starts:
        snapshot.allocate(start, jobs[start.job])
        for job in snapshot.waiting:
            kinds = build_demand(snapshot, job.gang, job.pool).kinds[0]
            request, node = table.best_node(job.gang[0].ask, job.pool, kinds)
            score = score_nodes(snapshot, request, snapshot.nodes)
            assert node == (int(score.argmax()) if score.max() > -np.inf else -1)


@settings(max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(worlds(), min_size=1, max_size=2), st.booleans(), st.integers(0, 3))
def test_who_asks_for_no_reasons_gets_the_same_starts_and_stops(several, short_first, reservations):
    """A memory serves worlds of the same machines: each is asked twice."""
    policy = Policy(short_first=short_first, reservations=reservations)
    for snapshot in several:
        memory = CycleMemo(explains=False)
        told = run_cycle(snapshot, policy, NOW)
        for _ in range(2):
            brief = run_cycle(snapshot, policy, NOW, memory)
            assert (brief.starts, brief.evictions) == (told.starts, told.evictions)
            assert not brief.refusals and not brief.positions


@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.lists(wishes, min_size=1, max_size=4))
def test_who_starts_beside_the_queue_is_the_same_with_what_other_such_cycles_found(snapshot, asked):
    explaining = CycleMemo(known_reservations=KnownReservations())
    deciding = replace(explaining, explains=False)
    assert run_cycle(snapshot, POLICY, NOW, explaining) == run_cycle(snapshot, POLICY, NOW)
    for wish in asked:
        tried = with_waiting(snapshot, *snapshot.waiting, build_waiting(snapshot, 999, wish))
        told = run_cycle(tried, POLICY, NOW)
        assert {start.job for start in find_starts(tried, POLICY, NOW, deciding)} == {one.job for one in told.starts}
        assert run_cycle(tried, POLICY, NOW, explaining) == told


@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_places_in_time_are_the_same_whether_they_are_worked_out_at_once_or_when_somebody_asks(snapshot):
    late = run_cycle(snapshot, POLICY, NOW)
    with mock.patch.object(ReservationPlan, "has_pending", lambda future: not isinstance(future.reservations, list)):
        assert run_cycle(snapshot, POLICY, NOW) == late
