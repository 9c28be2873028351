"""Changes to a job file that would start a waiting job sooner, computed on request."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from portal.pages.jobs.view_model import JobView
from portal.wording.plans import describe_change, describe_sooner_start
from scheduler.preview.preview import JobForecast, Suggestion, forecast_job


@dataclass(frozen=True)
class SuggestionRow:
    """A change, its start time and the form's URL."""

    words: str
    starts: str
    now: bool
    address: str


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
        return [_build_suggestion_row(one, self.view.id) for one in self._outlook.sooner]

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


def _build_suggestion_row(sooner: Suggestion, job_id: str) -> SuggestionRow:
    change = sooner.change
    address = f"{reverse('job_new')}?{urlencode({'from': job_id, change.field: change.value})}"
    return SuggestionRow(describe_change(sooner), describe_sooner_start(sooner), sooner.now, address)
