"""View models of schedules, their runs and their next times."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from django.utils import timezone, translation
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from accounts.time_zones import is_zone
from common.errors import InvalidInput
from common.locks import database_now
from events.models import Event
from jobs.models import show_job_id
from portal.pages.jobs.view_model import JobRights
from portal.schedules.run_words import describe_why
from portal.wording.errors import describe_refusal
from portal.wording.events import describe_event
from portal.wording.time_of_day import name_moment
from schedules.cron import check_cron, describe_cron, list_next_ticks
from schedules.models import Outcome, Schedule, ScheduledRun, SuspendedWhy

TIMES = 5
MOST_EVENTS = 10
STATES: dict[str, tuple[str, str, str | Promise]] = {
    "active": ("done", "circle-check", gettext_lazy("Active")),
    "suspended": ("stale", "player-pause", gettext_lazy("Suspended")),
    "ended": ("stale", "check", gettext_lazy("Over")),
}
OUTCOMES: dict[str, tuple[str, str, str | Promise]] = {
    Outcome.DUE: ("wait", "hourglass", gettext_lazy("Due")),
    Outcome.SUBMITTED: ("done", "check", gettext_lazy("Submitted")),
    Outcome.SKIPPED: ("stale", "arrow-right", gettext_lazy("Left out")),
    Outcome.REFUSED: ("fault", "alert-circle", gettext_lazy("Refused")),
}


class RunView:
    def __init__(self, run: ScheduledRun):
        self.run = run
        self.chip = OUTCOMES[run.outcome]
        self.why = describe_why(run)
        self.job_id = show_job_id(run.job_id) if run.job_id else ""


@dataclass(frozen=True)
class EventLine:
    at: datetime
    actor: str
    words: str


class ScheduleView:
    """A schedule (with_names, with_last_run) as one user sees it."""

    def __init__(self, row: Schedule, rights: JobRights):
        self.row = row
        self.id = row.public_id
        self.may_change = rights.may("schedule.change", row)
        self.may_suspend = rights.may("schedule.suspend", row)
        self.may_delete = rights.may("schedule.delete", row)

    @property
    def is_own(self) -> bool:
        return self.may_change

    @property
    def chip(self) -> tuple[str, str, str | Promise]:
        return STATES[self.row.state]

    @property
    def why(self) -> str:
        """Say why the platform suspended it, or ""."""
        if self.row.suspended_why != SuspendedWhy.REFUSED:
            return ""
        return _(
            "Suspended because its job was refused %(count)s times in a row. Mend what the runs say, then resume."
        ) % {"count": self.row.refusals}

    @cached_property
    def last_chip(self) -> tuple[str, str, str | Promise] | None:
        return OUTCOMES.get(self.row.last_outcome)  # type: ignore[attr-defined]

    @property
    def last_job_id(self) -> str:
        pk = self.row.last_job_id  # type: ignore[attr-defined]
        return show_job_id(pk) if pk else ""

    @property
    def notebook_id(self) -> str:
        return self.row.notebook.public_id if self.row.notebook else ""

    @property
    def overlap_words(self) -> str:
        return self.row.get_overlap_display()

    @property
    def missed_words(self) -> str:
        return self.row.get_missed_display()

    @cached_property
    def runs(self) -> list[RunView]:
        return [RunView(run) for run in self.row.runs.order_by("-tick_at")]

    @property
    def is_due(self) -> bool:
        """Whether a run is about to be submitted, so that the page looks again."""
        return any(one.run.outcome == Outcome.DUE for one in self.runs)

    @cached_property
    def events(self) -> list[EventLine]:
        rows = Event.objects.filter(kind=Schedule.KIND, object_id=self.row.pk).order_by("-seq")[:MOST_EVENTS]
        return [EventLine(row.at, row.actor, describe_event(row)) for row in rows]


class Times:
    """The next times of a cron line that may be being typed."""

    def __init__(self, cron: str, zone: str, until: datetime | None = None):
        self.cron, self.zone, self.until = cron, zone, until

    @cached_property
    def error(self) -> str:
        """Say what is wrong with the line; "" if nothing is, or it is empty yet."""
        if not self.cron.strip():
            return ""
        try:
            check_cron(self.cron)
        except InvalidInput as error:
            return describe_refusal(error)
        return ""

    @property
    def words(self) -> str:
        """Say the line in words, which its library knows in English only."""
        is_english = (translation.get_language() or "").startswith("en")
        return describe_cron(self.cron) if is_english and self.is_known else ""

    @property
    def is_known(self) -> bool:
        return bool(self.cron.strip()) and not self.error and is_zone(self.zone)

    @property
    def next(self) -> list[str]:
        """Name the next times in the schedule's zone."""
        if not self.is_known:
            return []
        ticks = list_next_ticks(check_cron(self.cron), self.zone, database_now(), TIMES)
        with timezone.override(ZoneInfo(self.zone)):
            return [name_moment(at) for at in ticks if self.until is None or at <= self.until]


def view_schedules(rows: Iterable[Schedule], user: User) -> list[ScheduleView]:
    """Return views of schedules (with_names, with_last_run), with one query for each team."""
    rights = JobRights(user)
    return [ScheduleView(row, rights) for row in rows]
