"""The chart of one day: how many cards were held and active, by pool."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import urlencode

from django.utils.formats import date_format
from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.models import User
from cluster.models import Pool
from monitoring.series.day_use import DAY, FIRST, LAST, STEPS_S, DayUse, Slot, load_day_use
from monitoring.usage.report import Period
from portal.pages.reports.page import ReportPage
from portal.wording.monitoring.day_use import DEFINITIONS, PARTS, describe_day, show_cards, write_day_csv

ALL = ""


class DayPage(ReportPage):
    """?day=2026-11-26&by=dev&step=5: a day (UTC), today if left out; a pool, else all; minutes of a bar."""

    words, template, stem = gettext_lazy("Day"), "reports/day.html", "cards"
    definitions, mailable = DEFINITIONS, False

    def __init__(self, user: User, get: Mapping[str, str]):
        self.pools = dict(Pool.objects.order_by("name").values_list("name", "pk"))
        super().__init__(user, {"by": get.get("by", ALL)})
        self.step_s = next((step for step in STEPS_S if str(step // 60) == get.get("step")), STEPS_S[0])
        self.day = self.now.date()
        if asked := get.get("day") or get.get("from"):
            self._read_day(asked)
        begins = datetime.combine(self.day, time(), UTC)
        self.period = Period(begins, begins + DAY)

    def _read_day(self, asked: str) -> None:
        try:
            day = date.fromisoformat(asked)
        except ValueError:
            day = None
        if day is None or not FIRST <= day <= LAST:
            self.trouble = _("Write days as 2026-11-01.")
        else:
            self.day = day

    @property
    def groups(self) -> dict[str, str | Promise]:  # type: ignore[override]
        return {ALL: gettext_lazy("All pools"), **{name: name for name in self.pools}}

    @cached_property
    def use(self) -> DayUse:
        pools = list(self.pools.values()) if self.by == ALL else [self.pools[self.by]]
        return load_day_use(pools, self.day, self.step_s, self.now)

    @property
    def answer(self) -> str:
        return describe_day(self.use)

    @property
    def days(self) -> str:
        return date_format(self.day, "DATE_FORMAT")

    @cached_property
    def most(self) -> float:
        """The height of the chart, in cards."""
        return max((max(slot.capacity or 0, slot.held or 0) for slot in self.use.known), default=0) or 1

    @property
    def capacity(self) -> str:
        return show_cards(self.most)

    @property
    def chart(self) -> list[tuple[float, list[tuple[str, float]]]]:
        return [self._build_bar(slot) for slot in self.use.slots]

    def _build_bar(self, slot: Slot) -> tuple[float, list[tuple[str, float]]]:
        """Return nothing of what is not known, or to come."""
        whole = max(slot.capacity or 0, slot.held or 0)
        if not whole:
            return 0.0, []
        parts = [(tone, 100 * (getattr(slot, name) or 0) / whole) for name, (tone, _words) in PARTS.items()]
        return 100 * whole / self.most, [*parts, ("box", max(100 - sum(percent for _tone, percent in parts), 0))]

    @property
    def parts(self) -> list[dict]:
        """The legend, with how much of the cards' time each was."""
        known = {name: self.use.percent(name) or 0 for name in PARTS}
        told = [{"tone": PARTS[name][0], "words": PARTS[name][1], "percent": known[name]} for name in PARTS]
        return [*told, {"tone": "box", "words": _("Free"), "percent": max(100 - sum(known.values()), 0)}]

    @property
    def rows(self) -> list[dict]:
        return [
            {
                "at": date_format(slot.begins, "H:i"),
                "cells": [show_cards(getattr(slot, name)) for name in ("held", *PARTS, "capacity")],
            }
            for slot in self.use.slots[: self.use.begun]
        ]

    @property
    def steps(self) -> list[dict]:
        return [
            {
                "words": ngettext("%(count)s minute", "%(count)s minutes", step // 60) % {"count": step // 60},
                "href": "?" + urlencode({**self.own, "step": step // 60}),
                "current": step == self.step_s,
            }
            for step in STEPS_S
        ]

    @property
    def groupings(self) -> list[dict]:
        return [
            {"words": words, "href": "?" + urlencode({**self.own, "by": name}), "current": name == self.by}
            for name, words in self.groups.items()
        ]

    @property
    def own(self) -> dict[str, str]:
        return {"day": self.day.isoformat(), "by": self.by, "step": str(self.step_s // 60)}

    @property
    def before(self) -> str:
        return "?" + urlencode({**self.own, "day": (self.day - timedelta(days=1)).isoformat()})

    @property
    def after(self) -> str:
        """Link to the next day; "" if it has not begun."""
        if self.day >= self.now.date():
            return ""
        return "?" + urlencode({**self.own, "day": (self.day + timedelta(days=1)).isoformat()})

    @property
    def span(self) -> dict[str, str]:
        return {"from": self.day.isoformat(), "to": self.day.isoformat()}

    @property
    def query(self) -> str:
        return urlencode(self.own)

    @property
    def filename(self) -> str:
        return f"{self.stem}-{self.by or 'all-pools'}-{self.day}.csv"

    def write_csv(self) -> str:
        return write_day_csv(self.use)
