"""Jobs whose tasks must or should share a switch or a machine: where they go, and what is said where they cannot."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import PlaceRule, Policy
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from tests.worlds import wants, world

EIGHT = "\n".join(f"n{number}: H100x2" for number in range(1, 9))
SAME, PREFER = PlaceRule(same="switch"), PlaceRule(prefer="switch")


def switched(snapshot, *switches, rules=(), elastic=0):
    """switches: of each node, "" if not known. rules: of each waiting job. elastic: tasks that each may gain."""
    names = tuple(sorted(set(switches) - {""}))
    snapshot.switch_names = names
    snapshot.node_switch = np.array([names.index(name) if name else -1 for name in switches])
    waiting = []
    for job, rule in zip(snapshot.waiting, rules, strict=True):
        roles = tuple(replace(role, place=rule, max=role.min + elastic) for role in job.gang)
        waiting.append(replace(job, gang=roles))
    snapshot.waiting = tuple(waiting)
    return snapshot


def play(snapshot, now=0.0, **policy):
    return run_cycle(snapshot, Policy(**policy), now)


def placed(snapshot, plan) -> dict[int, list[str]]:
    return {start.job: sorted(snapshot.node_name(task.node) for task in start.tasks) for start in plan.starts}


def test_a_gang_goes_to_one_switch_the_fullest_that_has_room():
    snapshot = switched(world(EIGHT, wants("ada", "2", gang=2)), *"aaaaabbb", rules=[SAME])
    assert placed(snapshot, play(snapshot)) == {1: ["n6", "n7"]}
    snapshot = switched(world(EIGHT, wants("ada", "2", gang=4)), *"aaaaabbb", rules=[SAME])
    assert placed(snapshot, play(snapshot)) == {1: ["n1", "n2", "n3", "n4"]}


def test_a_switch_that_is_not_known_is_the_machines_own():
    snapshot = switched(world(EIGHT, wants("ada", "1", gang=2)), *[""] * 8, rules=[SAME])
    (nodes,) = placed(snapshot, play(snapshot)).values()
    assert len(set(nodes)) == 1


def test_a_gang_that_must_share_a_switch_waits_where_only_two_together_have_room():
    held = EIGHT.replace("n1: H100x2", "n1: H100x2 | bob holds 2 until 500")
    snapshot = switched(world(held, wants("ada", "2", gang=4)), *"aaaabbbc", rules=[SAME])
    plan = play(snapshot)
    assert not plan.starts and plan.reserved_at == {1: 500.0}
    (why,) = plan.refusals[1]
    assert why.reason == "fits_only_apart"
    assert why.params == {"level": "switch", "need": 4, "best": 3, "domain": "a"}


def test_what_is_kept_for_it_is_of_one_switch():
    """Small work goes on beside it, and not in it."""
    held = EIGHT.replace("n1: H100x2", "n1: H100x2 | bob holds 2 until 500")
    small = [wants("eve", "2", time_s=10_000.0) for _ in range(7)]
    snapshot = switched(world(held, wants("ada", "2", gang=4), *small), *"aaaabbbc", rules=[SAME, *[None] * 7])
    plan = play(snapshot)
    assert {nodes[0] for nodes in placed(snapshot, plan).values()} == {"n5", "n6", "n7", "n8"}


def test_it_makes_room_on_one_switch():
    held = "\n".join(f"n{n}: H100x2 | bob holds 2 preemptible low" for n in range(1, 9))
    snapshot = switched(
        world(held, wants("ada", "2", gang=3), guarantee={("ada", "dev"): {"gpu_milli": 16000}}),
        *"abababab",
        rules=[SAME],
    )
    plan = play(snapshot)
    left = {snapshot.running[-1 - one.job].tasks[0].node for one in plan.evictions}
    assert len(left) == 3 and len({snapshot.node_switch[node] for node in left}) == 1


def test_what_prefers_one_switch_takes_few_and_never_waits():
    snapshot = switched(world(EIGHT, wants("ada", "2", gang=6)), *"aabbbbcc", rules=[PREFER])
    (nodes,) = placed(snapshot, play(snapshot)).values()
    assert len({snapshot.node_switch[snapshot.node_names.index(name)] for name in nodes}) == 2
    snapshot = switched(world(EIGHT, wants("ada", "2", gang=2)), *"aabbbbcc", rules=[PREFER])
    (nodes,) = placed(snapshot, play(snapshot)).values()
    assert nodes == ["n1", "n2"]


def test_one_switch_and_there_few_machines():
    snapshot = switched(
        world(EIGHT, wants("ada", "1", gang=2)), *"aaaabbbb", rules=[PlaceRule(same="switch", prefer="node")]
    )
    (nodes,) = placed(snapshot, play(snapshot)).values()
    assert len(set(nodes)) == 1


def test_a_gang_grows_in_its_own_switch():
    snapshot = switched(world(EIGHT, wants("ada", "2", gang=2)), *"aaabbbbb", rules=[SAME], elastic=5)
    assert placed(snapshot, play(snapshot)) == {1: ["n1", "n2", "n3"]}


@pytest.mark.parametrize(
    ("switches", "rule", "field", "largest"),
    [
        ("aaabbbcc", SAME, "switch", 3),
        ([""] * 8, SAME, "switch_unknown", 1),
        ("aaaaaaaa", PlaceRule(same="node"), "node", 1),
    ],
)
def test_what_no_switch_could_ever_hold_is_refused(switches, rule, field, largest):
    snapshot = switched(world(EIGHT, wants("ada", "2", gang=4)), *switches, rules=[rule])
    (refusal,) = check_feasibility(snapshot, snapshot.waiting[0])
    assert (refusal.params["field"], refusal.params["asked"], refusal.params["largest"]) == (field, 4, largest)


def test_all_roles_count_where_it_is_told_how_many_tasks_have_room():
    snapshot = switched(world(EIGHT, wants("ada", "2", gang=3)), *"aaabbbcc", rules=[SAME])
    (job,) = snapshot.waiting
    (worker,) = job.gang
    head = replace(worker, name="head", min=1, max=1)
    snapshot.waiting = (replace(job, gang=(head, worker)),)
    (refusal,) = check_feasibility(snapshot, snapshot.waiting[0])
    assert (refusal.params["asked"], refusal.params["largest"]) == (4, 0)  # each role alone has room
    snapshot.waiting = (replace(job, gang=(head, replace(worker, min=4, max=4))),)
    (refusal,) = check_feasibility(snapshot, snapshot.waiting[0])
    assert (refusal.params["asked"], refusal.params["largest"]) == (5, 4)


def test_the_preferred_kind_of_card_comes_before_the_fullest_switch():
    text = "n1: A100x2\nn2: A100x2\nn3: H100x2\nn4: H100x2\nn5: H100x2"
    snapshot = switched(world(text, wants("ada", "H100,A100:2", gang=2)), *"aabbb", rules=[SAME])
    assert placed(snapshot, play(snapshot)) == {1: ["n3", "n4"]}


asks = st.sampled_from(["1", "2", "1/2", "cpu"])


@settings(max_examples=80, deadline=None)
@given(
    switches=st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=6, max_size=6),
    held=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    gangs=st.lists(st.tuples(asks, st.integers(1, 4)), min_size=1, max_size=4),
    rules=st.lists(st.sampled_from([SAME, PREFER, PlaceRule(same="node")]), min_size=4, max_size=4),
)
def test_nothing_that_must_be_together_is_apart_and_it_starts_wherever_one_switch_has_room(
    switches, held, gangs, rules
):
    lines = [f"n{n}: H100x2" + (f" | bob holds {count}" if count else "") for n, count in enumerate(held)]
    build = lambda *wishes: world("\n".join(lines), *wishes)  # noqa: E731
    wishes = [wants("ada", ask, gang=tasks) for ask, tasks in gangs]
    snapshot = switched(build(*wishes), *switches, rules=rules[: len(wishes)])
    first = check_alone(build(wishes[0]), switches, rules[0])
    plan = play(snapshot)
    for start in plan.starts:
        rule = snapshot.waiting[start.job - 1].gang[0].place
        assert not rule.same or len({domain_of(snapshot, rule.same, task.node) for task in start.tasks}) == 1
    assert (1 in {start.job for start in plan.starts}) == first
    free = switched(build(*wishes), *switches, rules=[None] * len(wishes))
    if all(rule.prefer for rule in rules[: len(wishes)]) and len(wishes) == 1:
        assert len(play(free).starts) == len(plan.starts)


def check_alone(snapshot, switches, rule) -> bool:
    """Whether the first job fits, by trying each domain with all other machines closed."""
    if not rule.same:
        switched(snapshot, *switches, rules=[None])
        return bool(play(snapshot).starts)
    switched(snapshot, *switches, rules=[None])
    domains = {domain_of(snapshot, rule.same, node) for node in range(len(switches))}
    for domain in domains:
        alone = snapshot.copy()
        alone.node_open = np.array([domain_of(snapshot, rule.same, node) == domain for node in range(len(switches))])
        alone.gpu_open = alone.node_open[alone.gpu_node]
        if play(alone).starts:
            return True
    return False


def domain_of(snapshot, level, node):
    switch = int(snapshot.node_switch[node])
    return ("node", node) if level == "node" or switch < 0 else ("switch", switch)
