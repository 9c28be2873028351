"""The report of what was held and idle, and of what the idle ladder did about it."""

from dataclasses import dataclass

from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from monitoring.reports.idle import IdleReport, IdleSums
from portal.access.usage_reports import load_idle_report
from portal.pages.reports.page import ReportPage
from portal.wording.efficiency import show_hours
from portal.wording.monitoring.idle_report import (
    DEFINITIONS,
    IDLE_GROUP_WORDS,
    list_idle_counts,
    list_idle_hours,
    write_idle_csv,
)


@dataclass(frozen=True)
class IdleRow:
    """A group, or the sum of all. most: idle time that its bar can show."""

    name: str
    found: IdleSums
    most: int = 0

    @cached_property
    def hours(self) -> dict[str, str]:
        """Return times in words; whether what nobody saw was idle is not known."""
        shown = {name: show_hours(value) for name, value in list_idle_hours(self.found).items()}
        return {**shown, "idle": "?"} if self.found.sums.is_unseen else shown

    @property
    def percent(self) -> str:
        sums = self.found.sums
        if sums.is_unseen:
            return "?"
        return f"{100 * sums.idle / sums.held:.0f} %" if sums.held else "–"

    @property
    def counts(self) -> list[str]:
        return [f"{count:,}" if count else "–" for count in list_idle_counts(self.found).values()]

    @property
    def parts(self) -> list[tuple[str, float]]:
        return [("idle", 100 * self.found.sums.idle / (self.most or 1))]


class IdlePage(ReportPage):
    words, template, stem = gettext_lazy("Idle"), "reports/idle.html", "idle"
    groups = IDLE_GROUP_WORDS
    definitions = DEFINITIONS

    @cached_property
    def report(self) -> IdleReport:
        return load_idle_report(self.user, self.by, self.period, self.now)

    @property
    def rows(self) -> list[IdleRow]:
        most = max((one.sums.idle for one in self.report.groups.values()), default=0)
        return [IdleRow(name, one, most) for name, one in self.report.groups.items()]

    @cached_property
    def total(self) -> IdleRow:
        return IdleRow(_("Sum"), self.report.total)

    @property
    def is_empty(self) -> bool:
        return not self.report.groups

    @property
    def answer(self) -> str:
        if self.is_empty:
            return _("Nothing was held in this time.")
        words = {**self.total.hours, "percent": self.total.percent}
        return (
            _("%(idle)s GPU-hours were held and idle, %(percent)s of what was held; %(returned)s were returned.")
            % words
        )

    def write_csv(self) -> str:
        return write_idle_csv(self.report)
