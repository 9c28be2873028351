"""Reports of waits, in words and as CSV."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.models import JobKind
from monitoring.reports.waits import KINDS, WaitReport, WaitSums
from portal.csv_text import write_csv

GROUP_WORDS: dict[str, str | Promise] = {
    "size": _("Size"),
    "team": _("Team"),
    "user": _("Person"),
    "pool": _("Pool"),
    "kind": _("Kind"),
}
SIZE_WORDS: dict[str, str | Promise] = {
    "none": _("no GPU"),
    "part": _("part of a GPU"),
    "1": _("1 GPU"),
    "2-4": _("2 to 4 GPUs"),
    "5-8": _("5 to 8 GPUs"),
    "9+": _("more than 8 GPUs"),
}
DEFINITIONS: dict[str | Promise, str | Promise] = {
    _("Wait"): _(
        "From the submit until all tasks have their places. Of a job that was held, from its last release; while it is "
        "held, it does not wait."
    ),
    _("Half, nine of ten"): _("Half of the jobs waited at most so long, and nine of ten."),
    _("Again"): _(
        "Starts of later tries, such as after a preemption or a retry, from the moment in which the job was queued "
        "again. They are not among the first starts."
    ),
    _("Still waiting"): _("Not started at the end of the period, or now: how long they have waited so far."),
    _("Gave up"): _("Stopped before they started."),
    _("Size"): _("The GPUs of all tasks with which a job starts."),
}
COLUMNS = ("jobs", "p50_s", "p90_s", "longest_s")


def name_group(by: str, name: str) -> str:
    """Return a group's name for people."""
    if by == "size":
        return str(SIZE_WORDS[name])
    return str(JobKind(name).label) if by == "kind" else name


def write_waits_csv(report: WaitReport) -> str:
    """Return a row for each group, in seconds."""
    columns = [report.by, *(f"{kind}_{name}" for kind in KINDS for name in COLUMNS)]
    return write_csv(columns, ([name, *_list_values(sums)] for name, sums in report.groups.items()))


def _list_values(sums: WaitSums) -> list[object]:
    values = (getattr(getattr(sums, kind), name) for kind in KINDS for name in COLUMNS)
    return ["" if value is None else round(value, 1) for value in values]
