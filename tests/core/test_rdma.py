"""Tasks that need an RDMA adapter: on which nodes, beside which cards, and what is said where there is none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.cycle import run_cycle
from scheduler.core.model.topology import build_link_layout, choose_linked_set
from scheduler.core.model.types import Policy, Role
from scheduler.core.placement.feasibility_when_empty import check_feasibility
from scheduler.reconcile.task_specs import find_hcas
from tests.runtimes.local.fake_nvml import parse_topology
from tests.worlds import wants, world

HGX = (Path(__file__).parents[1] / "runtimes/local/topologies/hgx-h100.txt").read_text()
TWO = "n1: H100x2\nn2: H100x2"


def with_rdma(snapshot, nodes=(), jobs=(0,)):
    """nodes: with an adapter. jobs: places in the queue of those that need one."""
    snapshot.node_rdma = np.isin(snapshot.nodes, nodes)
    snapshot.waiting = tuple(
        replace(job, gang=tuple(need_rdma(role) for role in job.gang)) if place in jobs else job
        for place, job in enumerate(snapshot.waiting)
    )
    return snapshot


def need_rdma(role: Role) -> Role:
    return replace(role, ask=replace(role.ask, rdma=True))


def placed(snapshot) -> dict[int, list[str]]:
    plan = run_cycle(snapshot, Policy(), 0.0)
    return {start.job: [snapshot.node_name(task.node) for task in start.tasks] for start in plan.starts}


@pytest.mark.parametrize("ask", ["1", "2", "1/4", "cpu"])
def test_a_task_goes_to_a_node_with_an_adapter(ask):
    assert placed(with_rdma(world(TWO, wants("ada", ask)), nodes=[1])) == {1: ["n2"]}


def test_where_none_has_a_link_it_could_never_run():
    (refusal,) = check_feasibility(with_rdma(snapshot := world(TWO, wants("ada", "1"))), snapshot.waiting[0])
    assert (refusal.reason, refusal.params["field"], refusal.params["largest"]) == ("impossible", "rdma", 0)


def test_while_the_node_with_the_adapter_is_out_of_service_it_waits():
    snapshot = with_rdma(world("n1: H100x2\nn2: closed H100x2", wants("ada", "1"), wants("ada", "1")), nodes=[1])
    plan = run_cycle(snapshot, Policy(), 0.0)
    assert [start.job for start in plan.starts] == [2]
    assert [(r.reason, r.params["resource"]) for r in plan.refusals[1]] == [("no_fit_now", "rdma")]


@settings(max_examples=60)
@given(
    st.lists(st.booleans(), min_size=2, max_size=4),
    st.lists(st.tuples(st.sampled_from(["1", "2", "1/2", "cpu"]), st.integers(1, 3), st.booleans()), max_size=8),
)
def test_no_task_ever_goes_where_no_adapter_is(adapters, asked):
    text = "\n".join(f"n{number}: H100x2 | bob holds 1/2 until 500" for number in range(len(adapters)))
    jobs = [place for place, (*_, rdma) in enumerate(asked) if rdma]
    nodes = [place for place, there in enumerate(adapters) if there]
    snapshot = world(text, *(wants("ada", ask, gang=gang) for ask, gang, _ in asked))
    found = placed(with_rdma(snapshot, nodes, jobs))
    assert all(int(name[1:]) in nodes for job in found if job - 1 in jobs for name in found[job])


# beside which cards


def four_cards(links: dict[str, str]):
    """Cards 2 and 3 are below a switch with an adapter each."""
    matrix = tuple(
        tuple("X" if i == j else links.get(f"{min(i, j)}{max(i, j)}", "SYS") for j in range(4)) for i in range(4)
    )
    return build_link_layout(matrix, hcas=(("SYS", "SYS", "PIX", "NODE"), ("SYS", "SYS", "NODE", "PIX")))


@pytest.mark.parametrize(
    ("links", "count", "rdma", "chosen"),
    [
        ({}, 1, False, (0,)),
        ({}, 1, True, (2,)),
        ({"01": "PIX"}, 2, False, (0, 1)),
        ({"01": "PIX"}, 2, True, (2, 3)),
        ({"01": "NV12"}, 2, True, (0, 1)),  # what is far from an adapter and near each other
        ({}, 3, True, (0, 2, 3)),
    ],
    ids=str,
)
def test_cards_beside_an_adapter_come_first(links, count, rdma, chosen):
    assert choose_linked_set(four_cards(links), (0, 1, 2, 3), count, rdma) == chosen


def test_nccl_gets_the_adapter_of_each_card_of_a_published_machine():
    """HGX H100: each card has an adapter behind its switch; NIC1 to NIC3 are far from all."""
    rows = [line.split() for line in HGX.splitlines() if line.startswith("GPU") and " X " in f" {line} "]
    ways = [row[len(rows) + 1 : len(rows) + 13] for row in rows]
    near = [{str(card): words[nic] for card, words in enumerate(ways)} for nic in range(12)]
    topology = {"hcas": [{"name": f"mlx5_{nic}", "active": nic != 5, "near": near[nic]} for nic in range(12)]}
    assert find_hcas(topology, [0]) == ("mlx5_0",) and find_hcas(topology, [1, 6]) == ("mlx5_3", "mlx5_10")
    assert find_hcas(topology, [3]) == ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4")  # its own has no link
    assert len(find_hcas(topology, [])) == 11 and find_hcas({}, [0]) == ()
    links, numa = parse_topology(HGX)
    hcas = tuple(tuple(words[nic] for words in ways) for nic in range(12))
    assert build_link_layout(tuple(map(tuple, links)), (), tuple(numa), hcas=hcas).hca == (40,) * 8
