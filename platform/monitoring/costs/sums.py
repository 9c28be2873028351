"""What was held costs, by group, in whole numbers: rounded once, when it is shown."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from monitoring.costs.prices import find_price, list_edges
from monitoring.models import Price
from monitoring.usage.report import HOUR_MILLI_MS, Period, sum_places


@dataclass(frozen=True)
class Cost:
    """Thousandths of the currency's unit, times HOUR_MILLI_MS. held: of what has a price; idle: of it.

    unpriced: thousandths of cards times milliseconds that have none.
    """

    held: int = 0
    idle: int = 0
    unpriced: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.held + other.held, self.idle + other.idle, self.unpriced + other.unpriced)

    def count(self, name: str, milli: int = 1) -> int:
        """Return held or idle in whole coins of so many thousandths, half of one rounded up."""
        coin = milli * HOUR_MILLI_MS
        return (2 * getattr(self, name) + coin) // (2 * coin)


def sum_costs(by: str, period: Period, now: datetime, teams: Collection[int] | None) -> dict[str, Cost] | None:
    """Return {name: cost} of the groups of monitoring.usage.report; None where no price is set at all."""
    prices = list(Price.objects.all())
    if not prices:
        return None
    parts = [Period(*edges) for edges in pairwise(list_edges(prices, period.begins, period.ends))]
    found: dict[str, Cost] = defaultdict(Cost)
    for place, sums in sum_places(by, parts, now, teams):
        price = find_price(prices, place.pool_id, place.model, parts[place.slot].begins.date())
        cost = Cost(unpriced=sums.held) if price is None else Cost(price * sums.held, price * sums.idle)
        found[place.name] += cost
    return dict(found)
