"""The form of a schedule; services check it."""

from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from common.text import MAX_NAME
from jobs.jobfile.load import MAX_BYTES
from notebooks.models import Notebook
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
    notebook = forms.ChoiceField(
        label=_("Start a notebook"),
        required=False,
        help_text=_("One of yours, instead of a job."),
    )
    stop_at = forms.TimeField(
        label=_("Stop it at"),
        required=False,
        widget=forms.TimeInput(format="%H:%M", attrs={"type": "time"}),
        help_text=_("By the same clock. Empty: after the hours of its own settings."),
    )
    job_file = forms.CharField(
        label=_("Job file"),
        required=False,
        max_length=MAX_BYTES,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "autocapitalize": "off"}),
        help_text=_("What each run submits, as you, in the team that it names."),
    )

    def __init__(self, user: User, *args: Any, **named: Any):
        super().__init__(*args, **named)
        own = Notebook.objects.live().filter(user=user).order_by("name")
        choices = [("", _("No, submit a job")), *((one.public_id, one.name) for one in own)]
        self.fields["notebook"].choices = choices  # type: ignore[attr-defined]

    def values(self) -> dict[str, Any]:
        """Return what services take; where a notebook is chosen, what is only for jobs is left out."""
        said = {name: self.cleaned_data[name] for name in CHANGES}
        if not said["notebook"]:
            return {**said, "notebook": None, "stop_at": None}
        return {**said, "job_file": "", "overlap": Overlap.SKIP}


def show_values(schedule: Schedule) -> dict[str, Any]:
    """Return what the form shows of a schedule."""
    shown = {name: getattr(schedule, name) for name in CHANGES} | {"until": _localize(schedule.until)}
    return shown | {"notebook": schedule.notebook.public_id if schedule.notebook else ""}


def _localize(moment: datetime | None) -> datetime | None:
    return moment and timezone.localtime(moment)
