"""Changes of state: the only writer of `state` columns."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import models, transaction
from django.db.models import Case, Value, When
from django.db.models.functions import Cast

from common.errors import StaleState
from events.record_and_publish import Actor, EventLine, record_all


class IllegalTransition(Exception):
    """A move that is not legal: a bug in the caller."""


@dataclass(frozen=True)
class Move:
    """A row's move. params: of its event. also: other columns (``{"ended_at": Now()}``)."""

    row: Any
    reason: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)


def advance(moves: Sequence[Move], to: str, *, actor: Actor) -> None:
    """Move rows of one model from the states that were read to `to`, all or none, and record it in few statements.

    Each has KIND and MOVES {from: {to, ...}}. Raises IllegalTransition, StaleState.
    """
    alike: dict[tuple[str, ...], list[Move]] = defaultdict(list)
    for move in moves:
        alike[_check_legal(move.row, to), *sorted(move.also)].append(move)
    lines = [EventLine(move.row, dict(move.params), move.reason, move.row.state, to) for move in moves]
    with transaction.atomic():
        for (before, *_), some in alike.items():
            if _write(some, before, to) < len(some):
                raise StaleState(kind=some[0].row.KIND, was=before)
        record_all(lines, "state", actor=actor)


def _check_legal(row: Any, to: str) -> str:
    if to not in row.MOVES.get(row.state, ()):
        raise IllegalTransition(f"{row.KIND} {row.pk}: {row.state} to {to}")
    return row.state


def _write(moves: Sequence[Move], before: str, to: str) -> int:
    """Update the rows still in `before`, then the objects; return how many rows moved."""
    changes = [(move.row, {"state": to, **_reason(move), **move.also}) for move in moves]
    rows = type(moves[0].row)._default_manager.filter(pk__in=[move.row.pk for move in moves])
    moved = rows.filter(state=before).update(**_in_one(changes))
    for row, values in changes:
        for name, value in values.items():
            setattr(row, name, value)
    computed = [name for name, value in changes[0][1].items() if hasattr(value, "resolve_expression")]
    if computed:
        fresh = {pk: values for pk, *values in rows.values_list("pk", *computed)}
        for row, _ in changes:
            for name, value in zip(computed, fresh.get(row.pk, ()), strict=False):
                setattr(row, name, value)
    return moved


def _reason(move: Move) -> dict[str, str]:
    return {"reason": move.reason} if any(field.name == "reason" for field in move.row._meta.fields) else {}


def _in_one(changes: Sequence[tuple[models.Model, dict[str, object]]]) -> dict[str, object]:
    """Return {column: value or CASE by row}."""
    first, together = changes[0][1], {}
    for name, value in first.items():
        if all(values[name] == value for _, values in changes):
            together[name] = value
            continue
        field: Any = type(changes[0][0])._meta.get_field(name)
        cases = (When(pk=row.pk, then=_as_value(values[name], field)) for row, values in changes)
        together[name] = Cast(Case(*cases, output_field=field), output_field=field)  # PostgreSQL infers text
    return together


def _as_value(value: object, field: Any) -> Any:
    if isinstance(value, models.Model):
        value = value.pk
    return value if hasattr(value, "resolve_expression") else Value(value, output_field=field)
