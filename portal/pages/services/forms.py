"""Forms of services; services check what they say."""

from django import forms
from django.utils.translation import gettext_lazy as _

from jobs.jobfile.load import MAX_BYTES
from portal.pages.account.forms import DAYS
from services.keys import MOST_REQUESTS

UNTIL_ENDED = "ended"


class ServiceForm(forms.Form):
    job_file = forms.CharField(
        label=_("Job file"),
        max_length=MAX_BYTES,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "autocapitalize": "off"}),
        help_text=_("With kind: service, and under serve the port and how many replicas there may be."),
    )


class ScaleForm(forms.Form):
    replicas = forms.CharField(
        label=_("Replicas"),
        max_length=20,
        required=False,
        help_text=_("Such as 2 or 0..4, until a new file is rolled out. Empty: as the file says."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class LimitsForm(forms.Form):
    per_minute = forms.IntegerField(
        label=_("Requests a minute"),
        required=False,
        min_value=1,
        max_value=MOST_REQUESTS,
        help_text=_("At most; empty for as many as come."),
    )
    in_flight = forms.IntegerField(
        label=_("Requests in flight"),
        required=False,
        min_value=1,
        max_value=MOST_REQUESTS,
        help_text=_("At most at once, of all its programs together."),
    )


class KeyForm(LimitsForm):
    name = forms.CharField(
        label=_("Name"),
        max_length=64,
        help_text=_("What uses it, such as a bot."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    days = forms.TypedChoiceField(
        label=_("Valid for"),
        coerce=lambda chosen: None if chosen == UNTIL_ENDED else int(chosen),
        choices=[*DAYS, (UNTIL_ENDED, _("until I end it"))],
        initial=UNTIL_ENDED,
    )
