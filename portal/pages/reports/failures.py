"""The report of failures: tries that ended before their time, why, and what was lost with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.models import User
from monitoring.reports.failures import FailedTry, FailureReport, FailureSums, Losses
from monitoring.usage.report import HOUR_MILLI_MS
from portal.access.usage_reports import load_failure_report, load_failures
from portal.pages.reports.page import ReportPage
from portal.wording.efficiency import show_hours
from portal.wording.monitoring.failure_report import DEFINITIONS, GROUP_WORDS, name_group, write_failures_csv

NONE = "–"


@dataclass(frozen=True)
class FailureRow:
    """A group, or all. href: of its newest tries. most: lost GPU time that its bar can show."""

    name: str
    sums: FailureSums
    href: str = ""
    most: int = 0
    current: bool = False

    @property
    def failed(self) -> dict[str, str]:
        return show_losses(self.sums.failed)

    @property
    def made_room(self) -> dict[str, str]:
        return show_losses(self.sums.made_room)

    @property
    def lost(self) -> str:
        return show_hours(self.sums.lost / HOUR_MILLI_MS)

    @property
    def parts(self) -> list[tuple[str, float]]:
        most = self.most or 1
        return [("fault", 100 * self.sums.failed.lost / most), ("quiet", 100 * self.sums.made_room.lost / most)]


@dataclass(frozen=True)
class TryRow:
    """A try that ended, with its job's page."""

    found: FailedTry

    @property
    def job(self) -> str:
        return f"job-{self.found.job_id}"

    @property
    def reason(self) -> str:
        return name_group("reason", self.found.reason)

    @property
    def ended_at(self) -> datetime:
        return self.found.ended_at

    @property
    def lost(self) -> str:
        return show_hours(self.found.lost / HOUR_MILLI_MS)


class FailuresPage(ReportPage):
    """?only=exit_nonzero: of the newest tries, those of one group."""

    words, template, stem = gettext_lazy("Failures"), "reports/failures.html", "failures"
    groups = GROUP_WORDS
    definitions = DEFINITIONS

    def __init__(self, user: User, get: Mapping[str, str]):
        super().__init__(user, get)
        self.asked_only = get.get("only")

    @cached_property
    def found(self) -> FailureReport:
        return load_failure_report(self.user, self.by, self.period, self.now)

    @property
    def only(self) -> str | None:
        return self.asked_only if self.asked_only in self.found.groups else None

    @cached_property
    def rows(self) -> list[FailureRow]:
        most = max((sums.lost for sums in self.found.groups.values()), default=0)
        return [
            FailureRow(
                self._name(name), sums, f"?{self.query}&{urlencode({'only': name})}#newest", most, name == self.only
            )
            for name, sums in self.found.groups.items()
        ]

    @property
    def total(self) -> FailureRow:
        return FailureRow(_("Sum"), self.found.total)

    @property
    def newest(self) -> list[TryRow]:
        return [TryRow(one) for one in load_failures(self.user, self.by, self.only, self.period, self.now)]

    @property
    def newest_of(self) -> str:
        """The group whose newest tries are listed, "" for all."""
        return "" if self.only is None else self._name(self.only)

    @property
    def all_href(self) -> str:
        return f"?{self.query}#newest"

    def _name(self, name: str) -> str:
        return name_group(self.by, name) or _("not known")

    @property
    def answer(self) -> str:
        total = self.found.total
        if not total.tries:
            return _("Nothing failed in this time.")
        failed, room = total.failed.tries, total.made_room.tries
        words = [ngettext("%(n)s try failed", "%(n)s tries failed", failed) % {"n": f"{failed:,}"}]
        if room:
            words += [ngettext("%(n)s made room for others", "%(n)s made room for others", room) % {"n": f"{room:,}"}]
        lost = {"what": _(", ").join(words), "hours": show_hours(total.lost / HOUR_MILLI_MS)}
        return _("%(what)s; %(hours)s GPU-hours were lost.") % lost

    def write_csv(self) -> str:
        return write_failures_csv(self.found)


def show_losses(losses: Losses) -> dict[str, str]:
    if not losses.tries:
        return dict.fromkeys(("tries", "jobs", "lost", "unsaved", "kept"), NONE)
    hours = {name: show_hours(getattr(losses, name) / HOUR_MILLI_MS) for name in ("lost", "unsaved", "kept")}
    return {"tries": f"{losses.tries:,}", "jobs": f"{losses.jobs:,}", **hours}
