"""From the links that a node reports to the cards that a task is given: inventory, snapshot, cycle, commit."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from cluster.models import Gpu, Node, Pool
from events.models import Event
from quotas.models import Holding
from runtimes.local.runtime import LocalRuntime
from scheduler import tasks
from scheduler.inventory.nodes import record_inventory
from scheduler.loading.snapshots import build_node_layout
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def train(tmp_path) -> Pool:
    """The pool of all eight cards of a simulated DGX-1, in which ada's team has quota."""
    runtime = LocalRuntime(tmp_path / "data", tmp_path / "logs", tmp_path / "run", "DGX-1V", node_name="here")
    record_inventory(runtime.list_nodes())
    train = Pool.objects.get(name="train")
    Gpu.objects.update(pool=train)
    Node.objects.update(cpu_milli=64_000, memory_mib=262_144)
    make.user("ada", make.team("nlp"))
    make.quota(make.team("nlp"), train)
    return train


def started(**spec) -> list[int]:
    """The indices of the cards that a new job of ada's gets at once."""
    ada = make.User.objects.get(username="ada")
    job = make.job(ada, pool="train", cpu="100m", memory="128MiB", **spec)
    tasks.cycle()
    return [card["index"] for card in job.newest_tasks.get().cards]


def test_a_pair_then_a_quad_get_the_cards_with_the_most_links(train):
    assert started(gpu=2) == [2, 3]
    assert started(gpu=4) == [4, 5, 6, 7]
    assert started(gpu=1) == [0]


def test_the_cpu_of_a_task_is_held_near_its_cards(train):
    started(gpu=4)
    started(gpu=4)
    cpu = Holding.objects.filter(gpu=None).order_by("pk")
    assert [row.numa for row in cpu] == [0, 1]


def test_the_numa_nodes_of_its_cards_are_told_in_the_tasks_history(train):
    started(gpu=4)
    started(gpu=1)
    assert started(gpu=3) == [5, 6, 7]
    Holding.objects.live().release()
    started(gpu=5)
    told = Event.objects.filter(params__has_key="numa").order_by("pk")
    assert [event.params["numa"] for event in told] == [[0], [1], [1], [0, 1]]
    cpu = Holding.objects.live().filter(gpu=None).order_by("pk")
    assert [(row.numa, row.cpu_milli, row.memory_mib) for row in cpu] == [(0, 80, 102), (1, 20, 26)]


def test_a_dump_of_the_snapshot_has_the_links(train):
    out = StringIO()
    call_command("dump_snapshot", stdout=out)
    assert json.loads(out.getvalue())["snapshot"]["layouts"][0]["pair"][2][3] == 250


def layout_of(node: Node, gpus: list[Gpu]):
    cards = tuple((gpu.index, gpu.numa) for gpu in gpus)
    return build_node_layout(json.dumps(node.topology), json.dumps(node.numa), cards)


def test_rows_in_another_order_than_the_cards_are_read_by_index(train):
    node, gpus = Node.objects.get(), list(Gpu.objects.order_by("index"))
    assert layout_of(node, gpus[::-1]).pair[0][1] == layout_of(node, gpus).pair[7][6] == 250


def test_a_matrix_that_does_not_match_the_cards_is_not_believed(train):
    assert layout_of(Node.objects.get(), list(Gpu.objects.all())[:7]) is None
