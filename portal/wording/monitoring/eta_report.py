"""Reports of how right told starts were, in words and as CSV."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from portal.csv_text import write_csv
from portal.wording.monitoring.wait_report import GROUP_WORDS
from scheduler.preview.forecast_accuracy import Accuracy, AccuracyReport

ETA_GROUP_WORDS: dict[str, str | Promise] = {by: GROUP_WORDS[by] for by in ("pool", "size", "team")}
DEFINITIONS: dict[str | Promise, str | Promise] = {
    _("Told start"): _(
        "What was foretold first of a waiting job: a range, and the moment in its middle. A job that started before "
        "anything was foretold, mostly at once, does not count."
    ),
    _("Wrong by"): _("How far the real start was from that moment, sooner or later: half of the starts, nine of ten."),
    _("Within the range"): _(
        "Of the starts whose range had an end: those that lay within it, give or take 5 seconds. It is made to hold "
        "for eight of ten."
    ),
    _("Sooner, later"): _("Started before the range began, or after it had ended."),
}
CSV_COLUMNS = ("starts", "within", "sooner", "later", "wrong_p50_s", "wrong_p90_s")


def write_eta_csv(report: AccuracyReport) -> str:
    """Return a row for each group: numbers of starts, and seconds."""
    return write_csv([report.by, *CSV_COLUMNS], ([name, *_list_values(one)] for name, one in report.groups.items()))


def _list_values(one: Accuracy) -> list[object]:
    wrong = ("" if seconds is None else round(seconds, 1) for seconds in (one.p50_s, one.p90_s))
    return [one.starts, one.inside, one.early, one.late, *wrong]
