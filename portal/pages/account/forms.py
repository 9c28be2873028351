"""Account forms; services validate."""

from django import forms
from django.conf import settings
from django.contrib.auth.password_validation import password_validators_help_texts
from django.utils.functional import lazy
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from accounts.scopes import SCOPES

SCOPE_WORDS = {
    "jobs:read": _("Read jobs, logs and events"),
    "jobs:write": _("Submit, stop, retry, hold and release jobs"),
    "cluster:read": _("Read pools, nodes, GPUs and quotas"),
    "cluster:write": _("Plan maintenance, if you are an administrator"),
    "notebooks:read": _("Read your notebooks"),
    "notebooks:write": _("Create, start, stop, change and delete notebooks"),
    "services:call": _("Call services"),
    "files:read": _("Read your files and those of your teams"),
    "files:write": _("Upload, move and delete files"),
    "idle:write": _("Keep, exempt and release what is idle"),
    "tokens:write": _("Create and revoke tokens and SSH keys"),
    "secrets:write": _("Set and delete secrets, and list them without their values"),
    "webhooks:write": _("Create, change and delete webhooks"),
    "reports:read": _("Read the GPU time of your teams"),
    "profile:write": _("Change your name, mail address, language and time zone"),
    "metrics:scrape": _("Read the metrics of the platform, if you are an administrator or auditor"),
    "metrics:tasks": _("Read also the metrics of each running task"),
    "alerts:read": _("Read alerts and their rules"),
    "alerts:write": _("Acknowledge and silence alerts, and change rules, if you are an administrator"),
    "people:write": _("Read and change people and teams, if you are an administrator"),
    "quotas:write": _("Change quotas and limits, if you are an administrator"),
    "audit:read": _("Read the audit log, if you are an administrator or auditor"),
}
UNUSUAL_SCOPES = {
    "profile:write",
    "cluster:write",
    "webhooks:write",
    "metrics:scrape",
    "metrics:tasks",
    "alerts:write",
    "people:write",
    "quotas:write",
    "audit:read",
}
"""Not ticked at first: what is, lets each command of a day's work go, `tessera ssh-key add` too."""
DAYS = ((7, _("7 days")), (30, _("30 days")), (90, _("90 days")), (366, _("a year")))
LONGEST_PASSWORD = 256
ZONES = {"list": "zones", "autocomplete": "off", "spellcheck": "false"}
"""A field that account/_zones.html offers names of time zones for."""


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


class ProfileForm(forms.Form):
    full_name = forms.CharField(
        label=_("Your name"), max_length=100, required=False, widget=forms.TextInput(attrs={"autocomplete": "name"})
    )
    email = forms.CharField(
        label=_("E-mail address"),
        max_length=254,
        required=False,
        help_text=_("Notifications and reports are mailed there. It signs nobody in: that is what the user name does."),
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    language = forms.ChoiceField(
        label=_("Language"), required=False, choices=[("", _("The browser’s language")), *settings.LANGUAGES]
    )
    time_zone = forms.CharField(
        label=_("Time zone"),
        max_length=64,
        required=False,
        help_text=format_lazy(
            _("Type a part of its name, such as “Shanghai”. Left empty, pages and mails say times of {zone}."),
            zone=settings.TIME_ZONE,
        ),
        widget=forms.TextInput(attrs=ZONES),
    )


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
