"""The page of reports: the GPU time of one's teams."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import cast
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from accounts.models import User
from common.errors import InvalidInput
from monitoring.costs.sums import Cost
from monitoring.usage.report import GROUPS, Period, Sums
from portal.access.usage_reports import Costs, UsageReport, check_period, load_usage_by_day, load_usage_report
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.wording.efficiency import show_hours
from portal.wording.errors import describe_refusal
from portal.wording.monitoring.usage_report import (
    COST_DEFINITIONS,
    DEFINITIONS,
    GROUP_WORDS,
    PARTS,
    show_cost,
    write_usage_csv,
)

USUAL = "30"
UNKNOWN = "?"
PERIODS: dict[str, str | Promise] = {
    "7": gettext_lazy("7 days"),
    "30": gettext_lazy("30 days"),
    "month": gettext_lazy("This month"),
    "last": gettext_lazy("Last month"),
}


@require_safe
@signed_in
def show_reports(request: HttpRequest) -> HttpResponse:
    return render_page(request, "reports/usage.html", {"page": UsagePage(cast(User, request.user), request.GET)})


@require_safe
@signed_in
def download_usage(request: HttpRequest) -> HttpResponse:
    page = UsagePage(cast(User, request.user), request.GET)
    response = HttpResponse(write_usage_csv(page.report), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{page.filename}"'
    return response


@dataclass(frozen=True)
class Row:
    """A group, or the sum of all. href: of what it is, or "". cost: None where no price is set."""

    name: str
    sums: Sums
    href: str = ""
    cost: Cost | None = None

    @property
    def hours(self) -> dict[str, str]:
        """Return each time in words; of what nobody saw only what was held is known."""
        known = ("held", "unknown") if self._is_unseen else ("held", "busy", *PARTS)
        shown = {name: show_hours(self.sums.count_hours(name)) for name in known}
        return {**dict.fromkeys(("busy", *PARTS), UNKNOWN), **shown}

    @property
    def costs(self) -> list[str]:
        return [show_cost(self.cost, name) for name in ("held", "idle")] if self.cost else []

    @property
    def active_percent(self) -> str:
        if self._is_unseen:
            return UNKNOWN
        return f"{100 * self.sums.active / self.sums.held:.0f} %" if self.sums.held else "–"

    @property
    def _is_unseen(self) -> bool:
        return bool(self.sums.held) and self.sums.unknown == self.sums.held

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


class UsagePage:
    """?by=team&period=30, or ?from=2026-11-01&to=2026-11-30, both days included. trouble: why these cannot be shown."""

    def __init__(self, user: User, get: Mapping[str, str]):
        self.user, self.now = user, timezone.now()
        self.by = get.get("by", "") if get.get("by", "") in GROUPS else "team"
        self.choice = get.get("period", USUAL) if get.get("period", USUAL) in PERIODS else USUAL
        self.trouble = ""
        self.period = read_choice(self.choice, self.now)
        self.asked = {name: get[name] for name in ("from", "to") if get.get(name)}
        if self.asked:
            self._read_days()

    def _read_days(self) -> None:
        try:
            first = date.fromisoformat(self.asked.get("from", ""))
            last = date.fromisoformat(self.asked.get("to", "") or self.now.date().isoformat())
            period = Period(_midnight(first), _midnight(last) + timedelta(days=1))
            check_period(period)
        except (ValueError, OverflowError):
            self.trouble, self.asked = _("Write days as 2026-11-01."), {}
        except InvalidInput as error:
            self.trouble, self.asked = describe_refusal(error), {}
        else:
            self.period, self.choice = period, ""

    @cached_property
    def report(self) -> UsageReport:
        return load_usage_report(self.user, self.by, self.period, self.now)

    @property
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
    def days(self) -> str:
        """Name the first and the last day."""
        edges = (("first", self.period.begins), ("last", self.last_day))
        names = {name: date_format(at, "DATE_FORMAT") for name, at in edges}
        return _("%(first)s to %(last)s") % names

    @property
    def last_day(self) -> datetime:
        return self.period.ends - timedelta(microseconds=1)

    @property
    def complete_to(self) -> datetime:
        return self.report.complete_to

    @property
    def periods(self) -> list[dict]:
        return [
            {"words": words, "href": "?" + urlencode({"by": self.by, "period": code}), "current": code == self.choice}
            for code, words in PERIODS.items()
        ]

    @property
    def groupings(self) -> list[dict]:
        return [
            {"words": words, "href": "?" + urlencode({**self._span(), "by": code}), "current": code == self.by}
            for code, words in GROUP_WORDS.items()
        ]

    def _span(self) -> dict[str, str]:
        return self.asked or {"period": self.choice}

    @property
    def csv(self) -> str:
        return urlencode({**self._span(), "by": self.by})

    @property
    def group(self) -> str | Promise:
        return GROUP_WORDS[self.by]

    @property
    def definitions(self) -> dict:
        return {**DEFINITIONS, **(COST_DEFINITIONS if self.costs else {})}

    @property
    def filename(self) -> str:
        return f"gpu-hours-by-{self.by}-{self.period.begins.date()}-{self.last_day.date()}.csv"


def read_choice(choice: str, now: datetime) -> Period:
    """Return a period of PERIODS, of whole days."""
    today = _midnight(now.date())
    tomorrow, month = today + timedelta(days=1), today.replace(day=1)
    if choice == "month":
        return Period(month, tomorrow)
    if choice == "last":
        return Period((month - timedelta(days=1)).replace(day=1), month)
    return Period(tomorrow - timedelta(days=int(choice)), tomorrow)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
