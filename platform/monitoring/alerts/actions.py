"""What rules do to machines: after everybody whom it touches was told, so much an hour, and undone by one button."""

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
from cluster.nodes import cordon_node, drain_node, uncordon_node
from common.errors import Conflict
from common.locks import lock_rows
from events.record_and_publish import Actor, record
from monitoring.models import Action, Alert, AlertState

ALERTS = Actor("alerts")
WITHIN = timedelta(hours=1)
MOST_NODES = 2
MOST_CARDS = 0.1
"""Of the cards of each pool."""
DOES = {Action.CORDON: cordon_node, Action.DRAIN: drain_node}


@dataclass(frozen=True)
class Bounds:
    """acted: machines of the last hour. cards: of each machine, by pool. totals: of each pool."""

    acted: frozenset[int]
    cards: Mapping[int, Mapping[int, int]]
    totals: Mapping[int, int]


def choose_actions(alerts: Iterable[Alert], bounds: Bounds) -> tuple[list[Alert], list[Alert]]:
    """Return on which alerts to act, and for which to ask. Pure."""
    acts, asks, taken = [], [], set(bounds.acted)
    for alert in alerts:
        if alert.node_id is None or alert.told_at is None:
            continue
        if alert.node_id in taken or _is_within({*taken, alert.node_id}, bounds):
            taken.add(alert.node_id)
            acts.append(alert)
        elif alert.acts != Alert.Acts.ASKS:
            asks.append(alert)
    return acts, asks


def act_on_alerts() -> None:
    """Act on what fires and was told in a transaction before this one."""
    waiting = Alert.objects.filter(state=AlertState.FIRING, acts__in=["", Alert.Acts.ASKS], told_at__isnull=False)
    alerts = list(waiting.exclude(rule__action="").filter(node__isnull=False).select_related("rule", "node"))
    if not alerts:
        return
    acts, asks = choose_actions(alerts, _load_bounds(timezone.now()))
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
    """Take the machine back into service. Raises Conflict where nothing was done."""
    require(actor, "node.change")
    (locked,) = lock_rows(Alert.objects.filter(pk=alert.pk).select_related("node"))
    if locked.acts != Alert.Acts.DONE or locked.node is None:
        raise Conflict("alert_did_nothing")
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
    record(locked, "undone", actor=actor.as_actor, params={"node": locked.node.name})
    uncordon_node(actor=actor.as_actor, node=locked.node)


@transaction.atomic
def _act(alert: Alert, actor: Actor, only: tuple[str, ...] = ("", Alert.Acts.ASKS)) -> bool:
    """Act if nobody did yet. What is out of service already was taken out by a person, and is left to them."""
    (locked,) = lock_rows(Alert.objects.filter(pk=alert.pk).select_related("rule", "node"))
    if locked.acts not in only or locked.state != AlertState.FIRING or locked.node is None:
        return False
    if locked.node.state in OUT_OF_SERVICE:
        Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.UNDONE)
        return False
    DOES[Action(locked.rule.action)](actor=actor, node=locked.node, why=str(locked.rule))
    Alert.objects.filter(pk=alert.pk).update(acts=Alert.Acts.DONE, acted_at=Now())
    record(locked, "acted", actor=actor, params={"node": locked.node.name, "action": locked.rule.action})
    return True


def _is_within(nodes: set[int], bounds: Bounds) -> bool:
    if len(nodes) > MOST_NODES:
        return False
    out: dict[int, int] = defaultdict(int)
    for node in nodes:
        for pool, cards in bounds.cards.get(node, {}).items():
            out[pool] += cards
    return all(cards <= MOST_CARDS * bounds.totals.get(pool, 0) for pool, cards in out.items())


def _load_bounds(now: datetime) -> Bounds:
    acted = Alert.objects.filter(acted_at__gt=now - WITHIN, acts=Alert.Acts.DONE, node__isnull=False)
    cards: dict[int, dict[int, int]] = defaultdict(dict)
    totals: dict[int, int] = defaultdict(int)
    rows = Gpu.objects.present().values_list("node", "pool").annotate(cards=Count("pk")).order_by()
    for node, pool, count in rows:
        cards[node][pool] = count
        totals[pool] += count
    return Bounds(frozenset(acted.values_list("node", flat=True)), cards, totals)


def list_acted_nodes() -> list[Node]:
    """Return the machines that alerts took out of service and nobody took back."""
    pks = Alert.objects.filter(acts=Alert.Acts.DONE).values("node")
    return list(Node.objects.present().filter(pk__in=pks, state__in=OUT_OF_SERVICE))
