"""Who is served first: class, then who holds least for its weight, then age; and nobody waits for ever."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Placement, Policy
from scheduler.core.queueing import priority_order
from scheduler.core.queueing.cycle_context import Cycle
from scheduler.core.queueing.waiting_lines import EqualJobResults, WaitingLines
from tests.worlds import in_order, wants, with_waiting, world

HOUR = 3600.0
POLICY = Policy()


def started(snapshot, now=100.0) -> list[int]:
    return [start.job for start in run_cycle(snapshot, POLICY, now).starts]


def teams_started(snapshot) -> Counter:
    jobs = {job.job: job for job in snapshot.waiting}
    return Counter(snapshot.team_names[jobs[number].team] for number in started(snapshot))


def backlog(*teams: str, ask: str = "1", each: int = 8):
    return [wants(team, ask) for team in teams for _ in range(each)]


def test_who_holds_less_goes_before_who_came_first():
    assert started(world("n1: V100-32GBx2 | ada holds 1", wants("ada", "1"), wants("eve", "1"))) == [2]


def test_a_team_that_gets_a_card_moves_back_at_once():
    snapshot = world("n1: V100-32GBx4", *backlog("ada", "eve"))
    assert started(snapshot) == [1, 9, 2, 10]


def test_shares_follow_the_weights():
    snapshot = world("n1: V100-32GBx8", *backlog("ada", "eve"))
    snapshot.weight[snapshot.team_names.index("ada"), 0] = 3
    assert teams_started(snapshot) == {"ada": 6, "eve": 2}


def test_teams_below_one_team_share_what_it_gets():
    snapshot = world("n1: V100-32GBx8", *backlog("ada", "bob", "eve"), parents={"ada": "lab", "bob": "lab"})
    assert teams_started(snapshot) == {"ada": 2, "bob": 2, "eve": 4}


def test_the_largest_share_of_any_resource_counts():
    """ada holds half of the cores and one card of eight, eve three cards of eight: ada holds more."""
    snapshot = world("n1: V100-32GBx8 cores 16 | eve holds 3", wants("ada", "cpu", cores=8), wants("ada", "1", cores=0))
    first = run_cycle(with_waiting(snapshot, snapshot.waiting[0]), POLICY, 100.0).starts[0]
    snapshot.allocate(first, snapshot.waiting[0])
    eve = replace(snapshot.waiting[1], job=3, team=0, user=0, submitted_at=9.0)
    assert started(with_waiting(snapshot, snapshot.waiting[1], eve))[0] == 3


def test_inside_a_team_the_person_who_holds_less_goes_first():
    snapshot = world("n1: V100-32GBx2", wants("ada", "1"), wants("ada", "1"), wants("ada", "1"), wants("eve", "cpu"))
    one, two, three, _ = snapshot.waiting
    other = snapshot.team_names.index("eve")  # a second person, in ada's team
    assert started(with_waiting(snapshot, one, two, replace(three, user=other))) == [1, 3]


def test_a_higher_class_goes_first_whatever_the_team_holds():
    jobs = [wants("eve", "1"), wants("ada", "1", priority="high")]
    assert started(world("n1: V100-32GBx2 | ada holds 1", *jobs)) == [2]


def test_a_job_that_has_outwaited_the_classes_goes_before_who_holds_less():
    jobs = [wants("ada", "1"), wants("eve", "1", priority="high", at=30 * HOUR)]
    snapshot = world("n1: V100-32GBx2 | ada holds 1", *jobs)
    assert started(snapshot, now=1.0 + 24 * HOUR - 1) == [2]
    assert started(snapshot, now=1.0 + 24 * HOUR) == [1]


def test_against_an_endless_stream_of_a_lighter_team_a_wide_job_starts_within_its_bound():
    """Each hour one card is given back, and eve, who holds less, always has one more job of a high class."""
    snapshot = world("n1: V100-32GBx4 | ada holds 1", wants("ada", "3"), wants("eve", "1"))
    wide, like = snapshot.waiting
    running: list[tuple[Placement, object]] = []
    for hour in range(60):
        now = hour * HOUR
        if len(running) == 3 or (running and hour % 2):
            snapshot.release(*running.pop(0))
        jobs = (wide, replace(like, job=100 + hour, priority=2, submitted_at=now))
        for start in run_cycle(with_waiting(snapshot, *jobs), POLICY, now).starts:
            job = next(job for job in jobs if job.job == start.job)
            if job is wide:
                assert 24 <= hour <= 30
                return
            snapshot.allocate(start, job)
            running.append((start, job))
    raise AssertionError("the wide job never started")


def test_the_order_is_looked_at_again_only_where_it_must(monkeypatch):
    """1,000 jobs of 2 people: one key for each job that is served, and one more for each that moved back."""
    snapshot = world("n1: V100-32GBx8", *backlog("ada", "eve", each=500))
    keys = []
    real = priority_order._JobStream.key
    monkeypatch.setattr(priority_order._JobStream, "key", lambda stream: keys.append(1) or real(stream))
    run_cycle(snapshot, POLICY, 100.0)
    assert len(keys) <= 2 * 2 * 1000 + 16


def test_of_jobs_that_are_alike_one_is_asked_while_nobody_takes_anything(monkeypatch):
    """A team with room for one more: the first job starts, and of the others one is asked for all."""
    snapshot = world("n1: V100-32GBx8 | ada holds 2", wants("ada", "1"), limit={("ada", "dev"): {"gpu_milli": 3000}})
    snapshot = with_waiting(snapshot, *(replace(snapshot.waiting[0], job=number) for number in range(1, 501)))
    asked = []
    real = Cycle.limit_refusals
    monkeypatch.setattr(Cycle, "limit_refusals", lambda cycle, job: asked.append(job.job) or real(cycle, job))
    plan = run_cycle(snapshot, POLICY, 100.0)
    assert [start.job for start in plan.starts] == [1] and asked == [1, 2]
    assert {number: refusals[0].reason for number, refusals in plan.refusals.items()} == dict.fromkeys(
        range(2, 501), "team_limit"
    )


def test_jobs_follow_an_equal_one_until_somebody_takes_something():
    cycle = Cycle(world("n1: V100-32GBx2", *backlog("ada", each=3)), POLICY, 100.0)
    lines = WaitingLines(cycle)
    known, columns = EqualJobResults(cycle, lines), cycle.job_rows.columns_of(cycle.snapshot.waiting)
    turn = next(priority_order.order_jobs(cycle.snapshot, columns, POLICY, cycle.now))
    assert not known.follow(turn.alike)
    lines.begin_turn(turn)
    assert not known.reuse(turn)
    lines.block([])
    known.remember_result(turn)
    assert known.follow(turn.alike)
    cycle.snapshot.mark_changed(cycle.snapshot.nodes)
    assert not known.follow(turn.alike)


TEAMS = ("ada", "bob", "eve")
asks = st.sampled_from(("1", "2", "4", "1/4", "1/2", "cpu", "T4:1", "A100,T4/2"))
load = st.lists(
    st.builds(
        wants,
        st.sampled_from(TEAMS),
        asks,
        gang=st.integers(1, 2),
        priority=st.sampled_from(("low", "normal", "high", "urgent")),
        at=st.floats(0, 20_000),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=60, deadline=None, database=None)
@given(load, st.lists(st.integers(1, 9), min_size=1, max_size=14))
def test_under_finite_load_every_job_that_can_run_starts(jobs, hours):
    """One job ends before each look; with everything ended there is nothing left to wait for."""
    snapshot = world("n1: T4x4\nn2: A100x4 T4x1", *jobs)
    waiting, running = {job.job: job for job in snapshot.waiting}, []
    now = 20_000.0
    for _ in range(len(jobs) + 1):
        plan = run_cycle(with_waiting(snapshot, *waiting.values()), POLICY, now)
        for start in plan.starts:
            snapshot.allocate(start, job := waiting.pop(start.job))
            running.append((now + hours[job.job % len(hours)] * HOUR, start.job, start, job))
        if not running:
            break
        running.sort(key=lambda run: run[:2])
        now, _, *ended = running.pop(0)
        snapshot.release(*ended)
    assert all(plan.refusals[job][0].reason == "impossible" for job in waiting)


@settings(max_examples=40, deadline=None, database=None)
@given(load)
def test_each_job_is_named_once_and_always_in_the_same_order(jobs):
    snapshot = world("n1: T4x4\nn2: A100x4", *jobs)
    order = [job.job for job in in_order(snapshot, snapshot.waiting, POLICY, 20_000.0)]
    assert sorted(order) == list(range(1, len(jobs) + 1))
    assert order == [job.job for job in in_order(snapshot, snapshot.waiting[::-1], POLICY, 20_000.0)]


@settings(max_examples=60, deadline=None, database=None)
@given(load, st.booleans())
def test_jobs_ranked_at_once_come_in_the_order_in_which_they_come_one_by_one(jobs, short_first):
    lines = "n1: T4x4 | ada holds 1 | bob holds 2\nn2: A100x4 | eve holds 1/2"
    snapshot = world(lines, *jobs, parents={"ada": "lab", "bob": "lab"})
    policy = Policy(ageing_s=5000.0, short_first=short_first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priority_order, "RANKS_REST", 0)  # never
        one_by_one = in_order(snapshot, snapshot.waiting, policy, 20_000.0)
    assert in_order(snapshot, snapshot.waiting, policy, 20_000.0) == one_by_one


def test_where_the_policy_says_so_the_shortest_of_one_person_goes_first_and_who_says_nothing_last():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1"), wants("ada", "1"), wants("ada", "1"))
    hours = (float("inf"), 2.0, 1.0)
    jobs = [replace(job, time_s=time * HOUR) for job, time in zip(snapshot.waiting, hours, strict=True)]
    assert [job.job for job in in_order(snapshot, jobs, Policy(short_first=True), 100.0)] == [3, 2, 1]
    assert [job.job for job in in_order(snapshot, jobs, Policy(), 100.0)] == [1, 2, 3]


def short_first(now: float, *jobs) -> list[int]:
    """The order of jobs of one card, each (hours that it says, hour at which it came)."""
    snapshot = world("n1: V100-32GBx1", *[wants("ada", "1", time_s=said * HOUR, at=at * HOUR) for said, at in jobs])
    return [job.job for job in in_order(snapshot, snapshot.waiting, Policy(short_first=True), now * HOUR)]


def test_a_short_job_passes_a_longer_one_until_that_has_waited_for_the_difference():
    assert short_first(1, (3, 0), (2, 1)) == [2, 1]
    assert short_first(13, (3, 0), (2, 13)) == [1, 2]  # 3 / (1 + 13 / 24) is less than 2


def test_a_class_for_the_longer_a_job_says_the_later():
    assert short_first(17, (1, 0), (0.1, 17)) == [1, 2]  # 12 h and four times one hour
    assert short_first(17, (20, 0), (0.1, 17)) == [2, 1]
    assert short_first(2 * (12 + 80) + 1, (20, 0), (0.1, 185)) == [1, 2]


def test_who_says_nothing_counts_as_a_week_and_is_not_passed_for_ever():
    weeks = 2 * (12 + 4 * 7 * 24) + 1
    assert short_first(weeks, (float("inf"), 0), (0.1, weeks)) == [1, 2]
