"""Which requests are a canary's: counted in this process, so that it never gets more than its share."""

from portal.access.services.routes import ReplicaAddress, Route
from portal.gateway.http.services.in_flight import InFlight
from services.canaries.judging import takes_next


class CanaryShares:
    def __init__(self, in_flight: InFlight):
        self._in_flight = in_flight
        self._counts: dict[int, tuple[int, int, int]] = {}  # service -> canary's revision, its requests, all requests

    def find_canary(self, service: int, route: Route) -> ReplicaAddress | None:
        """Return the canary's replica if the next request is its own. Each call counts as a request."""
        if not route.canaries:
            return None
        canary = min(route.canaries, key=lambda one: self._in_flight.replicas[one.replica])
        revision, passed, of = self._counts.get(service, (0, 0, 0))
        if revision != canary.revision:
            passed, of = 0, 0
        is_free = self._in_flight.replicas[canary.replica] < route.canary_target
        takes = is_free and takes_next(passed, of, route.share)
        self._counts[service] = (canary.revision, passed + takes, of + 1)
        return canary if takes else None
