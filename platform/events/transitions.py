"""Changes of state: the only writer of `state` columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import models, transaction
from django.db.models import Case, Value, When
from django.db.models.functions import Cast

from common.errors import StaleState
from events.bus import Actor, EventLine, record, record_all


class IllegalTransition(Exception):
    """A move that is not legal: a bug in the caller."""


@dataclass(frozen=True)
class Move:
    """One row of a bulk move."""

    row: models.Model
    params: dict
    also: dict[str, Any] = field(default_factory=dict)


def advance(
    row: models.Model, to: str, *, reason: str = "", actor: Actor, params: dict | None = None, **also: Any
) -> None:
    """Move `row` from its read state to `to`, and record it.

    row: has KIND and MOVES {from: {to, ...}}. also: other columns (``ended_at=Now()``). Raises IllegalTransition,
    StaleState.
    """
    before = _check_legal(row, to)
    changes = {**_changes(row, to, reason), **also}
    with transaction.atomic():
        if not write_move(row, before, changes):
            raise StaleState(kind=row.KIND, was=before)  # type: ignore[attr-defined]
        record(row, "state", actor=actor, reason=reason, params=params, from_state=before, to_state=to)


def advance_all(moves: Sequence[Move], to: str, *, reason: str = "", actor: Actor) -> None:
    """Move rows of one model in few statements, or none."""
    lines = [EventLine(move.row, move.params, _check_legal(move.row, to)) for move in moves]
    with transaction.atomic():
        for before in sorted({line.from_state for line in lines}):
            same = [move for move, line in zip(moves, lines, strict=True) if line.from_state == before]
            changes = [(move.row, {**_changes(move.row, to, reason), **move.also}) for move in same]
            if write_moves(changes, before) < len(same):
                raise StaleState(kind=same[0].row.KIND, was=before)  # type: ignore[attr-defined]
        record_all(lines, "state", actor=actor, reason=reason, to_state=to)


def write_move(row: models.Model, before: str, changes: dict[str, object]) -> bool:
    """Update the row if it is still in `before`."""
    if not type(row)._default_manager.filter(pk=row.pk, state=before).update(**changes):
        return False
    row.refresh_from_db(fields=list(changes))
    return True


def write_moves(changes: Sequence[tuple[models.Model, dict[str, object]]], before: str) -> int:
    """Update the rows still in `before`; return their number."""
    rows = [row for row, _ in changes]
    manager = type(rows[0])._default_manager
    moved = manager.filter(pk__in=[row.pk for row in rows], state=before).update(**_in_one(changes))
    for row, values in changes:
        for name, value in values.items():
            setattr(row, name, value)
    told = [name for name, value in changes[0][1].items() if hasattr(value, "resolve_expression")]
    if told:
        fresh = {pk: values for pk, *values in manager.filter(pk__in=[row.pk for row in rows]).values_list("pk", *told)}
        for row in rows:
            for name, value in zip(told, fresh.get(row.pk, ()), strict=False):
                setattr(row, name, value)
    return moved


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


def _check_legal(row: models.Model, to: str) -> str:
    before = row.state  # type: ignore[attr-defined]
    if to not in row.MOVES.get(before, ()):  # type: ignore[attr-defined]
        raise IllegalTransition(f"{row.KIND} {row.pk}: {before} to {to}")  # type: ignore[attr-defined]
    return before


def _changes(row: models.Model, to: str, reason: str) -> dict[str, object]:
    told = any(field.name == "reason" for field in row._meta.fields)
    return {"state": to, "reason": reason} if told else {"state": to}
