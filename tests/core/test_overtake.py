"""Short work stops far longer work: whom, how often, and never for less than it costs."""

from collections import Counter
from dataclasses import replace
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.simulate import Simulation, SimulationRules
from scheduler.core.model.types import Eviction, Policy
from tests.core.test_order import HOUR
from tests.worlds import build_waiting, wants, world

POLICY = Policy(short_first=True, stop_longer=2.0, preempt=False)
NOW = 100.0


def stopped(snapshot, policy: Policy = POLICY) -> list[Eviction]:
    return run_cycle(snapshot, policy, NOW).evictions


def one_card(*wishes, until: float = NOW + 10 * HOUR, words: str = "preemptible saved 100"):
    return world(f"n1: V100-32GBx1 | eve holds 1 {words} until {until}", *wishes)


def short(hours: float = 1.0, **more):
    return wants("eve", "1", time_s=hours * HOUR, **more)


def test_a_short_job_stops_a_far_longer_one_where_the_pool_says_so():
    assert stopped(one_card(short())) == [Eviction(-1, "overtaken", 1)]
    assert stopped(one_card(short()), replace(POLICY, stop_longer=None)) == []


def test_one_that_is_not_far_longer_or_cannot_be_stopped_runs_on():
    assert stopped(one_card(short(6))) == []
    assert stopped(one_card(short(), words="saved 100")) == []


def test_what_a_stop_throws_away_counts_as_well():
    held = world("n1: V100-32GBx1 | eve holds 1 preemptible saved 0 until 350", wants("eve", "1", time_s=100.0, at=100))
    assert stopped(held) == []  # 250 s to go, 200 s are twice the new job, and 100 s would be lost


def test_nobody_is_stopped_more_often_than_the_policy_says():
    snapshot = one_card(short())
    snapshot.running = (replace(snapshot.running[0], stops=10),)
    assert stopped(snapshot) == []


def test_another_team_s_guarantee_and_higher_classes_are_left_alone():
    guarantee = {("eve", "dev"): {"gpu_milli": 1000}}
    held = "n1: V100-32GBx1 | eve holds 1 preemptible saved 100 until 99999"
    assert stopped(world(held, wants("ada", "1", time_s=60.0), guarantee=guarantee)) == []
    assert stopped(world(held, wants("ada", "1", time_s=60.0, priority="low"))) == []
    assert stopped(world(held, wants("ada", "1", time_s=60.0))) == [Eviction(-1, "overtaken", 1)]


def test_those_who_have_most_to_go_are_stopped_and_no_more_than_needed():
    held = "n1: V100-32GBx3 | eve holds 1 preemptible saved 100 until {} | eve holds 1 preemptible saved 100 until {}"
    held = held.format(NOW + 20 * HOUR, NOW + 30 * HOUR) + " | eve holds 1 saved 100 until 999999"
    assert stopped(world(held, short())) == [Eviction(-2, "overtaken", 1)]


def test_a_short_gang_stops_over_several_nodes_and_only_if_it_then_fits():
    node = "n{}: V100-32GBx1 | eve holds 1 {} saved 100 until 360000"
    both = "\n".join((node.format(1, "preemptible"), node.format(2, "preemptible")))
    assert len(stopped(world(both, short(gang=2)))) == 2
    one = "\n".join((node.format(1, "preemptible"), node.format(2, "")))
    assert stopped(world(one, short(gang=2))) == []


def scattered(words: str = "preemptible saved 100", third: str = ""):
    """Two nodes of two cards, on each of which short work holds one, and a longer job that needs two on one node."""
    node = "n{}: V100-32GBx2 | eve holds 1 {} until 700{}"
    return world(node.format(1, words, "") + "\n" + node.format(2, words, third), wants("eve", "2", time_s=2 * HOUR))


def test_short_work_moves_where_free_cards_are_scattered():
    assert stopped(scattered()) == [Eviction(-1, "overtaken", 1)]
    assert stopped(scattered(), replace(POLICY, stop_longer=None)) == []


