"""The report of forecasts: how right the first told starts were."""

from dataclasses import dataclass

from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.resources import show_duration
from portal.access.usage_reports import load_accuracy_report
from portal.pages.reports.page import ReportPage
from portal.wording.monitoring.eta_report import DEFINITIONS, ETA_GROUP_WORDS, write_eta_csv
from portal.wording.monitoring.wait_report import name_group
from portal.wording.time_of_day import name_moment
from scheduler.preview.forecast_accuracy import Accuracy, AccuracyReport

NONE = "–"


@dataclass(frozen=True)
class EtaRow:
    name: str
    accuracy: Accuracy

    @property
    def starts(self) -> str:
        return f"{self.accuracy.starts:,}"

    @property
    def cells(self) -> list[str]:
        """Within, sooner and later in percent; wrong by."""
        shares = (self.accuracy.percent(name) for name in ("inside", "early", "late"))
        wrong = (self.accuracy.p50_s, self.accuracy.p90_s)
        return [
            *(NONE if share is None else f"{share:.0f} %" for share in shares),
            *(NONE if seconds is None else show_duration(round(seconds)) for seconds in wrong),
        ]

    @property
    def parts(self) -> list[tuple[str, float]]:
        tones = {"early": "soft", "inside": "work", "late": "idle"}
        return [(tone, self.accuracy.percent(name) or 0) for name, tone in tones.items()]


class EtaPage(ReportPage):
    words, template, stem = gettext_lazy("Forecasts"), "reports/eta.html", "forecasts"
    groups, definitions = ETA_GROUP_WORDS, DEFINITIONS

    @cached_property
    def found(self) -> AccuracyReport:
        return load_accuracy_report(self.user, self.by, self.period, self.now)

    @property
    def rows(self) -> list[EtaRow]:
        return [EtaRow(name_group(self.by, name), accuracy) for name, accuracy in self.found.groups.items()]

    @property
    def total(self) -> EtaRow:
        return EtaRow(_("All"), self.found.total)

    @property
    def since(self) -> str:
        """Say since when told starts are kept, where that is later than the period; "" else."""
        since = self.found.since
        if since is None or since <= self.period.begins:
            return ""
        return _("known since %(at)s") % {"at": name_moment(since)}

    @property
    def answer(self) -> str:
        if not self.found.total.starts:
            return _("No job started in this time that was told a start before.")
        within, _sooner, _later, half, most = self.total.cells
        words = {"within": within, "half": half, "most": most}
        return _("%(within)s of the jobs started within the range that was told first; half were wrong by at most "
                 "%(half)s, nine of ten by %(most)s.") % words  # fmt: skip

    def write_csv(self) -> str:
        return write_eta_csv(self.found)
