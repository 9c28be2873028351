"""What machines say of their health: kept as it is now, with its history. It informs people; nothing is done by it."""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from cluster.models import Agent, Gpu, Node
from monitoring.models import CheckState, NodeCheck, NodeCheckChange
from monitoring.samples.wire import Checked

HISTORY_KEPT = timedelta(days=365)
HEARD_FOR = timedelta(minutes=5)
"""An older word says nothing of now."""
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
WORST_FIRST = (CheckState.FAIL, CheckState.WARN, CheckState.UNKNOWN, CheckState.OK)


def store_checks(node: Node, told: Sequence[Checked]) -> None:
    """Store all checks of a machine, and that of its agent, which only we can make. What is not told any more is gone;
    a card of another machine is ignored.
    """
    versions = Agent.objects.filter(node_name=node.name).values_list("report__agent", flat=True)
    told = [*told, *(check_version(str(version or ""), settings.TESSERA_VERSION) for version in versions)]
    cards = {"", *Gpu.objects.present().filter(node=node).values_list("uuid", flat=True)}
    fresh = {(one.card, one.name): one for one in told if one.card in cards}
    with transaction.atomic():
        known = {(row.card, row.name): row for row in NodeCheck.objects.select_for_update().filter(node=node)}
        changed = [one for key, one in fresh.items() if _says_else(known.get(key), one)]
        NodeCheck.objects.filter(pk__in=[row.pk for key, row in known.items() if key not in fresh]).delete()
        NodeCheck.objects.filter(node=node).update(seen_at=Now())
        for one in changed:
            _store(node, known.get((one.card, one.name)), one)


def check_version(agent: str, platform: str) -> Checked:
    """Judge an agent's version: an older one misses what the platform has learnt since."""
    told, own = VERSION.match(agent), VERSION.match(platform)
    if told is None or own is None:
        return Checked("agent_old", "", CheckState.UNKNOWN, "The agent does not tell its version.", 0)
    if tuple(map(int, told.groups())) >= tuple(map(int, own.groups())):
        return Checked("agent_old", "", CheckState.OK, "", 0)
    words = f"The agent is of version {agent[:20]}, and the platform of {platform}. Install the newer agent."
    return Checked("agent_old", "", CheckState.WARN, words, 0)


def list_checks(node: Node) -> list[NodeCheck]:
    """Return a machine's checks, failing ones first; those that nobody has told lately are unknown."""
    return _read(NodeCheck.objects.filter(node=node))


def list_wrong_checks() -> list[NodeCheck]:
    """Return what fails or warns on any machine, failing first."""
    rows = NodeCheck.objects.filter(node__removed_at=None, state__in=[CheckState.FAIL, CheckState.WARN])
    return _read(rows.select_related("node"))


def list_changes(node: Node, most: int) -> list[NodeCheckChange]:
    """Return the newest changes of a machine's checks."""
    return list(NodeCheckChange.objects.filter(node=node)[:most])


def drop_old_changes() -> None:
    NodeCheckChange.objects.filter(at__lt=Now() - HISTORY_KEPT).delete()


def _says_else(row: NodeCheck | None, one: Checked) -> bool:
    return row is None or (row.state, row.words, row.count) != (one.state, one.words, one.count)


def _store(node: Node, row: NodeCheck | None, one: Checked) -> None:
    """Store a check that says something else; only another state begins anew and is history."""
    said = {"state": one.state, "words": one.words, "count": one.count}
    turned = row is None or row.state != one.state
    since = {"since": Now()} if row is not None and turned else {}
    NodeCheck.objects.update_or_create(node=node, card=one.card, name=one.name, defaults=said | since)
    if turned and not (row is None and one.state in (CheckState.OK, CheckState.UNKNOWN)):
        NodeCheckChange.objects.create(node=node, card=one.card, name=one.name, **said)


def _read(rows: QuerySet[NodeCheck]) -> list[NodeCheck]:
    """Read rows; none if their table is broken, as no page may fail for want of them."""
    try:
        with transaction.atomic():
            return sort_checks(rows.filter(seen_at__gt=Now() - HEARD_FOR))
    except DatabaseError:
        return []


def sort_checks(checks: Iterable[NodeCheck]) -> list[NodeCheck]:
    return sorted(checks, key=lambda one: (WORST_FIRST.index(CheckState(one.state)), one.name, one.card))
