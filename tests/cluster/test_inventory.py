"""The inventory writes what the runtime sees, and forgets nothing that was promised."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Gpu, Node, Pool
from cluster.nodes import cordon_card, uncordon_card
from events.models import Event
from events.record_and_publish import SYSTEM, Actor
from runtimes.contract.node import GpuView, HeldView, NodeView
from scheduler.inventory.nodes import convert_card, record_inventory

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


def test_a_broken_card_takes_nothing_new_and_the_others_stay():
    record_inventory([view(2)])
    whole = view(2)
    broken = replace(whole, gpus=(replace(whole.gpus[0], fault="It fell off the bus."), whole.gpus[1]))
    record_inventory([broken])
    record_inventory([broken])
    assert dict(Gpu.objects.values_list("uuid", "healthy")) == {"GPU-0": False, "GPU-1": True}
    assert Gpu.objects.get(uuid="GPU-0").fault == "It fell off the bus."
    (event,) = Event.objects.filter(verb="gpu.broken")
    assert event.params == {"gpu": "GPU-0", "why": "It fell off the bus.", "held": False}
    record_inventory([whole])
    assert Gpu.objects.get(uuid="GPU-0").healthy and Event.objects.filter(verb="gpu.sound").count() == 1


def test_a_closed_card_stays_so_beyond_its_fault_until_somebody_opens_it():
    whole = view(2)
    record_inventory([whole])
    broken = replace(whole, gpus=(replace(whole.gpus[0], fault="It fell off the bus."), whole.gpus[1]))
    rita = Actor("rita", 1)
    cordon_card(actor=rita, gpu=Gpu.objects.get(uuid="GPU-0"), why="too hot")
    for seen in (whole, broken, whole):
        record_inventory([seen])
        card = Gpu.objects.get(uuid="GPU-0")
        assert (card.healthy, card.why_out) == (False, seen.gpus[0].fault or "too hot")
    uncordon_card(actor=rita, gpu=card)
    record_inventory([whole])
    assert Gpu.objects.get(uuid="GPU-0").healthy
    events = Event.objects.filter(kind="node", verb__in=["gpu.broken", "gpu.sound"]).order_by("id")
    assert [(event.verb, event.actor) for event in events] == [("gpu.broken", "rita"), ("gpu.sound", "rita")]


def test_opening_a_card_that_is_broken_leaves_it_out_of_service():
    whole = view(2)
    broken = replace(whole, gpus=(replace(whole.gpus[0], fault="It fell off the bus."), whole.gpus[1]))
    record_inventory([broken])
    cordon_card(actor=SYSTEM, gpu=Gpu.objects.get(uuid="GPU-0"), why="too hot")
    uncordon_card(actor=SYSTEM, gpu=Gpu.objects.get(uuid="GPU-0"))
    assert not Gpu.objects.get(uuid="GPU-0").healthy
    record_inventory([whole])
    assert Gpu.objects.get(uuid="GPU-0").healthy


def test_a_card_that_falls_out_and_comes_back_moves_the_indices_of_the_others():
    whole = view(3)
    record_inventory([whole])
    rest = tuple(replace(gpu, index=gpu.index - 1) for gpu in whole.gpus[1:])
    record_inventory([replace(whole, gpus=rest)])
    assert list(Gpu.objects.present().order_by("index").values_list("uuid", "index")) == [("GPU-1", 0), ("GPU-2", 1)]
    record_inventory([whole])
    assert list(Gpu.objects.present().order_by("index").values_list("uuid", "index")) == [
        ("GPU-0", 0),
        ("GPU-1", 1),
        ("GPU-2", 2),
    ]


def test_a_machine_that_is_no_longer_there_takes_nothing_new():
    record_inventory([view(name="here"), view(name="gone", prefix="NEW")])
    record_inventory([view(name="here")])
    assert Node.objects.get(name="gone").state == "READY"  # a single list may be short of one
    Node.objects.update(last_seen_at=timezone.now() - timedelta(minutes=2))
    record_inventory([view(name="here")])
    assert set(Node.objects.values_list("name", "state")) == {("here", "READY"), ("gone", "NOT_READY")}
    record_inventory([view(name="here"), view(name="gone", prefix="NEW")])
    assert Node.objects.get(name="gone").state == "READY"


def test_what_did_not_change_costs_few_statements_however_many_machines(django_assert_max_num_queries):
    views = [view(8, name=f"n{number}", prefix=f"GPU-{number}") for number in range(20)]
    record_inventory(views)
    seen_at = Node.objects.get(name="n7").last_seen_at
    with django_assert_max_num_queries(14):
        nodes = record_inventory(views)
    assert [node.name for node in nodes] == sorted(each.name for each in views)
    assert Node.objects.get(name="n7").last_seen_at >= seen_at


@pytest.mark.parametrize(
    "change",
    [
        {"address": "127.0.0.2"},
        {"boot_id": "another"},
        {"memory_mib": 1},
        {"ready": False},
        {"facts": {}},
        {"gpus": ()},
        {"held": (HeldView("image", "img", 7),)},
    ],
)
def test_whatever_changes_of_one_machine_is_written(change):
    record_inventory([view(), view(name="other", prefix="OTHER")])
    now = replace(view(), **change)
    record_inventory([now, view(name="other", prefix="OTHER")])
    node = Node.objects.get(name="here")
    cards = [convert_card(gpu) for gpu in node.gpus.present().order_by("index")]
    held = tuple(HeldView(row.kind, row.key, row.bytes) for row in node.cached.all()) or None
    assert (node.address, node.boot_id, node.memory_mib, node.facts) == (
        now.address, now.boot_id, now.memory_mib, now.facts,
    )  # fmt: skip
    assert (node.state == "READY", tuple(cards), held) == (now.ready, now.gpus, now.held)


def test_a_card_that_breaks_is_out_of_service_though_its_machine_did_not_change():
    record_inventory([view()])
    broken = replace(view().gpus[1], fault="fell off the bus")
    record_inventory([replace(view(), gpus=(view().gpus[0], broken))])
    assert set(Gpu.objects.values_list("index", "healthy")) == {(0, True), (1, False)}
