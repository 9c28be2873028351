"""Patterns of distributed work: each is a good file, is known again, and gives the program and its asks back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.patterns import ALIKE, OWN, PATTERNS, find_pattern, write_pattern

FILE = {"name": "sft", "run": "set -e\npython train.py --lr 1e-4", "gpu": 2, "memory": "16GB", "env": {"SEED": "1"}}
names = st.sampled_from([ALIKE, *PATTERNS])


@given(st.lists(names, min_size=1, max_size=4))
def test_a_file_goes_through_any_patterns_and_comes_back(way):
    data = FILE
    for pattern in way:
        data = write_pattern(data, pattern)
        parse_spec(data)
        assert find_pattern(data) == pattern
    assert write_pattern(data, ALIKE) == FILE


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_cards_are_those_of_the_tasks_that_work(pattern):
    spec = parse_spec(write_pattern({**FILE, "nodes": 4}, pattern))
    working = [role for role in spec.roles if role.gpu.count] or [spec]
    assert [(each.gpu.count, each.memory_mib, each.nodes) for each in working] == [(2, 15259, 4)]


def test_the_last_line_is_what_is_started_many_times():
    run = write_pattern(FILE, "torchrun")["run"].split("\n")
    assert run[0] == "set -e" and run[1].startswith("torchrun --nnodes $WORLD_SIZE")
    assert run[1].endswith("$MASTER_PORT train.py --lr 1e-4")
    launcher = write_pattern(FILE, "mpi")["roles"]["launcher"]["run"]
    assert launcher.endswith("mpirun --hostfile $TESSERA_HOSTS/worker python train.py --lr 1e-4")


@pytest.mark.parametrize("text", ["roles: {a: {run: x}}\n", "roles: [a]\n", "roles: {ps: 1, worker: 2}\n"])
def test_roles_of_ones_own_are_left_alone(text):
    data = load_jobfile(text.encode())
    assert find_pattern(data) == OWN and write_pattern(data, "ray") == data


@pytest.mark.parametrize("text", ["", "run: [a]\n", "run: 3\ngpu: {a: b}\n", "run: a\nnodes: many\n", "roles: {}\n"])
def test_a_file_that_is_wrong_stays_so_without_an_exception(text):
    data = load_jobfile(text.encode()) if text else {}
    for pattern in PATTERNS:
        write_pattern(write_pattern(data, pattern), ALIKE)
    assert write_pattern(data, "unknown") == data
