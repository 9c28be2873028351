"""The inventory writes what the runtime sees, and forgets nothing that was promised."""

import pytest

from cluster.models import Gpu, Node, Pool
from events.models import Event
from runtimes.base import GpuView, NodeView
from scheduler.inventory import record_inventory

pytestmark = pytest.mark.django_db


def view(cards: int = 2, name: str = "here", ready: bool = True, prefix: str = "GPU") -> NodeView:
    gpus = tuple(
        GpuView(
            f"{prefix}-{n}", n, "V100-32GB", "Tesla V100", 32_768, 258, None, "", True, "simulated", "no NVIDIA driver"
        )
        for n in range(cards)
    )
    return NodeView(name, "127.0.0.1", "boot", 4_000, 16_384, (), gpus, (), ready, {"isolation": "own uid"})


def test_half_of_the_cards_are_cut_and_half_stay_whole():
    record_inventory([view(4)])
    assert list(Gpu.objects.order_by("index").values_list("pool__name", flat=True)) == ["dev", "dev", "train", "train"]
    assert Pool.objects.get(name="dev").slices_per_gpu == 8 and Pool.objects.get(name="train").slices_per_gpu == 1


def test_with_one_card_only_dev_exists():
    record_inventory([view(1)])
    assert list(Pool.objects.values_list("name", flat=True)) == ["dev"]


def test_taking_it_again_changes_no_pool():
    record_inventory([view(2)])
    train = Pool.objects.get(name="train")
    Gpu.objects.update(pool=train, margin_mib=100)
    record_inventory([view(2)])
    assert set(Gpu.objects.values_list("pool__name", "margin_mib")) == {("train", 100)}
    assert Event.objects.filter(verb="gpu.added").count() == 2


def test_a_card_that_is_gone_is_out_of_service_and_comes_back():
    record_inventory([view(2)])
    record_inventory([view(1)])
    assert not Gpu.objects.present().filter(uuid="GPU-1").exists()
    record_inventory([view(2)])
    assert Gpu.objects.present().get(uuid="GPU-1").healthy


def test_other_cards_in_the_same_slots_are_other_cards():
    record_inventory([view(2)])
    record_inventory([view(2, prefix="NEW")])
    assert Gpu.objects.present().count() == 2 and Gpu.objects.count() == 4


def test_a_cordon_stays_and_an_ill_node_gets_well():
    record_inventory([view()])
    Node.objects.filter(name="here").update(state="CORDONED")
    record_inventory([view(ready=False)])
    assert Node.objects.get().state == "CORDONED"
    Node.objects.filter(name="here").update(state="READY")
    record_inventory([view(ready=False)])
    assert Node.objects.get().state == "NOT_READY"
    record_inventory([view()])
    assert Node.objects.get().state == "READY"
