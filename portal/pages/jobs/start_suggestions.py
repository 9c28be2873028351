"""Changes to a job file that would start a waiting job sooner, computed on request."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.utils import timezone

from jobs.models import Job
from jobs.states import JobState
from portal.chains.deciding_link import DecidingLink, find_deciding_link
from portal.pages.jobs.view_model import JobView
from portal.wording.plans import describe_change, describe_sooner_start
from scheduler.preview.preview import JobForecast, forecast_job


@dataclass(frozen=True)
class SuggestionRow:
    """A change, in words and as it is sent, and its start time."""

    words: str
    starts: str
    now: bool
    field: str
    value: str


class StartSuggestions:
    """The suggestions for a job, or for the one before it that decides, if `is_offered` to the user."""

    def __init__(self, view: JobView):
        self.view = view

    @cached_property
    def link(self) -> DecidingLink | None:
        """Return the job before it that decides when it starts."""
        return find_deciding_link(self.view.rights.user, self.view.job)

    @property
    def job(self) -> Job:
        """The job whose changes help: what it waits for, else itself."""
        return self.link.job if self.link else self.view.job

    @property
    def is_offered(self) -> bool:
        """Whether that job waits and the user may change it."""
        waits = self.view.is_waiting and self.view.job.held_at is None
        waits = waits and self.job.state == JobState.QUEUED and self.job.held_at is None
        return waits and self.view.rights.may("job.levers", self.job)

    @cached_property
    def suggestions(self) -> list[SuggestionRow]:
        return [
            SuggestionRow(describe_change(one), describe_sooner_start(one), one.now, one.change.field, one.change.value)
            for one in self._outlook.sooner
        ]

    @cached_property
    def as_of(self) -> datetime:
        return timezone.now()

    @property
    def is_complete(self) -> bool:
        """Whether all changes were tried before the time ran out."""
        return self._outlook.whole

    @cached_property
    def _outlook(self) -> JobForecast:
        return forecast_job(self.job) if self.is_offered else JobForecast()
