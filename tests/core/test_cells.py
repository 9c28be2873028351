"""Guarantees of whole nodes: an owner's job of a node's size always finds one."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.forecast.simulate import Simulation
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import WaitingJob
from tests.core.test_cycle import cycle, started, why
from tests.core.test_preempt import evicted
from tests.core.test_properties import NOW, POLICY, many
from tests.worlds import build_waiting, wants, with_waiting, world

CARDS = 4
"""Of one node in these worlds."""


def guarantee(**cards) -> dict:
    """ada=4: {("ada", "dev"): 4 cards}."""
    return {(team, "dev"): {"gpu_milli": 1000 * count} for team, count in cards.items()}


def cells(*teams) -> dict:
    return {(team, "dev"): CARDS for team in teams}


def in_cells(text: str, *wishes, **cards) -> Snapshot:
    """A world in which the guarantees of these teams are nodes of four cards."""
    teams = [*wishes, *(wants(team, "cpu", held=True) for team in cards)]
    return world(text, *teams, guarantee=guarantee(**cards), cells=cells(*cards))


def places(plan) -> dict[int, int]:
    """{job: node of its first task}."""
    return {start.job: start.tasks[0].node for start in plan.starts}


TWO_NODES = "n1: A100x4\nn2: A100x4"


def test_who_cannot_be_stopped_leaves_as_many_nodes_whole_as_are_promised():
    plan = cycle(in_cells(TWO_NODES, wants("eve", "1"), wants("eve", "1"), wants("eve", "3"), ada=4))
    assert started(plan) == [1, 2] and len(set(places(plan).values())) == 1
    assert why(plan, 3)[0] == "borrow_denied"


def test_without_cells_the_same_cards_are_lent_anywhere():
    text = "n1: A100x4 | bob holds 3\nn2: A100x4 | bob holds 3"
    snapshot = world(text, wants("eve", "1"), wants("ada", "cpu"), guarantee=guarantee(ada=1))
    assert 1 in started(cycle(snapshot))


def test_two_jobs_that_would_break_two_nodes_go_to_one():
    text = "n1: A100x4 | eve holds 1\nn2: A100x4\nn3: A100x4"
    plan = cycle(in_cells(text, wants("eve", "3"), wants("eve", "1"), ada=8))
    assert places(plan) == {1: 0} and why(plan, 2) == ["borrow_denied"]
    assert plan.refusals[2][0].params == {"teams": ["ada"]}


def test_whose_whole_nodes_keep_it_waiting_is_told():
    text = "n1: A100x4 | eve holds 2\nn2: A100x4\nn3: A100x4"
    plan = cycle(in_cells(text, wants("eve", "3"), ada=4, bob=4))
    assert plan.refusals[1][0].params == {"teams": ["ada", "bob"]}
    text = "n1: A100x4 | eve holds 1\nn2: A100x4\nn3: A100x4 | eve holds 1"
    plan = cycle(in_cells(text, wants("eve", "4"), ada=4))
    assert plan.refusals[1][0].params == {"teams": ["ada"], "cards": CARDS}


def test_a_job_that_may_be_stopped_uses_promised_nodes_and_gives_them_back_whole():
    snapshot = in_cells(TWO_NODES, *[wants("eve", "1", preemptible=True)] * 8, ada=4)
    assert started(cycle(snapshot)) == [*range(1, 9)]
    held = " | eve holds 1 preemptible" * 4
    plan = cycle(in_cells(f"n1: A100x4{held}\nn2: A100x4{held}", wants("ada", "4"), ada=4))
    assert len(plan.evictions) == CARDS and len({-job > CARDS for job in evicted(plan)}) == 1


def test_an_owner_breaks_its_own_nodes_one_after_the_other():
    text = "n1: A100x4\nn2: A100x4 | ada holds 1\nn3: A100x4"
    plan = cycle(in_cells(text, *[wants("ada", "1")] * 4, ada=8, bob=4))
    assert list(places(plan).values())[:3] == [1, 1, 1] and places(plan)[4] != 1


def test_an_owner_stays_out_of_the_node_of_another():
    text = "n1: A100x4 | bob holds 1\nn2: A100x4"
    assert places(cycle(in_cells(text, wants("ada", "1"), ada=4, bob=4))) == {1: 1}


def test_cards_outside_of_the_cells_stay_with_those_who_are_guaranteed_cards():
    """ada could take them within the number of her cards, but has a node of her own."""
    text = "n1: A100x4\nn2: A100x4 | bob holds 1"
    waits = wants("ada", "1"), wants("bob", "3")
    snapshot = world(text, *waits, guarantee=guarantee(ada=4, bob=4), cells=cells("ada"))
    assert places(cycle(snapshot)) == {1: 0, 2: 1}


def test_an_end_gives_a_node_back_to_whoever_it_was_promised():
    """eve may not slip onto the node that is ada's only as long as she holds one card of it."""
    text = "n1: A100x4 | ada holds 1\nn2: A100x4 | eve holds 1"
    assert places(cycle(in_cells(text, *[wants("eve", "1")] * 4, ada=4))) == {1: 1, 2: 1, 3: 1}


