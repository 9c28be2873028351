"""What rules do to machines and jobs: after those whom it touches were told, so much an hour, undone by one button."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import User
from accounts.permissions import require
from cluster.models import OUT_OF_SERVICE, Gpu, Node
from cluster.nodes import cordon_card, cordon_node, drain_node, uncordon_card, uncordon_node
from common.errors import Conflict
from common.locks import lock_rows
from events.record_and_publish import Actor, record
from jobs.models import Task
from monitoring.alerts.stopping import ALERTS, WARNING, follow_warnings, stop_or_warn, take_back
from monitoring.models import Action, Alert, AlertState
from quotas.models import Holding

WITHIN = timedelta(hours=1)
MOST = 2
"""Machines, cards, and jobs."""
MOST_CARDS = 0.1
"""Of the cards of each pool."""
DOES = {Action.CORDON: cordon_node, Action.DRAIN: drain_node}


@dataclass(frozen=True)
class Bounds:
    """acted: machines, cards or jobs, of the last hour. cards: of each, by pool. totals: of each pool."""

    acted: frozenset[int]
    cards: Mapping[int, Mapping[int, float]]
    totals: Mapping[int, int]


def choose_actions(alerts: Iterable[Alert], bounds: Bounds) -> tuple[list[Alert], list[Alert]]:
    """Return on which alerts to act, and for which to ask. Pure."""
    acts, asks, taken = [], [], set(bounds.acted)
    for alert in alerts:
        target = find_target(alert)
        if target is None or alert.told_at is None:
            continue
        if target in taken or _is_within({*taken, target}, bounds):
            taken.add(target)
            acts.append(alert)
        elif alert.acts != Alert.Acts.ASKS:
            asks.append(alert)
    return acts, asks


def find_target(alert: Alert) -> int | None:
    """Return the machine, the card or the job on which an alert would act."""
    return alert.subject_id if alert.rule.action in (Action.STOP, Action.DRAIN_CARD) else alert.node_id


def act_on_alerts() -> None:
    """Act on what fires and was told in a transaction before this one.

    A job of which somebody takes care, and one whose owner a warning did not reach, is left to people.
    """
    follow_warnings()
    waiting = Alert.objects.filter(state=AlertState.FIRING, acts__in=["", Alert.Acts.ASKS], told_at__isnull=False)
    alerts = waiting.exclude(rule__action="").select_related("rule", "node")
    if of_nodes := list(alerts.filter(rule__action__in=DOES, node__isnull=False)):
        _act_within(of_nodes, _load_bounds(timezone.now()))
    if of_cards := list(alerts.filter(rule__action=Action.DRAIN_CARD)):
        _act_within(of_cards, _load_card_bounds(timezone.now()))
    if jobs := list(alerts.filter(rule__action=Action.STOP, acts_at=None, acknowledged_at=None)):
        _act_within(jobs, _load_job_bounds(timezone.now(), {alert.subject_id for alert in jobs}))


def _act_within(alerts: Iterable[Alert], bounds: Bounds) -> None:
    acts, asks = choose_actions(alerts, bounds)
    for alert in acts:
        _act(alert, ALERTS)
    Alert.objects.filter(pk__in=[alert.pk for alert in asks], acts="").update(acts=Alert.Acts.ASKS)


def confirm_action(*, actor: User, alert: Alert) -> None:
    """Do what an alert asks for. Raises Conflict where it asks for nothing."""
    require(actor, "node.change")
    if not _act(alert, actor.as_actor, only=(Alert.Acts.ASKS,)):
        raise Conflict("alert_asks_nothing")


@transaction.atomic
def undo_action(*, actor: User, alert: Alert) -> None:
    """Take the machine or card back into service, call a stop off, or queue the job again.

    Raises Conflict where nothing was done.
    """
    require(actor, "node.change")
    (locked,) = lock_rows(Alert.objects.filter(pk=alert.pk).select_related("node", "rule"))
    if locked.rule.action == Action.STOP and locked.acts in (Alert.Acts.WARNED, Alert.Acts.DONE):
        take_back(locked, actor)
        return
    if locked.acts != Alert.Acts.DONE or locked.node is None:
        raise Conflict("alert_did_nothing")
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
    if locked.rule.action == Action.DRAIN_CARD:
        record(locked, "card_undone", actor=actor.as_actor, params={"card": locked.label})
        for gpu in Gpu.objects.filter(pk=locked.subject_id):
            uncordon_card(actor=actor.as_actor, gpu=gpu)
        return
    record(locked, "undone", actor=actor.as_actor, params={"node": locked.node.name})
    uncordon_node(actor=actor.as_actor, node=locked.node)


@transaction.atomic
def _act(alert: Alert, actor: Actor, only: tuple[str, ...] = ("", Alert.Acts.ASKS)) -> bool:
    """Act if nobody did yet. What is out of service already was taken out by a person, and is left to them."""
    (locked,) = lock_rows(Alert.objects.filter(pk=alert.pk).select_related("rule", "node"))
    if locked.acts not in only or locked.state != AlertState.FIRING:
        return False
    if locked.rule.action == Action.STOP:
        return stop_or_warn(locked, actor)
    if locked.rule.action == Action.DRAIN_CARD:
        return _drain_card(locked, actor)
    if locked.node is None:
        return False
    if locked.node.state in OUT_OF_SERVICE:
        Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
        return False
    DOES[Action(locked.rule.action)](actor=actor, node=locked.node, why=str(locked.rule))
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.DONE, acted_at=Now())
    record(locked, "acted", actor=actor, params={"node": locked.node.name, "action": locked.rule.action})
    return True


def _drain_card(alert: Alert, actor: Actor) -> bool:
    gpu = Gpu.objects.present().filter(pk=alert.subject_id).first()
    if gpu is None or gpu.closed:
        Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
        return False
    cordon_card(actor=actor, gpu=gpu, why=str(alert.rule))
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.DONE, acted_at=Now())
    record(alert, "card_drained", actor=actor, params={"card": alert.label})
    return True


def _is_within(targets: set[int], bounds: Bounds) -> bool:
    if len(targets) > MOST:
        return False
    out: dict[int, float] = defaultdict(float)
    for target in targets:
        for pool, cards in bounds.cards.get(target, {}).items():
            out[pool] += cards
    return all(cards <= MOST_CARDS * bounds.totals.get(pool, 0) for pool, cards in out.items())


def _load_bounds(now: datetime) -> Bounds:
    done = Alert.objects.filter(acted_at__gt=now - WITHIN, acts=Alert.Acts.DONE, rule__action__in=DOES)
    acted = frozenset(done.filter(node__isnull=False).values_list("node", flat=True))
    cards: dict[int, dict[int, float]] = defaultdict(dict)
    rows = Gpu.objects.present().values_list("node", "pool").annotate(cards=Count("pk")).order_by()
    for node, pool, count in rows:
        cards[node][pool] = count
    return Bounds(acted, cards, _count_cards())


def _load_card_bounds(now: datetime) -> Bounds:
    done = Alert.objects.filter(acted_at__gt=now - WITHIN, acts=Alert.Acts.DONE, rule__action=Action.DRAIN_CARD)
    cards = {pk: {pool: 1} for pk, pool in Gpu.objects.present().values_list("pk", "pool")}
    return Bounds(frozenset(done.values_list("subject_id", flat=True)), cards, _count_cards())


def _load_job_bounds(now: datetime, jobs: set[int]) -> Bounds:
    """Return what jobs hold; those that are warned, or were stopped within the last hour, with what they held."""
    recent = Alert.objects.filter(rule__action=Action.STOP, acts__in=[Alert.Acts.WARNED, Alert.Acts.DONE])
    acted = frozenset(recent.filter(acts_at__gt=now - WITHIN).values_list("subject_id", flat=True))
    job_of = dict(Task.objects.filter(job__in=jobs | acted).values_list("uuid", "job"))
    held = Holding.objects.exclude(released_at__lt=now - WITHIN - WARNING).filter(task__in=job_of, gpu__isnull=False)
    cards: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for task, pool, milli in held.values_list("task", "pool", "gpu_milli"):
        cards[job_of[task]][pool] += milli / 1000
    return Bounds(acted, cards, _count_cards())


def _count_cards() -> dict[int, int]:
    return dict(Gpu.objects.present().values_list("pool").annotate(cards=Count("pk")).order_by())


def list_acted_nodes() -> list[Node]:
    """Return the machines that alerts took out of service and nobody took back."""
    pks = Alert.objects.filter(acts=Alert.Acts.DONE, rule__action__in=DOES).values("node")
    return list(Node.objects.present().filter(pk__in=pks, state__in=OUT_OF_SERVICE))
