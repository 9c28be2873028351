"""Machines whose agents fall silent: they are suspect, and take nothing new. What runs there is presumed to go on."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max

from cluster.models import Agent, Node, NodeState
from common.locks import database_now, lock_rows
from events.record_and_publish import SYSTEM, hint
from events.transitions import Move, advance
from monitoring.models import CardNow

SUSPECT_AFTER = timedelta(seconds=60)


@transaction.atomic
def mark_silent_nodes() -> None:
    """Make ready machines suspect whose agent is silent, and suspect ones ready whose agent is heard again."""
    silent = find_silent(load_heard(), database_now())
    if silent is None:
        return
    ready = Node.objects.present().filter(state=NodeState.READY, name__in=silent)
    _move(lock_rows(ready), NodeState.SUSPECT)
    _move(lock_rows(Node.objects.present().filter(state=NodeState.SUSPECT).exclude(name__in=silent)), NodeState.READY)


def load_heard() -> dict[str, datetime]:
    """Return when each agent was last heard: by its report, or by samples of its cards, which come more often."""
    rows = Agent.objects.filter(revoked_at=None, reported_at__isnull=False)
    heard = {name: at for name, at in rows.values_list("node_name", "reported_at") if at is not None}
    sampled = CardNow.objects.filter(gpu__node__name__in=heard, gpu__removed_at=None).order_by()
    for name, at in sampled.values_list("gpu__node__name").annotate(at=Max("at")):
        heard[name] = max(heard[name], at)
    return heard


def find_silent(heard: dict[str, datetime], now: datetime) -> set[str] | None:
    """Return whose agents are silent. None if it is all of several: then it is the platform that heard nobody."""
    silent = {name for name, at in heard.items() if now - at > SUSPECT_AFTER}
    return None if len(heard) > 1 and silent == heard.keys() else silent


def _move(nodes: Iterable[Node], state: NodeState) -> None:
    for node in nodes:
        advance([Move(node)], state, actor=SYSTEM)
        hint("cycle")
