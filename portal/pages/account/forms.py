"""Account forms; services validate."""

from django import forms
from django.contrib.auth.password_validation import password_validators_help_texts
from django.utils.functional import lazy
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from accounts.models import Team, TeamRole
from accounts.services import SCOPES

SCOPE_WORDS = {
    "jobs:read": _("Read jobs, logs and events"),
    "jobs:write": _("Submit, stop, retry, hold and release jobs"),
    "cluster:read": _("Read pools, nodes, GPUs and quotas"),
    "cluster:write": _("Plan maintenance, if you are an administrator"),
    "notebooks:read": _("Read your notebooks"),
    "notebooks:write": _("Create, start, stop, change and delete notebooks"),
    "files:read": _("Read your files and those of your teams"),
    "files:write": _("Upload, move and delete files"),
    "idle:write": _("Keep, exempt and release what is idle"),
    "tokens:write": _("Create and revoke tokens and SSH keys"),
    "webhooks:write": _("Create, change and delete webhooks"),
    "reports:read": _("Read the GPU time of your teams"),
    "metrics:scrape": _("Read the metrics of the platform, if you are an administrator or auditor"),
    "metrics:tasks": _("Read also the metrics of each running task"),
    "alerts:read": _("Read alerts and their rules"),
    "alerts:write": _("Acknowledge and silence alerts, and change rules, if you are an administrator"),
}
UNUSUAL_SCOPES = {"cluster:write", "webhooks:write", "metrics:scrape", "metrics:tasks", "alerts:write"}
"""Not ticked at first: what is, lets each command of a day's work go, `tessera ssh-key add` too."""
DAYS = ((7, _("7 days")), (30, _("30 days")), (90, _("90 days")), (366, _("a year")))
LONGEST_PASSWORD = 256


def password_rules() -> str:
    return " ".join(password_validators_help_texts())


class SignInForm(forms.Form):
    username = forms.CharField(
        label=_("User name"),
        max_length=64,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}),
    )
    password = forms.CharField(
        label=_("Password"),
        max_length=LONGEST_PASSWORD,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


def _new_password(label: object) -> forms.CharField:
    return forms.CharField(
        label=label,
        max_length=LONGEST_PASSWORD,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=lazy(password_rules, str)(),
    )


class JoinForm(forms.Form):
    username = forms.CharField(
        label=_("User name"),
        max_length=32,
        help_text=_(
            "1 to 32 lower-case letters, digits and hyphens, beginning with a letter. It cannot be changed later."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}),
    )
    full_name = forms.CharField(
        label=_("Your name"), max_length=100, required=False, widget=forms.TextInput(attrs={"autocomplete": "name"})
    )
    password = _new_password(_("Password"))


class PasswordForm(forms.Form):
    """Asks for the old password if there is one."""

    old = forms.CharField(
        label=_("Current password"),
        max_length=LONGEST_PASSWORD,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    new = _new_password(_("New password"))

    def __init__(self, *args, has_password: bool, **named):
        super().__init__(*args, **named)
        if not has_password:
            del self.fields["old"]


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=64,
        help_text=_("What the token is for, such as “laptop” or “nightly training”."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=[(scope, format_lazy("{words} ({scope})", words=SCOPE_WORDS[scope], scope=scope)) for scope in SCOPES],
        initial=[scope for scope in SCOPES if scope not in UNUSUAL_SCOPES],
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )
    days = forms.TypedChoiceField(label=_("Valid for"), coerce=int, choices=DAYS, initial=90)


class InviteForm(forms.Form):
    team = forms.ModelChoiceField(label=_("Team"), queryset=Team.objects.order_by("name"), empty_label=None)
    role = forms.ChoiceField(
        label=_("Role"),
        choices=TeamRole.choices,
        initial=TeamRole.MEMBER,
        help_text=_(
            "A viewer can read, a member can submit, and a lead can also stop others' work and submit urgent jobs."
        ),
    )
