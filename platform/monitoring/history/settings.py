"""What pools, quotas, limits, windows and machines were at the beginning of a history, and their changes since. Pure.

Rows say what is so today; events, newest first, are taken back from them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from cluster.models import Gpu, Node, NodeState, Pool, Window
from cluster.services import POLICY, WINDOW
from events.models import Event
from monitoring.history.file_format import (
    ChangeLine,
    LimitLine,
    MachineLine,
    MaintenanceLine,
    PoolLine,
    QuotaLine,
    WindowLine,
)
from monitoring.history.names import Names
from quotas.models import QUOTA_FIELDS, Quota, UserLimit

Key = tuple[str, ...]
Values = dict[str, Any]
UNDONE: dict[str, Any] = {"gpu.broken": True, "gpu.sound": False, "gpu.gone": True, "gpu.added": None}
"""{what happened to a card: whether it was in service until then, None: it was not there}"""
DONE = {"gpu.broken": False, "gpu.sound": True, "gpu.gone": False, "gpu.added": True}


class Settings:
    """Rows of one kind: what they are today, from which `undo` finds what they were and what changed.

    Each event is (at, key, values before or None, values after or None), the values those that changed.
    """

    def __init__(self, of: str, today: Mapping[Key, Values]):
        self.of = of
        self.at_begin: dict[Key, Values | None] = {key: dict(values) for key, values in today.items()}

    def undo(self, events: Sequence[tuple[float, Key, Values | None, Values | None]]) -> list[ChangeLine]:
        """Take events back, given in order of time; return them as changes."""
        changes = []
        for at, key, before, after in reversed(events):
            whole = self.at_begin.get(key)
            if after is not None and before is not None:
                changes.append(ChangeLine(at, self.of, list(key), dict(after)))
                self.at_begin[key] = {**(whole or {}), **before}
            elif after is None:
                changes.append(ChangeLine(at, self.of, list(key), None))
                self.at_begin[key] = before
            else:
                changes.append(ChangeLine(at, self.of, list(key), {**after, **(whole or {})}))
                self.at_begin[key] = None
        return changes[::-1]

    def there(self) -> Iterator[tuple[Key, Values]]:
        """Yield what was there at the beginning."""
        return ((key, values) for key, values in self.at_begin.items() if values is not None)


def describe_pools(
    pools: Iterable[Pool], events: Iterable[Event], lengths_s: Mapping[int, Sequence[float]]
) -> tuple[list[PoolLine], list[ChangeLine]]:
    """events: of pools since the beginning. lengths_s: by pool. A pool made since is there from the beginning."""
    rows = list(pools)
    kept = Settings("pool", {(pool.name,): {name: getattr(pool, name) for name in POLICY} for pool in rows})
    told = [
        (event.at.timestamp(), (event.label,), _only(event.params["from"], POLICY), _only(event.params["to"], POLICY))
        for event in events
        if event.verb == "pool.changed"
    ]
    changes = [change for change in kept.undo(told) if change.values]
    lines = [
        PoolLine(pool.name, kept.at_begin[pool.name,] or {}, [round(s, 1) for s in lengths_s.get(pool.pk, ())])
        for pool in rows
    ]
    return lines, changes


def describe_quotas(
    quotas: Iterable[Quota], events: Iterable[Event], names: Names, pools: Iterable[str]
) -> tuple[list[QuotaLine], list[ChangeLine]]:
    """events: of quotas since the beginning. What names a team or pool that is gone is left out."""
    known = set(pools)
    today: dict[Key, Values] = {
        (names.team(quota.team_id), quota.pool.name): {name: getattr(quota, name) for name in QUOTA_FIELDS}
        for quota in quotas
    }
    kept, told = Settings("quota", today), []
    for event in events:
        team, _, pool = event.label.rpartition(" in ")
        if (pk := names.find_team(team)) is not None and pool in known and "to" in event.params:
            told.append((event.at.timestamp(), (names.team(pk), pool), *_before_and_after(event, QUOTA_FIELDS)))
    changes = kept.undo(told)
    return [QuotaLine(team, pool, values) for (team, pool), values in kept.there()], changes


def describe_limits(
    limits: Iterable[UserLimit], events: Iterable[Event], names: Names
) -> tuple[list[LimitLine], list[ChangeLine]]:
    """events: of people's limits since the beginning."""
    today: dict[Key, Values] = {
        (names.person(row.user_id),): {name: getattr(row, name) for name in UserLimit.FIELDS} for row in limits
    }
    kept, told = Settings("limit", today), []
    for event in events:
        pk = names.find_person(event.label)
        if pk is not None or event.label == "everyone":
            told.append((event.at.timestamp(), (names.person(pk),), *_before_and_after(event, UserLimit.FIELDS)))
    changes = kept.undo(told)
    return [LimitLine(person, values) for (person,), values in kept.there()], changes


