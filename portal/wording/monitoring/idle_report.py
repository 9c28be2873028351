"""Reports of what was idle, in words and as CSV."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from monitoring.reports.idle import IDLE_GROUPS, IdleReport, IdleSums
from monitoring.usage.report import HOUR_MILLI_MS
from portal.csv_text import write_csv
from portal.wording.monitoring.usage_report import GROUP_WORDS, show_exactly

IDLE_GROUP_WORDS: dict[str, str | Promise] = {by: GROUP_WORDS[by] for by in IDLE_GROUPS}
DEFINITIONS: dict[str | Promise, str | Promise] = {
    _("Idle"): _("Seen below 5 % for 15 minutes or more without a break."),
    _("Unknown"): _(
        "Held, but not seen: before the first sample, or because no sample came. It is never counted as idle."
    ),
    _("Notices, reminders, warnings"): _("Each counts once, however many people were told."),
    _("Released"): _("How often the GPU was released, the slice made smaller or the job stopped because it was idle."),
    _("Returned GPU-hours"): _(
        "From the release until the card was wanted back, or the planned end, 8 hours at most; of releases in the "
        "period."
    ),
    _("Regretted"): _("Releases after which the card was wanted back at once."),
}
HOURS = ("held", "idle", "unknown", "returned")
COUNTS = ("notes", "reminders", "warnings", "acts", "regretted")


def list_idle_hours(one: IdleSums) -> dict[str, float]:
    times = (one.sums.held, one.sums.idle, one.sums.unknown, one.ladder.returned)
    return {name: value / HOUR_MILLI_MS for name, value in zip(HOURS, times, strict=True)}


def list_idle_counts(one: IdleSums) -> dict[str, int]:
    return {name: getattr(one.ladder, name) for name in COUNTS}


def write_idle_csv(report: IdleReport) -> str:
    """Return a row for each group."""
    columns = [report.by, *(f"{name}_gpu_h" for name in HOURS), *COUNTS]
    return write_csv(columns, ([name, *_list_values(one)] for name, one in report.groups.items()))


def _list_values(one: IdleSums) -> list[object]:
    return [*map(show_exactly, list_idle_hours(one).values()), *list_idle_counts(one).values()]
