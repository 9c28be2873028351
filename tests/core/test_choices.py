"""A job that waits in several pools: it has a record in each, starts once, and in the pool that it prefers."""

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.types import Policy, RunningJob
from scheduler.core.queueing import priority_order
from scheduler.core.queueing.cycle_context import CycleMemo
from tests.core.test_properties import NOW, PARENTS, POLICY, TEAMS, amounts, many, nodes, wishes
from tests.worlds import wants, with_waiting, world

POOLS = ("dev", "train")
ALIKE = ("team", "gang", "priority", "time_s", "preemptible")
DEV, TRAIN = 0, 1


def in_pools(snapshot, job, *pools):
    """The job's records, in order of preference."""
    index = snapshot.pool_names.index
    return [replace(job, pool=index(pool), choice=place) for place, pool in enumerate(pools)]


def waits_in(snapshot, *choices):
    """The snapshot whose nth job waits in the pools of the nth of `choices`, or where it said if that is empty."""
    records = [
        record
        for job, pools in zip(snapshot.waiting, choices, strict=True)
        for record in (in_pools(snapshot, job, *pools) if pools else [job])
    ]
    return with_waiting(snapshot, *records)


def starts(plan):
    return [(start.job, start.choice) for start in plan.starts]


BOTH = ("train", "dev")
FULL = "d1: A100x2\nt1 train: A100x2 | bob holds 2 until 5000"


def test_it_starts_in_the_next_pool_where_the_first_is_full():
    snapshot = waits_in(world(FULL, wants("ada", "1")), BOTH)
    plan = run_cycle(snapshot, POLICY, 0.0)
    assert starts(plan) == [(1, 1)] and plan.starts[0].tasks[0].node == 0
    assert plan.refusals == {} == plan.positions == plan.reserved_at == plan.places


def test_it_starts_in_the_pool_that_it_prefers_where_both_have_room():
    """dev's line comes first by fair share; its turn there waits for the one in train."""
    text = "d1: A100x2 | bob holds 1\nt1 train: A100x2 | ada holds 1 until 5000"
    snapshot = world(text, wants("ada", "1"), wants("bob", "1", pool="train"))
    assert starts(run_cycle(waits_in(snapshot, BOTH, ()), POLICY, 0.0)) == [(2, -1), (1, 1)]
    assert starts(run_cycle(waits_in(snapshot, ("dev", "train"), ()), POLICY, 0.0)) == [(1, 0), (2, -1)]
    text = text.replace("t1 train: A100x2", "t1 train: A100x3")
    wide = world(text, wants("ada", "1"), wants("bob", "1", pool="train"))
    assert sorted(starts(run_cycle(waits_in(wide, BOTH, ()), POLICY, 0.0))) == [(1, 0), (2, -1)]


def test_nobody_behind_it_passes_while_its_turn_waits_for_another_pool():
    """dev's one card is ada's turn: bob, behind her there, does not take it while train is asked."""
    text = "d1: A100x1\nt1 train: A100x1"
    snapshot = world(
        text, wants("eve", "1", pool="train", at=0.0), wants("ada", "1", at=1.0), wants("bob", "1", at=2.0)
    )
    plan = run_cycle(waits_in(snapshot, (), BOTH, ()), POLICY, 3.0)
    assert sorted(starts(plan)) == [(1, -1), (2, 1)] and list(plan.refusals) == [3]


def test_it_starts_where_it_prefers_to_also_when_it_is_overdue_in_the_other_pool_only():
    snapshot = world("d1: A100x1\nt1 train: A100x1", wants("ada", "1", at=0.0), wants("bob", "1", at=1.0))
    policy = Policy(pools=(Policy(ageing_s=100), Policy(ageing_s=10_000)))
    assert sorted(starts(run_cycle(waits_in(snapshot, BOTH, ()), policy, 1000.0))) == [(1, 0), (2, -1)]


def test_two_that_prefer_each_others_pool_both_start():
    text = "d1: A100x1\nt1 train: A100x1"
    snapshot = world(text, wants("ada", "1", at=0.0), wants("bob", "1", at=1.0))
    assert sorted(starts(run_cycle(waits_in(snapshot, BOTH, ("dev", "train")), POLICY, 2.0))) == [(1, 0), (2, 0)]
    assert len(run_cycle(waits_in(snapshot, BOTH, BOTH), POLICY, 2.0).starts) == 2


def test_an_owner_in_one_pool_starts_there_before_it_borrows_in_the_one_it_prefers():
    snapshot = world(
        "d1: A100x2\nt1 train: A100x2",
        wants("ada", "1"),
        guarantee={("ada", "dev"): {"gpu_milli": 1000}, ("bob", "train"): {"gpu_milli": 1000}},
        parents={"bob": "lab"},
    )
    assert starts(run_cycle(waits_in(snapshot, BOTH), POLICY, 0.0)) == [(1, 1)]


