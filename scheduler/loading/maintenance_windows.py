"""Load maintenance windows for the scheduler core."""

from collections.abc import Mapping
from datetime import UTC, datetime

from cluster.maintenance import load_maintenance
from scheduler.core.model.types import MaintenanceWindow


def load_maintenance_windows(places: Mapping[int, int], now: float) -> tuple[MaintenanceWindow, ...]:
    """Return current and planned maintenance."""
    found = []
    for closed in load_maintenance(datetime.fromtimestamp(now, UTC)):
        nodes = tuple(sorted(places[node] for node in closed.node_ids if node in places))
        row = closed.maintenance
        if nodes:
            found.append(MaintenanceWindow(nodes, row.begins_at.timestamp(), row.ends_at.timestamp(), row.stops))
    return tuple(found)
