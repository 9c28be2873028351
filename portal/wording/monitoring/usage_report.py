"""Reports of GPU time, in words and as CSV."""

import csv
import io

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from monitoring.usage.report import Sums
from portal.access.usage_reports import UsageReport

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
    _("Over the edge of the period"): _(
        "A task that began before the period or went on after it is active, idle and busy in it in proportion."
    ),
}
CSV_COLUMNS = ("held", "active", "paused", "idle", "unknown", "busy")


def write_usage_csv(report: UsageReport) -> str:
    """Return a row for each group, with GPU-hours; what is left over is in a row without a name."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow([report.by, *(f"{name}_gpu_h" for name in CSV_COLUMNS), "tasks", "simulated"])
    groups = [*report.groups.items(), *([("", report.rest)] if report.rest else [])]
    for name, sums in groups:
        rows.writerow([name, *map(show_exactly, list_hours(sums).values()), sums.tasks, str(sums.simulated).lower()])
    return text.getvalue()


def list_hours(sums: Sums) -> dict[str, float]:
    return {name: sums.count_hours(name) for name in CSV_COLUMNS}


def show_exactly(hours: float) -> str:
    return f"{hours:.6f}"