def test_a_limit_in_one_pool_does_not_keep_it_from_the_other():
    snapshot = world("d1: A100x2\nt1 train: A100x2", wants("ada", "1"), limit={("ada", "train"): {"gpu_milli": 0}})
    assert starts(run_cycle(waits_in(snapshot, BOTH), POLICY, 0.0)) == [(1, 1)]


def test_it_counts_once_against_the_persons_limits():
    snapshot = world("d1: A100x2\nt1 train: A100x2", wants("ada", "1"), wants("ada", "1"), jobs_limit={"ada": 1})
    plan = run_cycle(waits_in(snapshot, BOTH, BOTH), POLICY, 0.0)
    assert starts(plan) == [(1, 0)]
    assert [why.reason for why in plan.refusals[2]] == ["rate_policy"] and plan.positions == {2: (1, 1)}
    assert plan.places == {2: [(TRAIN, 1, 1), (DEV, 1, 1)]}


def test_what_is_told_is_of_the_pool_where_it_is_to_start_first():
    text = "d1: A100x1 | bob holds 1 until 900\nt1 train: A100x1 | bob holds 1 until 5000"
    snapshot = waits_in(world(text, wants("ada", "1", time_s=60)), BOTH)
    plan = run_cycle(snapshot, POLICY, 0.0)
    assert plan.reserved_at == {1: 900.0} and plan.places == {1: [(DEV, 1, 1), (TRAIN, 1, 1)]}
    assert len(plan.refusals[1]) == 1


def test_a_line_counts_who_waits_there_and_elsewhere():
    text = "d1: A100x1 | bob holds 1\nt1 train: A100x1 | bob holds 1"
    snapshot = world(text, wants("eve", "1", pool="train"), wants("ada", "1"), wants("bob", "1"))
    plan = run_cycle(waits_in(snapshot, (), BOTH, ()), POLICY, 100.0)
    assert plan.places == {2: [(DEV, 1, 2), (TRAIN, 2, 2)]}
    assert plan.positions == {1: (1, 2), 2: (1, 2), 3: (2, 2)}


def test_room_is_made_for_it_in_one_pool_only():
    text = "d1: A100x1 | bob holds 1 low preemptible\nt1 train: A100x1 | bob holds 1 low preemptible"
    snapshot = waits_in(world(text, wants("ada", "1", priority="high")), BOTH)
    plan = run_cycle(snapshot, POLICY, 10.0)
    [stop] = plan.evictions
    there = next(job.pool for job in snapshot.running if job.job == stop.job)
    assert plan.refusals[1][0].reason == "making_room" and plan.places[1][0][0] == there
    plan = run_cycle(leave(snapshot, {stop.job}), POLICY, 11.0)
    assert plan.evictions == [] and plan.places[1][0][0] == there


def test_nobody_is_stopped_for_it_in_the_pool_that_it_prefers_while_others_leave_in_the_next():
    """train's line comes first: ada holds nothing there."""
    text = "d1: A100x2 | ada holds 1 | bob holds 1 leaving\nt1 train: A100x1 | bob holds 1 low preemptible"
    snapshot = world(text, wants("ada", "1", priority="high"), wants("eve", "1", priority="high", at=0.0))
    plan = run_cycle(waits_in(with_waiting(snapshot, snapshot.waiting[0]), BOTH), POLICY, 10.0)
    assert plan.evictions == [] and plan.places[1][0][0] == DEV
    behind = run_cycle(waits_in(snapshot, BOTH, ()), POLICY, 10.0)  # what is freed in dev is eve's
    assert [(one.job, one.to) for one in behind.evictions] == [(-3, 1)]


def test_its_own_reservation_in_one_pool_does_not_keep_it_from_another_on_the_same_machine():
    """All cores are kept for it beside the card that train frees in 50 s; in dev it needs half of them now."""
    text = "m1: A100x2 cores 4 | eve holds 1 until 50"
    snapshot = world(text, wants("ada", "1", cores=2), wants("ada", "cpu", pool="train"))
    snapshot.gpu_pool[:] = [TRAIN, DEV]
    snapshot = replace(snapshot, pool_names=snapshot.pool_names)  # counts the kinds of each pool again
    job = snapshot.waiting[0]
    gang = (replace(job.gang[0], ask=replace(job.gang[0].ask, cpu_milli=4000)),)
    records = [replace(job, pool=TRAIN, choice=0, gang=gang), replace(job, pool=DEV, choice=1)]
    assert starts(run_cycle(with_waiting(snapshot, *records), POLICY, 0.0)) == [(1, 1)]


