"""Reports of failures, in words and as CSV."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.reason_messages import describe_end
from monitoring.reports.failures import FailureReport, FailureSums, Losses
from monitoring.usage.report import HOUR_MILLI_MS
from portal.csv_text import write_csv
from portal.wording.monitoring.usage_report import show_exactly

GROUP_WORDS: dict[str, str | Promise] = {
    "reason": _("Reason"),
    "team": _("Team"),
    "user": _("Person"),
    "pool": _("Pool"),
    "node": _("Machine"),
}
DEFINITIONS: dict[str | Promise, str | Promise] = {
    _("Failed"): _(
        "Tries of jobs that ended by an error of theirs, a limit, or a fault of their machine. Each try counts once, "
        "with the reason and the machine of the task that explains its end."
    ),
    _("Made room"): _("Tries that were stopped for other jobs or for maintenance. Their jobs are queued again."),
    _("Lost GPU-hours"): _(
        "What its tasks held since its last checkpoint; without one, all that they held. A try counts whole in the "
        "period in which it ended."
    ),
    _("Without checkpoint"): _("The part of the lost GPU-hours of tries that had written none."),
    _("Kept"): _("What they held before their last checkpoint."),
    _("Not counted"): _("What a person stopped, and what was stopped because it was idle."),
}
KINDS = ("failed", "made_room")
HOURS = ("lost", "unsaved", "kept")


def name_group(by: str, name: str) -> str:
    """Return a group's name for people, "" where there is none."""
    return describe_end(name) if by == "reason" else name


def list_hours(losses: Losses) -> dict[str, float]:
    return {name: getattr(losses, name) / HOUR_MILLI_MS for name in HOURS}


def write_failures_csv(report: FailureReport) -> str:
    """Return a row for each group."""
    names = ("tries", "jobs", *(f"{name}_gpu_h" for name in HOURS))
    columns = [report.by, *(f"{kind}_{name}" for kind in KINDS for name in names)]
    return write_csv(columns, ([name, *_list_values(sums)] for name, sums in report.groups.items()))


def _list_values(sums: FailureSums) -> list[object]:
    values: list[object] = []
    for losses in (sums.failed, sums.made_room):
        values += [losses.tries, losses.jobs, *map(show_exactly, list_hours(losses).values())]
    return values