def test_the_cell_of_a_team_covers_those_below_it():
    text = "n1: A100x4\nn2: A100x4\nn3: A100x4"
    promises = {
        "guarantee": guarantee(lab=8, ada=4),
        "cells": cells("lab", "ada"),
        "parents": {"ada": "lab", "bob": "lab"},
    }
    waits = [wants("eve", "4"), wants("eve", "1"), wants("ada", "cpu", held=True), wants("bob", "cpu", held=True)]
    assert started(cycle(world(text, *waits, **promises))) == [1]
    waits = [wants("bob", "4"), wants("bob", "4"), wants("ada", "cpu", held=True)]
    assert started(cycle(world("n1: A100x4\nn2: A100x4", *waits, **promises))) == [1]


def test_a_node_that_is_down_is_nobodys_cell():
    assert started(cycle(in_cells("n1: A100x4\nn2: closed A100x4", wants("eve", "1"), ada=4))) == []
    assert started(cycle(in_cells("n1: A100x4\nn2: closed A100x4", wants("ada", "4"), ada=4))) == [1]


def test_nodes_of_another_size_are_no_cells():
    assert places(cycle(in_cells("n1: A100x4\nn2: A100x8", wants("eve", "1"), ada=4))) == {1: 1}


def test_a_team_within_its_guarantee_moves_out_of_the_way_where_nobody_borrows():
    """All that bob holds is his, but stands on both nodes, and may be stopped."""
    two = " | bob holds 1 preemptible" * 2
    text, waits = f"n1: A100x4{two}\nn2: A100x4{two}", (wants("ada", "4"),)
    snapshot = world(text, *waits, guarantee=guarantee(ada=4, bob=4), cells=cells("ada"))
    plan = cycle(snapshot)
    assert len(plan.evictions) == 2 and {eviction.reason for eviction in plan.evictions} == {"reclaimed"}


def test_who_fills_a_node_of_its_own_team_is_not_moved():
    text = "n1: A100x4 | bob holds 4 preemptible\nn2: A100x4 | eve holds 1"
    assert evicted(cycle(in_cells(text, wants("ada", "4"), ada=4, bob=4))) == []


