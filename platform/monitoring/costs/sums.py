"""What was held costs, by group, in whole numbers: rounded once, when it is shown."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from monitoring.costs.prices import find_price, list_edges
from monitoring.models import Price
from monitoring.reports.failures import sum_faults
from monitoring.usage.report import HOUR_MILLI_MS, Period, Place, sum_places


@dataclass(frozen=True)
class Cost:
    """Thousandths of the currency's unit, times HOUR_MILLI_MS.

    held: of what has a price. idle, lost: of it, lost by faults of machines and of the platform. unpriced: thousandths
    of cards times milliseconds that have none.
    """

    held: int = 0
    idle: int = 0
    unpriced: int = 0
    lost: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        named = {name: getattr(self, name) + getattr(other, name) for name in ("held", "idle", "unpriced", "lost")}
        return Cost(**named)

    def count(self, name: str, milli: int = 1) -> int:
        """Return held, idle or lost in whole coins of so many thousandths, half of one rounded up."""
        coin = milli * HOUR_MILLI_MS
        return (2 * getattr(self, name) + coin) // (2 * coin)


def sum_costs(by: str, period: Period, now: datetime, teams: Collection[int] | None) -> dict[str, Cost] | None:
    """Return {name: cost} of the groups of monitoring.usage.report; None where no price is set at all."""
    prices = list(Price.objects.all())
    if not prices:
        return None
    parts = [Period(*edges) for edges in pairwise(list_edges(prices, period.begins, period.ends))]
    found: dict[str, Cost] = defaultdict(Cost)

    def find(place: Place) -> int | None:
        return find_price(prices, place.pool_id, place.model, parts[place.slot].begins.date())

    for place, sums in sum_places(by, parts, now, teams):
        price = find(place)
        cost = Cost(unpriced=sums.held) if price is None else Cost(price * sums.held, price * sums.idle)
        found[place.name] += cost
    for place, lost in sum_faults(by, parts, now, teams):
        found[place.name] += Cost(lost=(find(place) or 0) * lost)
    return dict(found)
