"""What all reports have: a period, a grouping, and the same as CSV."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from common.errors import InvalidInput
from monitoring.usage.report import Period
from portal.access.usage_reports import check_period
from portal.wording.errors import describe_refusal

USUAL = "30"
PERIODS: dict[str, str | Promise] = {
    "7": gettext_lazy("7 days"),
    "30": gettext_lazy("30 days"),
    "month": gettext_lazy("This month"),
    "last": gettext_lazy("Last month"),
}


class ReportPage:
    """?by=team&period=30, or ?from=2026-11-01&to=2026-11-30, both days included. trouble: why these cannot be shown.

    Each report says its words for the tab, its template (over reports/_page.html), the stem of its files' names, its
    groups, the usual one first, what its figures mean, and whether it can be mailed for a week or a month.
    """

    words: str | Promise
    template: str
    stem: str
    groups: Mapping[str, str | Promise]
    definitions: Mapping[str | Promise, str | Promise]
    mailable = True

    def __init__(self, user: User, get: Mapping[str, str]):
        self.user, self.now = user, timezone.now()
        self.by = get.get("by", "") if get.get("by", "") in self.groups else next(iter(self.groups))
        self.choice = get.get("period", USUAL) if get.get("period", USUAL) in PERIODS else USUAL
        self.trouble = ""
        self.period = read_choice(self.choice, self.now)
        self.asked = {name: get[name] for name in ("from", "to") if get.get(name)}
        if self.asked:
            self._read_days()

    def write_csv(self) -> str:
        raise NotImplementedError

    @property
    def answer(self) -> str:
        """The report in a sentence."""
        raise NotImplementedError

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

    @property
    def complete_to(self) -> datetime:
        return min(self.period.ends, self.now)

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
    def periods(self) -> list[dict]:
        return [
            {"words": words, "href": "?" + urlencode({"by": self.by, "period": code}), "current": code == self.choice}
            for code, words in PERIODS.items()
        ]

    @property
    def groupings(self) -> list[dict]:
        return [
            {"words": words, "href": "?" + urlencode({**self.span, "by": code}), "current": code == self.by}
            for code, words in self.groups.items()
        ]

    @property
    def group(self) -> str | Promise:
        return self.groups[self.by]

    @property
    def span(self) -> dict[str, str]:
        """The query that asks for this period."""
        return self.asked or {"period": self.choice}

    @property
    def query(self) -> str:
        return urlencode({**self.span, "by": self.by})

    @property
    def filename(self) -> str:
        return f"{self.stem}-by-{self.by}-{self.period.begins.date()}-{self.last_day.date()}.csv"


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
