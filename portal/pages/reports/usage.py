"""The report of GPU time: what was held, and what it was used for."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils.formats import date_format
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from monitoring.costs.sums import Cost
from monitoring.usage.report import Sums
from portal.access.usage_reports import Costs, UsageReport, load_usage_by_day, load_usage_report
from portal.pages.reports.page import ReportPage
from portal.wording.efficiency import show_hours
from portal.wording.monitoring.usage_report import (
    COST_DEFINITIONS,
    DEFINITIONS,
    GROUP_WORDS,
    PARTS,
    show_cost,
    write_usage_csv,
)

UNKNOWN = "?"


@dataclass(frozen=True)
class Row:
    """A group, or the sum of all. href: of what it is, or "". cost: None where no price is set."""

    name: str
    sums: Sums
    href: str = ""
    cost: Cost | None = None

    @cached_property
    def hours(self) -> dict[str, str]:
        """Return each time in words; of what nobody saw only what was held is known."""
        known = ("held", "unknown") if self.sums.is_unseen else ("held", "busy", *PARTS)
        shown = {name: show_hours(self.sums.count_hours(name)) for name in known}
        return {**dict.fromkeys(("busy", *PARTS), UNKNOWN), **shown}

    @property
    def costs(self) -> list[str]:
        return [show_cost(self.cost, name) for name in ("held", "idle", "lost")] if self.cost else []

    @property
    def active_percent(self) -> str:
        if self.sums.is_unseen:
            return UNKNOWN
        return f"{100 * self.sums.active / self.sums.held:.0f} %" if self.sums.held else "–"

    @property
    def parts(self) -> list[tuple[str, float]]:
        held = self.sums.held or 1
        return [(tone, 100 * getattr(self.sums, name) / held) for name, (tone, _words) in PARTS.items()]


@dataclass(frozen=True)
class Bar:
    """A day or a week. height: percent of the highest."""

    words: str
    row: Row
    height: float


class UsagePage(ReportPage):
    words, template, stem = gettext_lazy("Usage"), "reports/usage.html", "gpu-hours"
    groups = GROUP_WORDS

    @cached_property
    def report(self) -> UsageReport:
        return load_usage_report(self.user, self.by, self.period, self.now)

    @cached_property
    def total(self) -> Row:
        return Row(_("Sum"), self.report.total, cost=self.costs and self.costs.total)

    @property
    def rows(self) -> list[Row]:
        costs = self.costs
        rows = [
            Row(name or _("not known"), sums, self._link(name), costs and costs.groups[name])
            for name, sums in self.report.groups.items()
        ]
        rest = self.report.rest
        return [*rows, *([Row(_("Others"), rest, cost=costs and costs.rest)] if rest else [])]

    @property
    def costs(self) -> Costs | None:
        return self.report.costs

    @property
    def currency(self) -> str:
        return f" ({settings.TESSERA_CURRENCY})" if settings.TESSERA_CURRENCY else ""

    def _link(self, name: str) -> str:
        return f"/j/{name}/" if self.by == "job" and name else ""

    @cached_property
    def bars(self) -> list[Bar]:
        days = load_usage_by_day(self.user, self.period, self.now)
        highest = max((sums.held for _period, sums in days), default=0) or 1
        return [
            Bar(date_format(period.begins, "SHORT_DATE_FORMAT"), Row("", sums), 100 * sums.held / highest)
            for period, sums in days
        ]

    @property
    def chart(self) -> list[tuple[float, list[tuple[str, float]]]]:
        return [(bar.height, bar.row.parts) for bar in self.bars]

    @property
    def highest(self) -> str:
        return show_hours(max((bar.row.sums.count_hours("held") for bar in self.bars), default=0))

    @property
    def by_week(self) -> bool:
        return (
            bool(self.bars)
            and len(self.bars) * timedelta(days=1) < min(self.period.ends, self.now) - self.period.begins
        )

    @property
    def parts(self) -> list[dict]:
        """Where the held hours went, as the legend says it."""
        hours, total = self.total.hours, self.report.total
        return [
            {
                "tone": tone,
                "words": words,
                "hours": hours[name],
                "percent": 100 * getattr(total, name) / (total.held or 1),
            }
            for name, (tone, words) in PARTS.items()
        ]

    @property
    def answer(self) -> str:
        if not self.report.total.held:
            return _("Nothing was held in this time.")
        words = {"hours": self.total.hours["held"], "active": self.total.active_percent}
        return _("%(hours)s GPU-hours were held, %(active)s of them active.") % words

    @property
    def complete_to(self) -> datetime:
        return self.report.complete_to

    @property
    def definitions(self) -> dict:
        return {**DEFINITIONS, **(COST_DEFINITIONS if self.costs else {})}

    def write_csv(self) -> str:
        return write_usage_csv(self.report)
