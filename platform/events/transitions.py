"""The one function that changes a state. Nothing else writes `state`."""

from typing import Any

from django.db import models, transaction

from common.errors import StaleState
from events.bus import Actor, record


class IllegalTransition(Exception):
    """A move that the table does not list: a bug in the caller, never bad luck."""


def advance(
    row: models.Model, to: str, *, reason: str = "", actor: Actor, params: dict | None = None, **also: Any
) -> None:
    """Move `row` from the state it was read in to `to`, and record it, in one transaction.

    row: a model with KIND and MOVES, its table of legal moves {from: {to, ...}}.
    also: other columns that change with the state (``ended_at=Now()``). `reason` is stored where the model has it.
    Raises IllegalTransition for a move that is not in the table, StaleState where somebody else moved it first.
    """
    model, before = type(row), row.state  # type: ignore[attr-defined]
    if to not in model.MOVES.get(before, ()):  # type: ignore[attr-defined]
        raise IllegalTransition(f"{model.KIND} {row.pk}: {before} to {to}")  # type: ignore[attr-defined]
    changes: dict[str, object] = {"state": to, **also}
    if any(field.name == "reason" for field in model._meta.fields):
        changes["reason"] = reason
    with transaction.atomic():
        if not write_move(row, before, changes):
            raise StaleState(kind=model.KIND, was=before)  # type: ignore[attr-defined]
        record(row, "state", actor=actor, reason=reason, params=params, from_state=before, to_state=to)


def write_move(row: models.Model, before: str, changes: dict[str, object]) -> bool:
    """Whether the row still was in `before`; then it is changed, and the row read anew."""
    if not type(row)._default_manager.filter(pk=row.pk, state=before).update(**changes):
        return False
    row.refresh_from_db(fields=list(changes))
    return True