def test_nobody_moves_who_would_find_no_room():
    assert stopped(scattered(third=" | eve holds 1 saved 100 until 9999999")) == []


def test_who_moves_may_take_the_place_of_one_that_is_far_longer():
    third = " | eve holds 1 preemptible saved 100 until 9999999"
    assert stopped(scattered(third=third)) == [Eviction(-1, "overtaken", 1), Eviction(-3, "overtaken", 1)]


def test_nobody_moves_who_cannot_or_would_throw_away_much():
    assert stopped(scattered("saved 100")) == []
    assert stopped(scattered("preemptible saved -9999")) == []


def test_the_second_in_line_stops_nobody_for_room_that_the_first_keeps():
    node = "n{}: V100-32GBx1 | eve holds 1 {} saved 100 until {}"
    nodes = node.format(1, "preemptible", NOW + 100 * HOUR) + "\n" + node.format(2, "", NOW + 3 * HOUR)
    first = {"priority": "high", "time_s": 20 * HOUR, "gang": 2}
    assert stopped(world(nodes, wants("eve", "1", **first), wants("eve", "1", time_s=30 * HOUR))) == []


def test_the_one_that_was_stopped_goes_on_later_and_pays_for_it():
    snapshot = world("n1: V100-32GBx1", wants("ada", "1", preemptible=True, time_s=1000, at=0))
    come = build_waiting(snapshot, 2, wants("ada", "1", at=100, time_s=50))
    play = Simulation(
        snapshot, POLICY, 0.0, lambda job: job.time_s, arrivals=[come], rules=SimulationRules(resume_cost_s={1: 7.0})
    )
    ends = {job: moment.at for moment in play.run_steps() for job in moment.ended}
    assert ends == {2: 150, 1: 1057}


jobs = st.lists(
    st.builds(
        wants,
        st.sampled_from(("ada", "eve")),
        st.sampled_from(("1", "1", "2", "4")),
        gang=st.integers(1, 2),
        time_s=st.sampled_from((60.0, 600.0, 3600.0, 36_000.0, inf)),
        at=st.sampled_from((0.0, 300.0, 3000.0, 20_000.0)),
        preemptible=st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=80, deadline=None, database=None)
@given(jobs, st.sampled_from((1.0, 2.0, 4.0)), st.integers(0, 3), st.integers(0, 2))
def test_all_end_and_nobody_is_stopped_too_often_or_for_less_than_it_costs(wishes, far, most, reservations):
    snapshot = world("n1: V100-32GBx4\nn2: V100-32GBx4", *wishes)
    come = snapshot.waiting
    snapshot.waiting = ()
    never_old = 1e12  # so that work is not discounted by age
    policy = Policy(never_old, reservations, short_first=True, stop_longer=far, most_stops=most)
    rules = SimulationRules(resume_cost_s=dict.fromkeys(range(1, 99), 30.0))
    play = Simulation(snapshot, policy, 0.0, lambda job: min(job.time_s, 50_000.0), arrivals=come, rules=rules)
    stops: Counter[int] = Counter()
    ended: set[int] = set()
    size = {job.job: sum(role.min * role.ask.gpus for role in job.gang) for job in come}
    for moment in play.run_steps():
        ended.update(moment.ended)
        for eviction in moment.plan.evictions:
            stops[eviction.job] += 1
            work = {job: min(left, policy.longest_s) * size[job] for job, left in _said(play, eviction).items()}
            assert work[eviction.job] > 0.99 * far * work[eviction.to] or size[eviction.to] > 1  # then it may move
    assert ended == {job.job for job in come}
    assert all(count <= most for count in stops.values())


def _said(play: Simulation, eviction: Eviction) -> dict[int, float]:
    """{job: seconds that it says it has to go}, of both, after the stop."""
    known = {job.job: job.ends_at - play.now for job in play.running.values()}
    known |= {job.job: job.time_s for job in play.waiting.values()}
    return {job: known[job] for job in (eviction.job, eviction.to)}
