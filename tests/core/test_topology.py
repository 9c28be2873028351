"""Which cards of a node a task takes, on machines that others have published (GPU topologies A to P)."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtimes.local.node.simulated_cards import MACHINES
from scheduler.core.cycle import run_cycle
from scheduler.core.model.topology import LinkLayout, build_link_layout, choose_linked_set, rank_card_sets
from scheduler.core.model.types import Policy
from tests.runtimes.local.fake_nvml import parse_topology
from tests.worlds import wants, world

HERE = Path(__file__).parent
PUBLISHED = (HERE / "topologies", HERE.parent / "runtimes/local/topologies")
SOCKETS = {"dgx-a100-nps4": (0, 0, 0, 0, 1, 1, 1, 1), "hopper-snc": (0, 0, 0, 0, 1, 1, 1, 1)}
ALL = tuple(range(8))


def published(name: str) -> LinkLayout:
    """The layout of the matrix as `nvidia-smi topo -m` printed it."""
    path = next(folder / f"{name}.txt" for folder in PUBLISHED if (folder / f"{name}.txt").exists())
    links, numa = parse_topology(path.read_text())
    return build_link_layout(tuple(map(tuple, links)), (), tuple(numa), SOCKETS.get(name, ()))


def dgx1() -> LinkLayout:
    """With the PCIe paths underneath, as the inventory stores them."""
    machine = MACHINES["V100-NVLink"]
    return build_link_layout(machine.links, machine.pcie, machine.numa)


def drawn(count: int, otherwise: str, words: dict[str, str], numa: tuple = ()) -> LinkLayout:
    """A matrix in words: {"01 23": "PIX"} says that 0-1 and 2-3 are PIX. Hexadecimal places."""
    links = [["X" if i == j else otherwise for j in range(count)] for i in range(count)]
    for pairs, word in words.items():
        for pair in pairs.split():
            one, two = int(pair[0], 16), int(pair[1], 16)
            links[one][two] = links[two][one] = word
    return build_link_layout(tuple(map(tuple, links)), (), numa)


A = dgx1()
HALVES = (0, 0, 0, 0, 1, 1, 1, 1)
C = drawn(8, "NV12", {}, HALVES)
E_LINKED = drawn(8, "NV18", {}, HALVES)
E_MASKED = drawn(8, "SYS", {}, HALVES)
G = drawn(16, "NV6", {})  # an old driver: no NUMA column
G_KNOWN = drawn(16, "NV6", {}, (0,) * 8 + (1,) * 8)
L = drawn(4, "SYS", {"01": "NV12", "23": "NODE"}, (0, 0, 1, 1))
M = drawn(4, "SYS", {"03 12": "NV2", "01 23": "NODE"}, (0, 0, 1, 1))
O = drawn(2, "PHB", {}, (0, 0))  # noqa: E741
P = drawn(4, "NV18", {}, (0, 0, 1, 1))


@pytest.mark.parametrize(
    ("cards", "score"),
    [
        ((2, 3), 250), ((6, 7), 250), ((0, 5), 10),
        ((0, 2, 3), 610), ((1, 2, 3), 610), ((4, 6, 7), 610), ((5, 6, 7), 610),
        ((0, 1, 2, 3), 1120), ((4, 5, 6, 7), 1120), ((0, 2, 5, 7), 300),
    ],
)  # fmt: skip
def test_sets_of_a_dgx1_score_as_published(cards, score):
    assert A.sum_scores(cards) == score
    assert score in (300, 10) or score == max(map(A.sum_scores, combinations(ALL, len(cards))))


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        ((0, 2, 4, 5), 2, (4, 5)),
        ((0, 4, 5, 6), 2, (5, 6)),
        ((0, 1, 3), 2, (0, 3)),
        ((0, 1, 4), 2, (0, 4)),
        (ALL, 2, (2, 3)),
        (ALL, 3, (0, 2, 3)),
        (ALL, 4, (0, 1, 2, 3)),
        ((1, 2, 3, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
        (ALL, 8, ALL),
    ],
)
def test_a_dgx1_gives_the_sets_of_go_gpuallocators_own_tests(free, count, expected):
    assert choose_linked_set(A, free, count) == expected


@pytest.mark.parametrize(("count", "expected"), [(2, (4, 7)), (4, (4, 5, 6, 7))])
def test_of_the_sets_with_card_4_the_expected_one_comes_first(count, expected):
    assert next(cards for cards in rank_card_sets(A, ALL, count) if 4 in cards) == expected


def test_every_card_of_a_dgx1_means_the_same_until_a_neighbour_is_used():
    assert {sum(row) for row in A.pair} == {750}
    assert choose_linked_set(A, ALL, 1) == (0,)
    assert choose_linked_set(A, (0, 1, 2, 4, 5, 6, 7), 1) == (2,)  # its pair 3 is used
    assert choose_linked_set(A, (0, 1, 3, 4, 5, 6, 7), 1) == (3,)


@pytest.mark.parametrize(
    ("machine", "free", "count", "expected"),
    [
        ("dgx-a100-nps4", ALL, 2, (0, 1)),
        ("dgx-a100-nps4", (1, 2, 3, 4), 2, (2, 3)),
        ("dgx-a100-nps4", ALL, 4, (0, 1, 2, 3)),  # two NUMA nodes, one socket
        ("dgx-a100-nps4", (0, 1, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
        ("hgx-h100", ALL, 2, (0, 1)),
        ("hgx-h100", ALL, 4, (0, 1, 2, 3)),
        ("hgx-h100", (3, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
        ("hgx-h100", (3, 4, 5, 6, 7), 1, (3,)),
        ("hopper-snc", ALL, 4, (0, 1, 2, 3)),  # 3 + 1 cards of one socket
        ("hopper-snc", (1, 2, 3, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
        ("hopper-snc", ALL, 2, (0, 1)),
        ("hopper-snc", ALL, 1, (3,)),
        ("hopper-snc", (0, 3, 7), 2, (0, 3)),
        ("8x4090", ALL, 2, (0, 1)),
        ("8x4090", (0, 5, 6), 2, (5, 6)),
        ("8x4090", ALL, 5, (0, 1, 2, 3, 4)),  # 4 + 1
        ("8x4090", (3, 4, 5, 6, 7), 1, (3,)),
        ("8x-pcie-switches", (1, 2, 3, 4), 2, (2, 3)),
        ("8x-pcie-switches", (1, 2, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
        ("8x-pcie-switches", (0, 1, 2, 4, 5, 6, 7), 1, (2,)),
        ("vm-pcie", (1, 2, 3, 4), 2, (2, 3)),  # NUMA unknown
        ("vm-pcie", (0, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
        ("8x-a100-bridges", (0, 2, 3, 5), 2, (2, 3)),
        ("8x-a100-bridges", (2, 3, 4, 5, 6, 7), 4, (4, 5, 6, 7)),  # NUMA from its own column: every pair says NODE
        ("8x-a100-bridges", (0, 1, 2, 3, 5), 1, (5,)),
        ("mixed-5", (0, 1, 2, 3, 4), 2, (1, 2)),
        ("mixed-5", (0, 2, 3, 4), 2, (3, 4)),
        ("mixed-5", (0, 1, 2, 3, 4), 1, (0,)),
        (C, (3, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
        (C, (2, 3, 4), 2, (2, 3)),
        (E_LINKED, (0, 4, 5), 2, (4, 5)),
        (E_MASKED, (0, 4, 5), 2, (4, 5)),
        (E_MASKED, ALL, 5, (0, 1, 2, 3, 4)),
        (G, tuple(range(16)), 8, tuple(range(8))),
        (G_KNOWN, tuple(range(3, 16)), 8, tuple(range(8, 16))),
        (G_KNOWN, tuple(range(3, 16)), 5, (3, 4, 5, 6, 7)),
        (G_KNOWN, tuple(range(7, 16)), 2, (8, 9)),
        (L, (0, 1, 2, 3), 1, (2,)),
        (L, (0, 1, 2, 3), 2, (0, 1)),
        (L, (1, 2, 3), 2, (2, 3)),
        (M, (0, 1, 2, 3), 2, (0, 3)),  # the bridge crosses the sockets
        (M, (0, 1, 2), 1, (0,)),
        (O, (0, 1), 1, (0,)),
        (O, (0, 1), 2, (0, 1)),
        (P, (0, 1, 2, 3), 2, (0, 1)),
        (P, (1, 2, 3), 2, (2, 3)),
        (P, (1, 2, 3), 1, (1,)),
    ],
)  # fmt: skip
def test_published_machines_give_the_expected_set(machine, free, count, expected):
    layout = published(machine) if isinstance(machine, str) else machine
    assert choose_linked_set(layout, free, count) == expected


def test_sys_inside_a_numa_node_is_worth_more_than_across():
    assert (E_MASKED.sum_scores((0, 1)), E_MASKED.sum_scores((0, 4))) == (15, 10)
    assert (published("vm-pcie").sum_scores((0, 1)), published("vm-pcie").sum_scores((0, 4))) == (50, 10)


def test_above_eight_cards_a_clique_is_found_wherever_it_begins():
    """Four rings of four, dealt over the places; greedy alone could begin in a broken one."""
    words = {f"{i:x}{j:x}": "NV4" for i in range(16) for j in range(i + 1, 16) if i % 4 == j % 4}
    assert choose_linked_set(drawn(16, "SYS", words), tuple(range(1, 16)), 4) == (1, 5, 9, 13)
    assert choose_linked_set(drawn(16, "SYS", words), tuple(range(2, 16)), 3) == (4, 8, 12)


matrices = st.integers(2, 10).flatmap(
    lambda n: st.lists(st.sampled_from(("SYS", "NODE", "PHB", "PIX", "NV1", "NV2")), min_size=n * n, max_size=n * n)
    .map(lambda words: [[words[min(i, j) * n + max(i, j)] if i != j else "X" for j in range(n)] for i in range(n)])
)  # fmt: skip


@settings(max_examples=60, deadline=None, database=None)
@given(matrices, st.data())
def test_a_set_is_of_the_free_cards_and_no_swap_of_one_card_has_better_links_and_leftovers(links, data):
    layout = build_link_layout(tuple(map(tuple, links)), (), (0,) * (len(links) // 2) + (1,) * len(links))
    free = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(links))), min_size=2))))
    count = data.draw(st.integers(1, len(free)))
    chosen = choose_linked_set(layout, free, count)
    assert len(chosen) == count and set(chosen) <= set(free) and list(chosen) == sorted(set(chosen))
    if count == 1 or count == len(free):
        return
    rest = tuple(set(free) - set(chosen))
    for old in chosen:
        for new in rest:
            other = tuple(sorted({*chosen, new} - {old}))
            better = layout.sum_scores(other) > layout.sum_scores(chosen)
            left_better = len(rest) < count and layout.sum_scores(tuple(set(free) - set(other))) >= layout.sum_scores(
                rest
            )
            assert not (better and left_better)


def linked(text: str, *wishes, layouts):
    snapshot = world(text, *wishes)
    snapshot.layouts = layouts
    return snapshot


def cards(snapshot) -> list[list[int]]:
    plan = run_cycle(snapshot, Policy(), 100.0)
    return [[card.gpu for task in start.tasks for card in task.cards] for start in plan.starts]


def test_a_job_of_two_cards_gets_a_pair_with_two_links():
    jobs = [wants("ada", "1"), wants("ada", "2"), wants("ada", "4"), wants("ada", "1")]
    assert cards(linked("n1: V100-32GBx8", *jobs, layouts=(A,))) == [[0], [2, 3], [4, 5, 6, 7], [1]]


def test_a_slice_goes_to_a_card_without_fast_links():
    """2 and 3 have no bridge, 0 and 1 have one."""
    snapshot = linked("n1: V100-32GBx4", wants("ada", "1/4"), wants("ada", "1/4"), layouts=(L,))
    assert cards(snapshot) == [[2], [2]]


def test_a_pair_goes_to_the_node_with_the_faster_links():
    snapshot = linked("n1: V100-32GBx4 | bob holds 2\nn2: V100-32GBx4", wants("ada", "2"), layouts=(L, L))
    assert cards(snapshot) == [[4, 5]]


def test_links_of_the_same_kind_do_not_open_an_empty_node():
    snapshot = linked("n1: V100-32GBx8\nn2: V100-32GBx8 | bob holds 4", wants("ada", "2"), layouts=(C, C))
    assert cards(snapshot) == [[12, 13]]


def test_a_node_whose_links_nobody_knows_gives_its_first_cards():
    assert cards(linked("n1: V100-32GBx4", wants("ada", "2"), layouts=(None,))) == [[0, 1]]
