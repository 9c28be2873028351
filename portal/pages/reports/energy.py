"""The report of energy: what held cards drew."""

from dataclasses import dataclass

from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from monitoring.usage.energy_report import Energy
from monitoring.usage.report import HOUR_MILLI_MS
from portal.access.usage_reports import EnergyReport, load_energy_report
from portal.pages.reports.page import ReportPage
from portal.wording.efficiency import show_hours
from portal.wording.monitoring.energy_report import (
    DEFINITIONS,
    ENERGY_GROUP_WORDS,
    show_kwh,
    show_watts,
    write_energy_csv,
)


@dataclass(frozen=True)
class Row:
    """A group, or the sum of all. percent: of all that was drawn."""

    name: str
    energy: Energy
    percent: float

    @property
    def kwh(self) -> str:
        return show_kwh(self.energy)

    @property
    def watts(self) -> str:
        return show_watts(self.energy)

    @property
    def held(self) -> str:
        return show_hours(self.energy.held / HOUR_MILLI_MS)

    @property
    def unknown(self) -> str:
        return show_hours(self.energy.unmetered / HOUR_MILLI_MS)

    @property
    def parts(self) -> list[tuple[str, float]]:
        return [("work", self.percent) if self.energy.is_known else ("unknown", 100.0)]


class EnergyPage(ReportPage):
    words, template, stem = gettext_lazy("Energy"), "reports/energy.html", "energy"
    groups, definitions = ENERGY_GROUP_WORDS, DEFINITIONS

    @cached_property
    def report(self) -> EnergyReport:
        return load_energy_report(self.user, self.by, self.period, self.now)

    @property
    def total(self) -> Row:
        return self._build_row(_("Sum"), self.report.total)

    @property
    def rows(self) -> list[Row]:
        rows = [self._build_row(name or _("not known"), energy) for name, energy in self.report.groups.items()]
        return [*rows, *([self._build_row(_("Others"), self.report.rest)] if self.report.rest else [])]

    def _build_row(self, name: str, energy: Energy) -> Row:
        return Row(name, energy, 100 * energy.drawn / (self.report.total.drawn or 1))

    @property
    def answer(self) -> str:
        total = self.report.total
        if not total.held:
            return _("Nothing was held in this time.")
        if not total.is_known:
            return _("No card that was held in this time told what it draws.")
        words = {"kwh": show_kwh(total), "percent": f"{100 * total.unmetered / total.held:.0f}"}
        if total.unmetered:
            return _("Held cards drew %(kwh)s kWh; of %(percent)s %% of the held time it is not known.") % words
        return _("Held cards drew %(kwh)s kWh.") % words

    def write_csv(self) -> str:
        return write_energy_csv(self.report)
