"""Control groups as files, and which cores a task gets."""

from pathlib import Path

import pytest

from agent.usage.group_counters import list_members, read_peak_mib
from runtimes.local.launch import choose_cpus, choose_memory_node
from runtimes.local.shim import cgroups

FOUR = [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("cpu_milli", "near", "load", "chosen"),
    [
        (500, (), {}, []),  # less than a core: the share decides
        (500, ((2, 3),), {2: 9}, [2, 3]),  # where on its NUMA node, too
        (500, ((0, 1, 2, 3),), {}, []),
        (4000, ((0, 1), (0, 1), (2, 3), (2, 3)), {}, []),
        (3000, ((0, 1), (2, 3), (2, 3)), {2: 1}, [0, 2, 3]),  # without cards: as many of each as were given
        (1000, (), {}, [0]),
        (1500, (), {}, [0, 1]),  # rounded up
        (2000, (), {0: 1, 2: 1}, [1, 3]),  # the least used
        (2000, ((2, 3),), {}, [2, 3]),  # exactly the card's NUMA node
        (1000, ((2, 3),), {2: 1}, [3]),
        (3000, ((2, 3),), {}, [0, 1, 2]),  # the node is too small
        (2000, ((0, 1), (2, 3)), {}, [0, 2]),  # a card on each of two nodes
        (2000, ((2, 3), (2, 3)), {}, [2, 3]),  # two cards on one
        (3000, ((2, 3), (2, 3), (0, 1)), {}, [0, 2, 3]),  # two on one and one on the other
        (4000, (), {}, []),  # all of them: nothing to pin
        (9000, (), {}, []),
    ],
)
def test_which_cores_a_task_gets(cpu_milli, near, load, chosen):
    assert choose_cpus(cpu_milli, near, FOUR, load) == chosen


@pytest.mark.parametrize(
    ("near", "real", "chosen"), [((1, 1), {0, 1}, 1), ((0, 1), {0, 1}, None), ((1,), (), None), ((), {0}, None)]
)
def test_whose_memory_a_task_prefers(near, real, chosen):
    assert choose_memory_node(near, real) == chosen


def test_a_group_of_version_2_is_limited_as_a_whole(tmp_path):
    group = cgroups.make_memory_group(cgroups.V2, str(tmp_path), "task", 100, 2000)
    read = {name: (tmp_path / "task" / name).read_text() for name in ("memory.max", "memory.oom.group", "cpu.weight")}
    assert read == {"memory.max": str(100 << 20), "memory.oom.group": "1", "cpu.weight": "200"}
    (tmp_path / "task/memory.events").write_text("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 1\n")
    (tmp_path / "task/memory.peak").write_text(f"{90 << 20}\n")
    assert (cgroups.count_oom_kills(cgroups.V2, group), read_peak_mib(cgroups.V2, group)) == (2, 90)


def test_a_group_of_version_1_reads_its_own_files(tmp_path):
    group = cgroups.make_memory_group(cgroups.V1, str(tmp_path), "task", 100, 2000)
    (tmp_path / "task/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert (tmp_path / "task/memory.limit_in_bytes").read_text() == str(100 << 20)
    assert cgroups.count_oom_kills(cgroups.V1, group) == 1 and read_peak_mib(cgroups.V1, group) is None


@pytest.mark.parametrize(("memory_kind", "same"), [(cgroups.V2, True), (cgroups.V1, False)])
def test_processes_are_limited_in_the_one_group_or_in_a_tree_of_their_own(tmp_path, memory_kind, same):
    parent = str(tmp_path if same else tmp_path / "pids")
    memory = cgroups.make_memory_group(memory_kind, str(tmp_path), "task", 100, 2000)
    group = cgroups.make_pids_group(parent, "task", 40)
    assert (group == memory) == same and Path(group, "pids.max").read_text() == "40"
    assert cgroups.count_refused_forks(group) == 0
    Path(group, "pids.events").write_text("max 3\n")
    assert cgroups.count_refused_forks(group) == 3
    plan = {"memory_parent": str(tmp_path), "cpu_parent": "", "pids_parent": parent}
    assert cgroups.list_group_paths(plan, "task") == list(dict.fromkeys([memory, group]))


def test_a_plan_from_before_there_was_a_limit_on_processes_is_understood():
    assert cgroups.list_group_paths({"memory_parent": "/a", "cpu_parent": "/b"}, "task") == ["/a/task", "/b/task"]


def test_a_group_that_is_gone_is_empty(tmp_path):
    gone = str(tmp_path / "gone")
    cgroups.remove_group(gone)
    assert list_members(gone) == [] and cgroups.count_oom_kills(cgroups.V2, gone) == 0
