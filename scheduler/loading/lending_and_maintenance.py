"""Load windows in which pools lend cards, and maintenance."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from cluster.maintenance import load_maintenance
from cluster.models import Pool
from cluster.windows import lends_until, load_spans
from scheduler.core.model.types import LendingWindow, MaintenanceWindow


def load_windows(pools: Sequence[Pool], card_pools: Sequence[int], now: float) -> tuple[LendingWindow, ...]:
    """Load current and coming windows. card_pools: [G] pool ids; pools in windows are indices in `pools`."""
    at = {pool.pk: place for place, pool in enumerate(pools)}
    windows = []
    for (lender, borrower), spans in load_spans(datetime.fromtimestamp(now, UTC)).items():
        gpus = tuple(gpu for gpu, pool in enumerate(card_pools) if pool == lender)
        windows += [
            LendingWindow(gpus, at[borrower], begins.timestamp(), ends.timestamp()) for begins, ends in spans if gpus
        ]
    return tuple(windows)


def is_lent(lender_id: int, borrower_id: int, now: datetime, time_s: float) -> bool:
    """Return whether the pool lends for `time_s` from now."""
    until = lends_until(now).get((lender_id, borrower_id))
    return until is not None and (until - now).total_seconds() >= time_s


def load_maintenance_windows(places: Mapping[int, int], now: float) -> tuple[MaintenanceWindow, ...]:
    """Return current and planned maintenance."""
    found = []
    for closed in load_maintenance(datetime.fromtimestamp(now, UTC)):
        nodes = tuple(sorted(places[node] for node in closed.node_ids if node in places))
        row = closed.maintenance
        if nodes:
            found.append(MaintenanceWindow(nodes, row.begins_at.timestamp(), row.ends_at.timestamp(), row.stops))
    return tuple(found)
