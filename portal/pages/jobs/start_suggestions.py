"""Changes to a job file that would start a waiting job sooner, computed on request."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.utils import timezone

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
    """The suggestions for a job, if `is_offered` to the user."""

    def __init__(self, view: JobView):
        self.view = view

    @property
    def is_offered(self) -> bool:
        """Whether the job waits and the user may change it."""
        job = self.view.job
        return self.view.is_waiting and job.held_at is None and self.view.rights.may("job.levers", job)

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
        return forecast_job(self.view.job) if self.is_offered else JobForecast()
