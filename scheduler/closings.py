"""When machines take nothing, as the scheduler's mind is told of it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from cluster.maintenance import load_maintenance
from scheduler.core.types import Closing


def load_closings(places: Mapping[int, int], now: float) -> tuple[Closing, ...]:
    """What maintenance is to come or lasts. places: {node id: index}."""
    found = []
    for closed in load_maintenance(datetime.fromtimestamp(now, UTC)):
        nodes = tuple(sorted(places[node] for node in closed.node_ids if node in places))
        row = closed.maintenance
        if nodes:
            found.append(Closing(nodes, row.begins_at.timestamp(), row.ends_at.timestamp(), row.stops))
    return tuple(found)
