"""Work without cards keeps to one NUMA node where it fits, else to the fewest; with cards it is near these."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.model.types import Placement, Policy, TaskPlacement
from scheduler.core.placement.numa_choice import choose_numa
from scheduler.core.placement.scores import SCORES
from tests.worlds import build_ask, wants, world


def take(snapshot, cores, memory_mib=1024, cards=(), node=0):
    """Take the cores as the scheduler does. Return the task's place."""
    ask = build_ask(snapshot.kind_names, "cpu", cores=cores, memory_mib=memory_mib)
    near = choose_numa(snapshot, ask, node, cards)
    task = TaskPlacement("main", 0, node, (), ask.cpu_milli, ask.memory_mib, near)
    snapshot.allocate_task(task)
    return task


def told(task):
    """{NUMA node: cores}."""
    return {share.numa: share.cpu_milli / 1000 for share in task.near}


@pytest.mark.parametrize(
    ("machine", "asks", "last"),
    [
        ("cores 16 numa 8+8", [4], {0: 4}),
        ("cores 16 numa 8+8", [4, 4], {0: 4}),  # the fullest where it fits: the other stays whole
        ("cores 16 numa 8+8", [4, 4, 4], {1: 4}),
        ("cores 16 numa 8+8", [6, 4, 2], {0: 2}),
        ("cores 16 numa 8+8", [12], {0: 8, 1: 4}),
        ("cores 16 numa 8+8", [5, 5, 4], {0: 3, 1: 1}),  # nowhere four are free
        ("cores 32 numa 8+8+8+8", [7, 20], {1: 8, 2: 8, 3: 4}),  # the fewest: those with most room
        ("cores 16 numa 8+8", [1.5, 0.5], {0: 0.5}),
        ("cores 24 numa 16+8", [10, 8], {1: 8}),
        ("cores 16", [4], {}),  # not known
        ("cores 16 numa 16", [4], {}),  # one
    ],
)
def test_what_work_without_cards_gets(machine, asks, last):
    snapshot = world(f"n1: {machine} cpu")
    assert told([take(snapshot, cores) for cores in asks][-1]) == last


def test_memory_has_to_fit_there_too():
    snapshot = world("n1: cores 16 numa 8+8 memory 8192 cpu")
    take(snapshot, 1, memory_mib=3072)
    assert told(take(snapshot, 1, memory_mib=2048)) == {1: 1}
    assert told(take(snapshot, 4, memory_mib=3000)) == {1: 4}  # together they have as much


def test_cores_beside_cards_are_taken_last():
    snapshot = world("n1: cores 32 numa 8+8+8+8 A100x2")
    snapshot.gpu_numa[:] = 0, 2
    assert [told(take(snapshot, 8)) for _ in range(4)] == [{1: 8}, {3: 8}, {0: 8}, {2: 8}]


def test_a_task_with_cards_is_near_them():
    snapshot = world("n1: cores 16 numa 8+8 A100x4")
    assert told(take(snapshot, 4, cards=[2])) == {1: 4}
    assert told(take(snapshot, 6, cards=[0, 1, 2])) == {0: 4, 1: 2}
    assert snapshot.numa_free[0, :, 0].tolist() == [4000, 2000]
    snapshot.gpu_numa[3] = -1
    assert told(take(snapshot, 1, cards=[3])) == {}


@given(
    st.lists(st.integers(4, 12), min_size=2, max_size=4),
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 6, 0.5]), st.booleans()), max_size=40),
)
def test_a_task_never_straddles_while_one_numa_node_has_room(numa, wishes):
    """Tasks come and go; what is taken is never more than there is, and all comes back."""
    snapshot = world(f"n1: cores {sum(numa)} numa {'+'.join(map(str, numa))} cpu")
    running = []
    for cores, leaves in wishes:
        if leaves and running:
            snapshot.release_task(running.pop(0))
        if snapshot.node_cpu_free[0] < cores * 1000:
            continue
        most = snapshot.numa_free[0, :, 0].max()
        running.append(task := take(snapshot, cores))
        assert sum(share.cpu_milli for share in task.near) == task.cpu_milli
        assert (len(task.near) == 1) == (most >= task.cpu_milli)
        assert (snapshot.numa_free[0, :, 0] >= 0).all()
    for task in running:
        snapshot.release_task(task)
    assert (snapshot.numa_free == snapshot.numa_total).all()


def test_of_machines_that_are_alike_the_one_is_chosen_where_it_straddles_nothing():
    lines = "n1: cores 16 numa 8+8 cpu\nn2: cores 16 numa 8+8 cpu"
    snapshot = world(lines, wants("ada", "cpu", cores=4))
    take(snapshot, 5), take(snapshot, 5)  # the fuller one is preferred else
    start = run_cycle(snapshot, Policy(), 0.0).starts[0]
    assert [task.node for task in start.tasks] == [1] and len(start.tasks[0].near) == 1
    twin = world(lines, wants("ada", "cpu", cores=4))
    take(twin, 5), take(twin, 5)
    without = tuple((score, weight) for score, weight in SCORES if score.__name__ != "keep_near")
    assert [task.node for task in run_cycle(twin, Policy(scores=without), 0.0).starts[0].tasks] == [0]


def test_a_gang_shares_what_is_free():
    snapshot = world("n1: cores 16 numa 8+8 cpu", wants("ada", "cpu", cores=6, gang=2))
    (start,) = run_cycle(snapshot, Policy(), 0.0).starts
    assert isinstance(start, Placement) and sorted(task.near[0].numa for task in start.tasks) == [0, 1]
