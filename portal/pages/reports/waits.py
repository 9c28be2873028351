"""The report of waits: how long jobs waited for their start, and which still wait."""

from dataclasses import dataclass

from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.resources import show_duration
from monitoring.reports.waits import WaitReport, Waits, WaitSums
from portal.access.usage_reports import load_wait_report
from portal.pages.reports.page import ReportPage
from portal.wording.monitoring.wait_report import DEFINITIONS, GROUP_WORDS, name_group, write_waits_csv

NONE = "–"


@dataclass(frozen=True)
class WaitRow:
    """A group, or all. scale_s: the longest wait that its bar can show."""

    name: str
    sums: WaitSums
    scale_s: float = 0

    @property
    def started(self) -> dict[str, str]:
        return show_waits(self.sums.started)

    @property
    def again(self) -> dict[str, str]:
        return show_waits(self.sums.again)

    @property
    def waiting(self) -> dict[str, str]:
        return show_waits(self.sums.waiting)

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Its bar: half of the jobs, and on to nine of ten."""
        half, most = self.sums.started.p50_s or 0, self.sums.started.p90_s or 0
        scale = self.scale_s or 1
        return [("work", 100 * half / scale), ("soft", 100 * (most - half) / scale)]


class WaitsPage(ReportPage):
    words, template, stem = gettext_lazy("Waits"), "reports/waits.html", "waits"
    groups = GROUP_WORDS
    definitions = DEFINITIONS

    @cached_property
    def found(self) -> WaitReport:
        return load_wait_report(self.user, self.by, self.period, self.now)

    @cached_property
    def sizes(self) -> list[WaitRow]:
        return build_rows("size", self.found.by_size)

    @cached_property
    def rows(self) -> list[WaitRow]:
        return build_rows(self.by, self.found.groups)

    @property
    def total(self) -> WaitRow:
        return WaitRow(_("All"), self.found.total)

    @property
    def is_empty(self) -> bool:
        return self.found.total == WaitSums()

    @property
    def runs_on(self) -> bool:
        """Whether what still waits at its end waits now."""
        return self.period.ends >= self.now

    @property
    def answer(self) -> str:
        started, waiting = self.found.total.started, self.found.total.waiting.jobs
        if not started.jobs:
            return _("No job started in this time.")
        times = {name: value for name, value in show_waits(started).items() if name != "jobs"}
        words = _("Half of the jobs started within %(half)s, nine of ten within %(most)s.") % times
        still = ngettext("%(n)s job still waits.", "%(n)s jobs still wait.", waiting) % {"n": f"{waiting:,}"}
        return f"{words} {still}" if waiting and self.runs_on else words

    def write_csv(self) -> str:
        return write_waits_csv(self.found)


def build_rows(by: str, groups: dict[str, WaitSums]) -> list[WaitRow]:
    scale_s = max((sums.started.p90_s or 0 for sums in groups.values()), default=0)
    return [WaitRow(name_group(by, name), sums, scale_s) for name, sums in groups.items()]


def show_waits(waits: Waits) -> dict[str, str]:
    times = {"half": waits.p50_s, "most": waits.p90_s, "longest": waits.longest_s}
    shown = {name: NONE if value is None else show_duration(round(value)) for name, value in times.items()}
    return {"jobs": f"{waits.jobs:,}" if waits.jobs else NONE, **shown}
