"""Reports of GPU time, in words and as CSV."""

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from monitoring.costs.sums import Cost
from monitoring.usage.report import HOUR_MILLI_MS, Sums
from portal.access.usage_reports import UsageReport
from portal.csv_text import write_csv

GROUP_WORDS: dict[str, str | Promise] = {
    "team": _("Team"),
    "user": _("Person"),
    "pool": _("Pool"),
    "model": _("GPU model"),
    "job": _("Job"),
}
PARTS: dict[str, tuple[str, str | Promise]] = {
    "active": ("work", _("Active")),
    "paused": ("soft", _("Short pauses")),
    "idle": ("idle", _("Idle")),
    "unknown": ("unknown", _("Unknown")),
}
"""{what held time was: (tone, words)}. They add up to it."""
DEFINITIONS: dict[str | Promise, str | Promise] = {
    _("Held GPU-hours"): _(
        "The share of a card times how long a task held it, from its placement to its release, starting included. Only "
        "time inside the period counts."
    ),
    _("Active"): _("Held and seen while it used at least 5 % of its share."),
    _("Short pauses"): _("Seen below 5 %, but for less than 15 minutes at a time."),
    _("Idle"): _("Seen below 5 % for 15 minutes or more without a break."),
    _("Unknown"): _(
        "Held, but not seen: before the first sample, or because no sample came. It is never counted as idle."
    ),
    _("Busy"): _("The time in which cards computed for it, as far as it is known."),
    _("Over the edge of the period or of a day"): _(
        "What a task held is cut exactly. Of what it did only its sums are known: a task that began before, or went on "
        "after, is active, idle and busy in proportion. Days are those of UTC."
    ),
}
COST_COLUMNS = ("held_cost", "idle_cost", "lost_cost", "unpriced_gpu_h", "currency")
COST_DEFINITIONS: dict[str | Promise, str | Promise] = {
    _("Cost"): _(
        "Held GPU-hours times the price of the pool and model on that day; a slice costs its part. Idle: the part of "
        "it that was held and idle."
    ),
    _("of it lost"): _(
        "What tries held in the period since their last checkpoint that ended in it by a fault of a machine or of the "
        "platform, not by one of their program."
    ),
    "?": _("No price was set for it."),
}
CSV_COLUMNS = ("held", "active", "paused", "idle", "unknown", "busy")


def write_usage_csv(report: UsageReport) -> str:
    """Return a row for each group, with GPU-hours, and costs where there are prices; what is left over is in a row
    without a name.
    """
    costs = report.costs
    priced = COST_COLUMNS if costs else ()
    columns = [report.by, *(f"{name}_gpu_h" for name in CSV_COLUMNS), *priced, "tasks", "simulated"]
    groups = [(name, sums, costs and costs.groups[name]) for name, sums in report.groups.items()]
    groups += [("", report.rest, costs and costs.rest)] if report.rest else []
    return write_csv(columns, (_list_values(*group) for group in groups))


def _list_values(name: str, sums: Sums, cost: Cost | None) -> list[object]:
    hours = map(show_exactly, list_hours(sums).values())
    return [name, *hours, *(list_cost(cost) if cost else ()), sums.tasks, str(sums.simulated).lower()]


def list_cost(cost: Cost) -> list[str]:
    """Return the values of COST_COLUMNS, amounts with three places."""
    amounts = [cost.count(name) for name in ("held", "idle", "lost")]
    unpriced = show_exactly(cost.unpriced / HOUR_MILLI_MS)
    return [*(f"{milli // 1000}.{milli % 1000:03}" for milli in amounts), unpriced, settings.TESSERA_CURRENCY]


def show_cost(cost: Cost, name: str) -> str:
    """Format "1,204.50", and "?" of what has no price; a sum of which a part has none is marked "+ ?"."""
    if cost.unpriced and not cost.held:
        return "?"
    cents = cost.count(name, milli=10)
    return f"{cents // 100:,}.{cents % 100:02}" + (" + ?" if cost.unpriced else "")


def list_hours(sums: Sums) -> dict[str, float]:
    return {name: sums.count_hours(name) for name in CSV_COLUMNS}


def show_exactly(hours: float) -> str:
    return f"{hours:.6f}"