@st.composite
def lives(draw) -> tuple[Snapshot, list[WaitingJob], dict[int, float]]:
    """Nodes of four cards, teams that are guaranteed nodes, cards or nothing, and jobs that come, run and end.

    Whoever is guaranteed no nodes asks whole cards, since a slice is counted as less than the card that it spoils.
    """
    count = draw(st.integers(2, 3))
    left, promised, whole = count, {}, []
    for team in ("ada", "bob"):
        nodes = draw(st.integers(min(left, team == "ada"), min(left, 2)))
        left -= nodes
        if nodes:
            promised[team] = nodes * CARDS
            whole += [team] if team == "ada" or draw(st.booleans()) else []
    snapshot = world(
        "\n".join(f"n{number}: A100x{CARDS}" for number in range(count)),
        *[wants(team, "1") for team in ("ada", "bob", "eve", "dan", "lab")],
        parents={"ada": "lab"} if draw(st.booleans()) else {},
        guarantee=guarantee(**promised),
        cells=cells(*whole),
    )
    wish = st.builds(
        wants,
        st.sampled_from(("ada", "bob", "eve", "dan")),
        st.sampled_from(("1", "1", "2", "3", "4") if len(whole) < len(promised) else ("1", "2", "3", "4", "1/4")),
        gang=st.sampled_from((1, 1, 1, 2)),
        preemptible=st.sampled_from((False, False, True)),
        at=st.integers(0, 10).map(lambda at: NOW + at),
        time_s=st.sampled_from((inf, 20.0)),
    )
    wishes = draw(st.lists(wish, min_size=3, max_size=12))
    runs = {number: draw(st.sampled_from((3.0, 15.0, inf))) for number in range(1, len(wishes) + 1)}
    jobs = [build_waiting(snapshot, number, wish) for number, wish in enumerate(wishes, start=1)]
    return with_waiting(snapshot), jobs, runs


@many(150)
@given(lives(), st.integers(5, 30))
def test_whoever_owns_an_unused_cell_has_a_node_when_it_asks(case, later):
    """At any moment of any life, all at once: each team asks as many whole nodes as it has cells without a job of its
    own that stays, or the single cards that it is guaranteed, and has them once those who may be stopped are gone.
    """
    snapshot, jobs, runs = case
    play = Simulation(snapshot, POLICY, NOW, lambda job: runs[job.job], arrivals=jobs)
    for moment in play.run_steps():
        if moment.at > NOW + later:
            break
    then = play.snapshot.copy()
    then.running = tuple(play.running.values())
    asked = [wants(snapshot.team_names[team], ask, at=0.0) for team, ask in due(then)]
    waiting = [build_waiting(snapshot, number, wish) for number, wish in enumerate(asked, start=100)]
    owners = Simulation(with_waiting(then, *waiting), POLICY, play.now, lambda job: inf)
    next(owners.run_steps())
    assert {job.job for job in waiting} <= owners.running.keys()


def due(snapshot: Snapshot) -> list[tuple[int, str]]:
    """(team, ask) of all that teams may have at once. What a team holds that may be stopped counts as held."""
    room = (snapshot.guarantee[:, 0, 0] - snapshot.held[:, 0, 0]) // 1000
    whole = {cell.team: cell.nodes - owned(snapshot, cell.team) for cell in snapshot.cells}
    asks = [(team, str(CARDS)) for team, nodes in whole.items() for _ in range(min(nodes, room[team] // CARDS))]
    single = [team for team in range(len(room)) if snapshot.guarantee[team, 0, 0] and team not in whole]
    return asks + [(team, "1") for team in single for _ in range(room[team])]


def owned(snapshot: Snapshot, team: int) -> int:
    """On how many nodes only this team and those below it have jobs that stay; by plain sets."""
    tenants: dict[int, set[int]] = {}
    for job in snapshot.running:
        if not job.preemptible:
            for task in job.tasks:
                tenants.setdefault(task.node, set()).add(job.team)
    return sum(all(team in snapshot.team_chain[other] for other in teams) for teams in tenants.values())


@many(100)
@given(lives())
def test_the_same_world_gives_the_same_plan_and_stays_as_it_was(case):
    snapshot, jobs, _ = case
    waiting = with_waiting(snapshot, *jobs)
    before = waiting.node_firm.copy()
    assert run_cycle(waiting, POLICY, NOW + 50) == run_cycle(waiting.copy(), POLICY, NOW + 50)
    assert (waiting.node_firm == before).all()
