"""The form of a schedule; services check it."""

from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from common.text import MAX_NAME
from jobs.jobfile.load import MAX_BYTES
from portal.pages.account.forms import ZONES
from schedules.cron import LONGEST
from schedules.models import Missed, Overlap, Schedule
from schedules.services import CHANGES, MOST_KEPT

PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class ScheduleForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=MAX_NAME, widget=forms.TextInput(attrs=PLAIN))
    cron = forms.CharField(
        label=_("Cron line"),
        max_length=LONGEST,
        widget=forms.TextInput(attrs={**PLAIN, "placeholder": "30 2 * * 1-5"}),
        help_text=_("Minute, hour, day, month and weekday: 30 2 * * 1-5 is 02:30 on weekdays."),
    )
    zone = forms.CharField(label=_("Time zone"), max_length=64, widget=forms.TextInput(attrs=ZONES))
    overlap = forms.ChoiceField(label=_("If the job of an earlier run is still open"), choices=Overlap.choices)
    missed = forms.ChoiceField(label=_("Times at which the platform was down"), choices=Missed.choices)
    until = forms.DateTimeField(
        label=_("Until"),
        required=False,
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
        help_text=_("Empty: until you suspend or delete it."),
    )
    keep = forms.IntegerField(label=_("Runs to keep in the list"), min_value=1, max_value=MOST_KEPT)
    job_file = forms.CharField(
        label=_("Job file"),
        max_length=MAX_BYTES,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "autocapitalize": "off"}),
        help_text=_("What each run submits, as you, in the team that it names."),
    )

    def values(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in CHANGES}


def show_values(schedule: Schedule) -> dict[str, Any]:
    """Return what the form shows of a schedule."""
    return {name: getattr(schedule, name) for name in CHANGES} | {"until": _localize(schedule.until)}


def _localize(moment: datetime | None) -> datetime | None:
    return moment and timezone.localtime(moment)