def leave(snapshot, jobs):
    twin = snapshot.copy()
    twin.running = tuple(replace(job, leaving=job.leaving or job.job in jobs) for job in snapshot.running)
    return twin


def test_a_simulated_future_starts_it_once():
    text = "d1: A100x1 | bob holds 1 until 50\nt1 train: A100x1 | bob holds 1 until 100"
    snapshot = waits_in(world(text, wants("ada", "1"), wants("eve", "1", at=60.0)), BOTH, ())
    play = Simulation(snapshot, POLICY, 0.0, lambda job: 1000.0, ends={-1: 50.0, -2: 100.0})
    found = [(moment.at, start.job, start.choice) for moment in play.run_steps() for start in moment.plan.starts]
    assert found == [(50.0, 1, 1), (1050.0, 2, -1)] and not play.waiting


# ---- random worlds ----

two_pools = st.builds(lambda line, pool: line.replace(":", f"{pool}:", 1), nodes, st.sampled_from(("", " train")))
choices = st.sampled_from(((), (), ("dev", "train"), ("train", "dev"), ("train",)))


@st.composite
def worlds(draw, free_for_all=False):
    """Up to four nodes of two pools, what an earlier cycle started there, and up to eight jobs, most in both."""
    running, waiting = draw(st.lists(wishes, max_size=4)), draw(st.lists(wishes, min_size=1, max_size=8))
    quota = {}
    if not free_for_all:
        pairs = st.sampled_from([(name, pool) for name in (*TEAMS, "lab") for pool in POOLS])
        quota = {name: draw(st.dictionaries(pairs, amounts, max_size=3)) for name in ("limit", "guarantee")}
        quota["jobs_limit"] = draw(st.dictionaries(st.sampled_from(TEAMS), st.integers(1, 3), max_size=2))
        quota["parents"] = PARENTS
    lines = "\n".join(draw(st.lists(two_pools, min_size=1, max_size=4)))
    both = [wants("ada", "cpu", pool=pool) for pool in POOLS]
    snapshot = world(lines, *running, *waiting, *both, *(wants(team, "cpu") for team in TEAMS), **quota)
    jobs = snapshot.waiting[: len(running) + len(waiting)]
    snapshot = waits_in(with_waiting(snapshot, *jobs), *(draw(choices) for _ in jobs))
    earlier = {job.job for job in jobs[: len(running)]}
    before = [job for job in snapshot.waiting if job.job in earlier]
    for start in run_cycle(with_waiting(snapshot, *before), POLICY, NOW).starts:
        run(snapshot, start)
    return with_waiting(snapshot, *(job for job in snapshot.waiting if job.job not in earlier))


def record_of(snapshot, start):
    return next(job for job in snapshot.waiting if (job.job, job.choice) == (start.job, start.choice))


def run(snapshot, start):
    job = record_of(snapshot, start)
    snapshot.allocate(start, job)
    about = {name: getattr(job, name) for name in ("job", "user", "pool", *ALIKE) if name != "gang"}
    times = {"saved_at": NOW, "started_at": NOW, "ends_at": NOW + job.time_s}
    snapshot.running += (RunningJob(**about, **times, tasks=start.tasks),)


@many(200)
@given(worlds(), st.sampled_from((1, 4, 1000)))
def test_a_queue_that_is_ranked_at_once_starts_and_stops_the_same(snapshot, ranks_rest):
    """Also while the turn of some depends on another pool."""
    plans = []
    for number in (0, ranks_rest):  # never; after so many parts of the queue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(priority_order, "RANKS_REST", number)
            plans.append(run_cycle(snapshot, POLICY, NOW))
    one_by_one, at_once = plans
    assert at_once.starts == one_by_one.starts and at_once.evictions == one_by_one.evictions
    assert at_once.places == one_by_one.places


@many(200)
@given(worlds())
def test_no_job_starts_twice_and_nothing_is_oversold(snapshot):
    end, plan = snapshot.copy(), run_cycle(snapshot, POLICY, NOW)
    assert max(Counter(start.job for start in plan.starts).values(), default=1) == 1
    for start in plan.starts:
        run(end, start)
    for name in ("gpu_free_mib", "gpu_free_percent", "node_cpu_free", "node_memory_free"):
        assert (getattr(end, name) >= 0).all(), name
    assert not ((end.held > snapshot.held) & (end.held > end.limit)).any()
    assert not ((end.user_jobs > snapshot.user_jobs) & (end.user_jobs > end.user_jobs_limit)).any()
    for start in plan.starts:
        pool = record_of(snapshot, start).pool
        assert all(snapshot.gpu_pool[card.gpu] == pool for task in start.tasks for card in task.cards)


