"""The list of notices as a person reads it: by days, and a run of the same news about many jobs as one row. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from jobs.models import Job
from portal.wording.notices import RUN_TITLES, NoticeView, describe_run, name_some

LEAST = 3
"""So many notices make a run; two are as well read by themselves."""
LONGEST = timedelta(hours=1)
"""Between the first and the last of a run."""


@dataclass(frozen=True)
class Line:
    """One row of the list: a notice, or a run of them, the newest first."""

    notices: Sequence[NoticeView]

    @property
    def is_run(self) -> bool:
        return len(self.notices) > 1

    @property
    def first(self) -> NoticeView:
        return self.notices[0]

    @property
    def key(self) -> int:
        """The id of the oldest: it stays while newer ones join the run, so that an open row stays open."""
        return self.notices[-1].row.pk

    @property
    def title(self) -> str:
        return describe_run(self.first.row.kind, len(self.notices)) if self.is_run else self.first.title

    @property
    def names(self) -> str:
        return name_some([one.row.params.get("name") or one.row.label for one in self.notices])

    @cached_property
    def unread_ids(self) -> list[int]:
        return [one.row.pk for one in self.notices if one.unread]


@dataclass(frozen=True)
class Day:
    day: date
    words: str
    lines: list[Line]


def list_days(notices: Iterable[NoticeView], now: datetime) -> list[Day]:
    """Group notices, the newest first, by the days of the reader's time zone."""
    days = groupby(notices, lambda one: timezone.localdate(one.row.created_at))
    today = timezone.localdate(now)
    return [Day(day, _name_day(day, today), _list_lines(list(of_day))) for day, of_day in days]


def _name_day(day: date, today: date) -> str:
    if day == today:
        return _("Today")
    return _("Yesterday") if day == today - timedelta(days=1) else date_format(day, "DATE_FORMAT")


def _list_lines(notices: list[NoticeView]) -> list[Line]:
    runs: list[list[NoticeView]] = []
    for notice in notices:
        if runs and _belongs_to(runs[-1], notice):
            runs[-1].append(notice)
        else:
            runs.append([notice])
    return [Line(part) for run in runs for part in ([run] if len(run) >= LEAST else [[one] for one in run])]


def _belongs_to(run: list[NoticeView], notice: NoticeView) -> bool:
    first, row = run[0].row, notice.row
    alike = row.kind in RUN_TITLES and row.kind == first.kind and first.object_kind == row.object_kind == Job.KIND
    return alike and first.created_at - row.created_at <= LONGEST
