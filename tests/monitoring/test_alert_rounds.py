"""Rounds of the alert engine in the database: states, events, notices, deliveries and actions."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Gpu, Node
from common.errors import Conflict
from events.models import Event, Notice
from monitoring.alerts.actions import confirm_action, undo_action
from monitoring.alerts.round import judge_alerts
from monitoring.models import Alert, AlertRound, AlertRule, CardNow, NodeCheck, Silence
from scheduler.loading.snapshots import load_world
from tests import make
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    cast = make.cast()
    cast.rita = make.admin()
    cast.card = cast.gpus[0]
    cast.task = make.start(make.job(cast.ada, gpu="1/4"), cast.card)[0]
    judge_alerts({})
    AlertRule.objects.exclude(code="gpu_hot").update(enabled=False)
    AlertRule.objects.filter(code="gpu_hot").update(for_s=0, clear_for_s=0, audience=["owner", "admin"])
    return cast


def load_open() -> dict[int, bool]:
    """On which cards the scheduler would start something."""
    world = load_world()
    return {gpu.pk: bool(is_open) for gpu, is_open in zip(world.gpus, world.snapshot.gpu_open, strict=True)}


def heat(world, celsius):
    now = {"at": timezone.now(), "term": 1, "up_ms": 1, "source": "measured", "temperature_c": celsius}
    CardNow.objects.update_or_create(gpu=world.card, defaults=now)
    judge_alerts({})


def test_an_alert_fires_is_told_once_and_ends(world):
    hook = make.webhook(world.rita, None, "alert")
    heat(world, 90)
    (alert,) = Alert.objects.all()
    assert (alert.state, alert.value, alert.label, alert.owners) == ("FIRING", 90, "n1:0", [world.ada.pk])
    notices = Notice.objects.filter(kind="alert")
    assert set(notices.values_list("user_id", flat=True)) == {world.ada.pk, world.rita.pk}
    heat(world, 91)
    assert notices.count() == 2
    heat(world, 60)
    assert set(Notice.objects.filter(kind="alert_ended").values_list("user_id", flat=True)) == {
        world.ada.pk,
        world.rita.pk,
    }
    events = Event.objects.filter(kind="alert", verb="state").order_by("seq")
    assert [event.type for event in events] == ["alert.firing", "alert.resolved"]
    assert [row.data["status"] for row in Delivery.objects.filter(webhook=hook).order_by("pk")] == [
        "firing",
        "resolved",
    ]
    assert AlertRound.objects.get().counts[str(alert.rule_id)] == [2, 1]


def test_a_team_hears_of_what_touches_its_work_alone(world):
    mine, other = (
        make.webhook(world.bob, world.nlp),
        make.webhook(make.user("dan", world.vision, role="lead"), world.vision),
    )
    heat(world, 90)
    assert mine.deliveries.count() == 1 and not other.deliveries.exists()
    assert str(world.ada) not in str(mine.deliveries.get().data)


def test_a_silence_keeps_quiet_until_it_ends(world):
    until = timezone.now() + timedelta(hours=1)
    quiet = Silence.objects.create(
        user_id=world.rita.pk, made_by="rita", for_all=True, label="n1:*", reason="x", until=until
    )
    heat(world, 90)
    assert Alert.objects.get().state == "FIRING" and not Notice.objects.filter(kind="alert").exists()
    Silence.objects.filter(pk=quiet.pk).update(until=timezone.now())
    heat(world, 90)
    assert Notice.objects.filter(kind="alert").count() == 2


def test_a_rule_drains_a_machine_only_after_the_notice_and_one_click_undoes_it(world):
    AlertRule.objects.filter(code="gpu_hot").update(action="drain_node")
    for number in range(2, 14):  # a tenth of the pool's cards is more than this machine has
        make.gpu(make.node(f"n{number}", pool=world.dev), pool=world.dev)
        make.gpu(make.node(f"t{number}", pool=world.train), pool=world.train)
    silence = {"user_id": world.rita.pk, "made_by": "rita", "for_all": True, "severity": "warning", "reason": "x"}
    quiet = Silence.objects.create(**silence, until=timezone.now() + timedelta(hours=1))
    heat(world, 90)
    world.node.refresh_from_db()
    assert world.node.state == "READY"
    quiet.delete()
    heat(world, 90)
    world.node.refresh_from_db()
    assert world.node.state == "DRAINING"
    alert = Alert.objects.get()
    undo_action(actor=world.rita, alert=alert)
    world.node.refresh_from_db()
    assert world.node.state == "READY"
    heat(world, 90)
    world.node.refresh_from_db()
    assert world.node.state == "READY"  # what a person undid stays so
    with pytest.raises(Conflict):
        undo_action(actor=world.rita, alert=alert)


def test_a_rule_keeps_a_card_from_new_work_until_somebody_takes_it_back(world):
    AlertRule.objects.filter(code="gpu_hot").update(action="drain_card")
    for number in range(2, 14):
        make.gpu(make.node(f"n{number}", pool=world.dev), pool=world.dev)
    heat(world, 90)
    alert = Alert.objects.get()
    world.card.refresh_from_db()
    assert (alert.acts, world.card.healthy, world.card.why_out) == ("done", False, "GPU too hot")
    opened = load_open()
    assert opened.pop(world.card.pk) is False and len(opened) > 10 and all(opened.values())
    world.task.refresh_from_db()
    world.node.refresh_from_db()
    assert (world.task.state, world.node.state) == ("RUNNING", "READY")
    heat(world, 60)
    world.card.refresh_from_db()
    assert not world.card.healthy
    undo_action(actor=world.rita, alert=alert)
    world.card.refresh_from_db()
    assert world.card.healthy and all(load_open().values())
    with pytest.raises(Conflict):
        undo_action(actor=world.rita, alert=alert)


def test_a_card_that_is_more_than_a_tenth_of_its_pool_is_asked_about(world):
    AlertRule.objects.filter(code="gpu_hot").update(action="drain_card")
    heat(world, 90)
    world.card.refresh_from_db()
    assert (world.card.healthy, Alert.objects.get().acts) == (True, "asks")
    confirm_action(actor=world.rita, alert=Alert.objects.get())
    world.card.refresh_from_db()
    assert not world.card.healthy


def test_an_action_beyond_its_bounds_asks(world):
    AlertRule.objects.filter(code="gpu_hot").update(action="cordon_node")
    heat(world, 90)
    world.node.refresh_from_db()
    assert (world.node.state, Alert.objects.get().acts) == ("READY", "asks")


def test_every_metric_is_read(world):
    wanted = {"node_lost", "low_activity", "queue_age", "starved_team", "disk_full", "scheduler_stalled"}
    AlertRule.objects.filter(code__in=wanted).update(enabled=True, for_s=0)
    AlertRule.objects.create(
        subject="task", metric="memory_percent", comparison="above", threshold=1, audience=["admin"]
    )
    AlertRule.objects.create(subject="pool", metric="waiting_jobs", comparison="above", threshold=0, audience=["admin"])
    make.quota(make.team("poor"), world.dev, gpu_milli_guarantee=1000)
    AlertRule.objects.filter(code="disk_full").update(threshold=0.1)
    make.job(world.ada, gpu="1", pool="train")
    judge_alerts({"scheduler_silent_s": 300})
    fired = set(Alert.objects.filter(state="FIRING").values_list("rule__code", flat=True))
    assert "scheduler_stalled" in fired and "disk_full" in fired
    assert Alert.objects.filter(rule__metric="waiting_jobs", rule__subject="pool").exists()
    counts = AlertRound.objects.get().counts
    assert len(counts) == 9 and counts[str(AlertRule.objects.get(metric="memory_percent").pk)] == [1, 1]


def test_a_rule_looks_at_a_health_check_by_its_name(world):
    AlertRule.objects.filter(code__in=["external_process", "node_disk"]).update(enabled=True, for_s=0)
    check = {"node": world.node, "seen_at": timezone.now()}
    NodeCheck.objects.create(**check, card=world.card.uuid, name="gpu_external_process", state="warn")
    disk = NodeCheck.objects.create(**check, name="disk_full", state="unknown")
    judge_alerts({})
    assert set(Alert.objects.values_list("rule__code", "label", "value")) == {("external_process", "n1:0", 1)}
    NodeCheck.objects.filter(pk=disk.pk).update(state="fail")
    judge_alerts({})
    assert Alert.objects.filter(rule__code="node_disk", label="n1", state="FIRING").exists()
    NodeCheck.objects.update(seen_at=timezone.now() - timedelta(minutes=6))
    judge_alerts({})
    assert set(Alert.objects.values_list("state", flat=True)) == {"NO_DATA"}


@pytest.mark.slow
def test_ten_thousand_cards_are_judged_in_a_round(world):
    """Reading, judging and writing, with a tenth of a percent that begins to hold."""
    nodes = Node.objects.bulk_create(
        Node(name=f"many{number}", pool=world.dev, cpu_milli=1000, memory_mib=1024) for number in range(1250)
    )
    cards = Gpu.objects.bulk_create(
        Gpu(uuid=f"GPU-{node.pk}-{index}", node=node, pool=world.dev, index=index, model="V100", memory_mib=32_768)
        for node in nodes
        for index in range(8)
    )
    now = {"at": timezone.now(), "term": 1, "up_ms": 1, "source": "measured"}
    CardNow.objects.bulk_create(
        CardNow(gpu=card, temperature_c=90 if place % 1000 == 0 else 60, **now) for place, card in enumerate(cards)
    )
    began = time.perf_counter()
    judge_alerts({})
    took = time.perf_counter() - began
    print(f"10,000 cards judged in the database: {took:.2f} s")
    assert Alert.objects.filter(state="FIRING").count() == 10 and took < 10