def describe_windows(
    windows: Iterable[Window], events: Iterable[Event], pools: Iterable[str]
) -> tuple[list[WindowLine], list[ChangeLine]]:
    """events: of lending windows since the beginning. A window is known by its number."""
    today: dict[Key, Values] = {(str(row.pk),): {name: getattr(row, name) for name in WINDOW} for row in windows}
    kept, known = Settings("window", today), set(pools)
    told = [
        (event.at.timestamp(), (str(event.object_id),), *_before_and_after(event, WINDOW))
        for event in events
        if "to" in event.params
    ]
    changes = [_as_window(change) for change in kept.undo(told)]
    found = [(key, values) for key, values in kept.there() if {values["lender_name"], values["borrower_name"]} <= known]
    return [WindowLine(id=int(key[0]), **_window_words(values)) for key, values in found], changes


def describe_machines(
    nodes: Iterable[Node], cards: Mapping[int, Sequence[Gpu]], events: Sequence[Event], names: Names
) -> tuple[list[MachineLine], list[ChangeLine]]:
    """cards: {machine: its cards}. events: of machines and cards since the beginning, in order of time.

    Sizes and pools of machines are today's: changes of these are not kept.
    """
    lines, changes = [], []
    of: dict[int, list[Event]] = {}
    for event in events:
        of.setdefault(event.object_id, []).append(event)
    for node in nodes:
        name, own = names.machine(node.pk), of.get(node.pk, [])
        moves = [event for event in own if event.verb in ("state", "node.added")]
        state = node.state if not moves else "" if moves[0].verb == "node.added" else moves[0].from_state
        changes += [
            ChangeLine(event.at.timestamp(), "machine", [name], {"state": event.to_state or NodeState.READY.value})
            for event in moves
        ]
        if node.removed_at is not None:
            changes.append(ChangeLine(node.removed_at.timestamp(), "machine", [name], {"state": ""}))
        shown = []
        for card in cards.get(node.pk, ()):
            mine = [event for event in own if event.verb in UNDONE and event.params.get("gpu") == card.uuid]
            healthy = card.healthy if not mine else bool(UNDONE[mine[0].verb])
            changes += [
                ChangeLine(e.at.timestamp(), "card", [name, card.index], {"healthy": DONE[e.verb]}) for e in mine
            ]
            shown.append(_card(card, healthy))
        switch = names.word(node.known_switch)
        lines.append(MachineLine(name, node.pool.name, node.cpu_milli, node.memory_mib, state, shown, switch))
    return lines, changes


def describe_maintenances(
    rows: Iterable[tuple[Any, Iterable[int]]], planned: Iterable[Event], begins: float, names: Names
) -> Iterator[MaintenanceLine]:
    """rows: (maintenance, ids of its machines). planned: events in which one was planned, in order of time.

    One that was called off before it began leaves no row and is not told.
    """
    known: dict[tuple[int, str], Event] = {}
    for event in planned:
        known.setdefault((event.object_id, event.params.get("from", "")), event)
    for row, machines in rows:
        keys = [(pk, row.begins_at.isoformat()) for pk in machines]
        plans = [known[key] for key in keys if key in known]
        first = min(plans, key=lambda event: event.at, default=None)
        yield MaintenanceLine(
            first.at.timestamp() if first else begins,
            row.begins_at.timestamp(),
            max(_moment(first.params["until"]), row.ends_at.timestamp()) if first else row.ends_at.timestamp(),
            row.ends_at.timestamp(),
            [names.machine(pk) for pk in sorted(machines)],
            row.stops,
        )


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _card(card: Gpu, healthy: bool) -> dict:
    said = {name: getattr(card, name) for name in ("index", "model", "product")}
    sliceable = card.pool.accepts_watched_only or card.enforcement != "watchdog"
    return said | {
        "memory_mib": card.sellable_mib,
        "pool": card.pool.name,
        "sliceable": sliceable,
        "healthy": healthy,
    }


def _before_and_after(event: Event, names: Iterable[str]) -> tuple[Values | None, Values | None]:
    """Return the values that changed, None for before it was made and after it was deleted."""
    before, after = _only(event.params.get("from", {}), names), _only(event.params.get("to", {}), names)
    if event.verb.endswith(".made"):
        return None, after
    return before, (None if event.verb.endswith(".deleted") else after)


def _only(values: Mapping[str, Any], names: Iterable[str]) -> Values:
    return {name: values[name] for name in names if name in values}


def _as_window(change: ChangeLine) -> ChangeLine:
    values = None if change.values is None else _window_words(change.values)
    return ChangeLine(change.at, change.of, change.which, values)


def _window_words(values: Mapping[str, Any]) -> Values:
    return {name.removesuffix("_name"): value for name, value in values.items()}
