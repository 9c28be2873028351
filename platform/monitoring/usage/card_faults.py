"""Which checks of cards began to fail while somebody held them."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from monitoring.models import CheckState, NodeCheckChange
from quotas.models import Holding

FAULTS = ("gpu_xid", "gpu_ecc_uncorrected", "gpu_row_remap", "gpu_off_bus")
"""Checks whose failure is a fault of the card, and none of its surroundings."""


def load_faults(holdings: Collection[Holding], now: datetime) -> dict[int, list[str]]:
    """Return {holding: names of the checks}, the earliest first. Holdings are loaded with `gpu`."""
    of_cards = [row for row in holdings if row.gpu is not None]
    if not of_cards:
        return {}
    changes = NodeCheckChange.objects.filter(
        name__in=FAULTS,
        state=CheckState.FAIL,
        node__in={row.node_id for row in of_cards},
        at__gte=min(row.held_from for row in of_cards),
    )
    known: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for card, at, name in changes.order_by("at").values_list("card", "at", "name"):
        known[card].append((at, name))
    return {row.pk: found for row in of_cards if (found := _list_during(row, known, now))}


def _list_during(row: Holding, known: dict[str, list[tuple[datetime, str]]], now: datetime) -> list[str]:
    changes = known.get(row.gpu.uuid, ()) if row.gpu is not None else ()
    return [name for at, name in changes if row.held_from <= at <= (row.released_at or now)]
