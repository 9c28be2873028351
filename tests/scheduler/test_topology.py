"""From the links that a node reports to the cards that a task is given: inventory, snapshot, cycle, commit."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import call_command

from cluster.models import Gpu, Node, Pool
from events.models import Event
from jobs.models import Job
from quotas.models import Holding
from runtimes.contract.node import HcaView, NodeView, NumaView
from runtimes.environment import build_task_environment
from runtimes.local.runtime import LocalRuntime
from scheduler import tasks
from scheduler.inventory.nodes import convert_card, record_inventory
from scheduler.loading.snapshots import build_node_layout
from scheduler.reconcile.task_specs import build_task_spec
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


@pytest.fixture
def with_adapters(train):
    """The DGX-1 with an adapter beside cards 6 and 7, and one without a link beside cards 0 and 1."""

    def adapter(name: str, active: bool, near: dict[int, str]) -> HcaView:
        return HcaView(name, "", 0, "InfiniBand", 100, active, tuple(near.get(card, "SYS") for card in range(8)))

    hcas = adapter("mlx5_0", True, {6: "PIX", 7: "PXB"}), adapter("mlx5_1", False, {0: "PIX", 1: "PIX"})
    (node,) = Node.objects.all()
    runtime_view = NodeView(
        name=node.name,
        address=node.address,
        boot_id=node.boot_id,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        numa=tuple(NumaView(n["id"], tuple(n["cpus"]), n["memory_mib"], n["socket"]) for n in node.numa),
        gpus=tuple(convert_card(gpu) for gpu in node.gpus.order_by("index")),
        links=tuple(map(tuple, node.topology["links"])),
        pcie=tuple(map(tuple, node.topology["pcie"])),
        facts=node.facts,
        hcas=hcas,
    )
    record_inventory([runtime_view])
    return train


def test_a_task_with_rdma_gets_the_card_beside_the_adapter_and_nccl_its_name(with_adapters):
    assert started(gpu=1, rdma=True) == [6] and started(gpu=1) == [7]
    spec = build_task_spec(Job.objects.earliest("pk").newest_tasks.get())
    assert spec.hcas == ("mlx5_0",) and build_task_environment(spec, "/x", {}, {})["NCCL_IB_HCA"] == "=mlx5_0"
    own = replace(spec, env={"NCCL_IB_HCA": "mlx5"})
    assert build_task_environment(own, "/x", {}, {})["NCCL_IB_HCA"] == "mlx5"
    other = build_task_spec(Job.objects.latest("pk").newest_tasks.get())
    assert other.hcas is None and "NCCL_IB_HCA" not in build_task_environment(other, "/x", {}, {})


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