@many(150)
@given(worlds())
def test_each_waiting_job_is_told_one_thing_and_stands_in_the_line_of_each_pool(snapshot):
    plan = run_cycle(snapshot, POLICY, NOW)
    records = [job for job in snapshot.waiting if job.job not in {start.job for start in plan.starts}]
    left = {job.job for job in records}
    assert set(plan.refusals) == set(plan.positions) == left and all(plan.refusals.values())
    assert set(plan.places) == {job.job for job in records if job.choice >= 0}
    assert set(plan.reserved_at) <= left
    lines = defaultdict(list)
    for job in records:
        alone = (job.pool, *plan.positions[job.job])
        lines[job.pool] += [place for place in plan.places.get(job.job, [alone]) if place[0] == job.pool]
    for pool, line in lines.items():
        length = sum(job.pool == pool for job in records)
        assert sorted(line, key=lambda place: place[1]) == [(pool, n, length) for n in range(1, length + 1)]


@many(150)
@given(worlds())
def test_one_choice_is_as_no_choice(snapshot):
    first = [job for job in snapshot.waiting if job.choice <= 0]
    plan = run_cycle(with_waiting(snapshot, *(replace(job, choice=-1) for job in first)), POLICY, NOW)
    other = run_cycle(with_waiting(snapshot, *(replace(job, choice=0) for job in first)), POLICY, NOW)
    assert [replace(start, choice=-1) for start in other.starts] == plan.starts
    assert (other.evictions, other.refusals, other.positions) == (plan.evictions, plan.refusals, plan.positions)
    assert other.reserved_at == plan.reserved_at


@many(200)
@given(worlds(free_for_all=True))
def test_who_starts_would_not_have_started_in_a_pool_that_it_prefers(snapshot):
    """With all that starts besides, and all who wait: the order of the lines never decides where a job runs."""
    plan = run_cycle(snapshot, POLICY, NOW)
    for start in plan.starts:
        end = snapshot.copy()
        for other in plan.starts:
            if other is not start:
                run(end, other)
        started = {other.job for other in plan.starts} - {start.job}
        left = [job for job in snapshot.waiting if job.job not in started]
        preferred = [job for job in left if job.job != start.job or job.choice < start.choice]
        if start.choice > 0:
            again = run_cycle(with_waiting(end, *preferred), POLICY, NOW)
            assert start.job not in {other.job for other in again.starts}


@many(150)
@given(worlds())
def test_no_job_overtakes_an_earlier_one_that_asks_the_same_in_the_same_pools(snapshot):
    started = {start.job for start in run_cycle(snapshot, POLICY, NOW).starts}
    pools = defaultdict(list)
    for job in snapshot.waiting:
        pools[job.job].append((job.pool, job.choice))
    first = {job.job: job for job in snapshot.waiting}
    ready = [job for job in first.values() if not job.held and job.not_before <= NOW]
    for later in ready:
        for job in ready:
            alike = all(getattr(job, name) == getattr(later, name) for name in ALIKE)
            if (
                alike
                and pools[job.job] == pools[later.job]
                and (job.submitted_at, job.job) < (later.submitted_at, later.job)
                and later.job in started
            ):
                assert job.job in started


@many(150)
@given(worlds())
def test_nobody_else_is_stopped_for_a_job_while_room_is_being_made_for_it(snapshot):
    plan = run_cycle(snapshot, POLICY, NOW)
    for start in plan.starts:
        run(snapshot, start)
    owners, running = {one.to for one in plan.evictions}, {job.job: job for job in snapshot.running}
    pools = defaultdict(set)
    for eviction in plan.evictions:
        pools[eviction.to].add(running[eviction.job].pool)
    assert all(len(where) == 1 for where in pools.values())
    waiting = [job for job in snapshot.waiting if job.job in owners]
    stopped = {eviction.job for eviction in plan.evictions}
    again = run_cycle(with_waiting(leave(snapshot, stopped), *waiting), POLICY, NOW + 1)
    assert again.evictions == []
    for job in snapshot.running:
        if job.job in stopped:
            snapshot.remove_job(job)
    assert {start.job for start in run_cycle(with_waiting(snapshot, *waiting), POLICY, NOW).starts} == owners


@many(100)
@given(worlds(), st.booleans(), st.integers(0, 3))
def test_who_asks_for_no_reasons_gets_the_same_starts_and_stops(snapshot, short_first, reservations):
    policy, memory = Policy(short_first=short_first, reservations=reservations), CycleMemo(explains=False)
    told = run_cycle(snapshot, policy, NOW)
    for _ in range(2):
        brief = run_cycle(snapshot, policy, NOW, memory)
        assert (brief.starts, brief.evictions) == (told.starts, told.evictions)
