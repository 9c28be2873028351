"""Forms of notebooks."""

from collections.abc import Callable

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from accounts.permissions import teams_where
from common.errors import InvalidInput
from common.resources import parse_cpu, parse_gpu, parse_memory
from jobs.jobfile.values import SECRETS
from notebooks.changes import check_notebook_name
from portal.forms import bind
from portal.pages.jobs.form import gpu_of

LONGEST_NAME = 40
READERS: dict[str, Callable[[str], object]] = {
    "name": check_notebook_name,
    "gpu": lambda text: parse_gpu(text).text,
    "cpu": parse_cpu,
    "memory": parse_memory,
    "secrets": lambda text: SECRETS.read(text, "/secrets"),
}
"""Texts to what the services want, in the ledger's units."""


class NotebookForm(forms.Form):
    """Form of a new notebook; gpu is a radio beside a text field."""

    name = forms.CharField(
        label=_("Name"),
        max_length=LONGEST_NAME,
        help_text=_(
            "Lower-case letters, digits and dashes. It is the name of the notebook's folder and of its SSH host."
        ),
    )
    team = forms.ChoiceField(label=_("Team"), required=False)
    cpu = forms.CharField(label=_("CPU cores"), required=False, max_length=20)
    memory = forms.CharField(label=_("Memory"), required=False, max_length=20)
    environment = forms.CharField(
        label=_("Python environment"),
        required=False,
        max_length=200,
        help_text=_("Such as sd-train@3, read-only. Empty: packages of its own, which pip installs and which stay."),
    )
    secrets = forms.CharField(
        label=_("Secrets"),
        required=False,
        max_length=4000,
        help_text=_("Such as WANDB_API_KEY, HF_TOKEN: file. Each is a variable and a file, or a file alone."),
    )
    hours = forms.IntegerField(
        label=_("Hours"),
        required=False,
        min_value=1,
        max_value=24 * 30,
        help_text=_("The notebook stops after this time; its files are kept."),
    )

    def __init__(self, user: User, *args: object, **named: object):
        super().__init__(*args, **named)  # type: ignore[arg-type]
        teams = [team.name for team in teams_where(user, "job.submit")]
        self.fields["team"].choices = [(team, team) for team in teams]  # type: ignore[attr-defined]
        if len(teams) < 2:
            del self.fields["team"]
        for name in ("name", "cpu", "memory", "environment", "secrets"):
            self.fields[name].widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}
        self.fields["cpu"].widget.attrs["placeholder"] = _("the pool's default share")
        self.fields["memory"].widget.attrs["placeholder"] = _("the pool's default share")

    def clean(self) -> dict:
        said = {**(super().clean() or {}), "gpu": gpu_of(self.data)}
        for name, read in READERS.items():
            try:
                said[name] = read(said[name]) if said.get(name) else None
            except InvalidInput as error:
                bind(self, error)
        return said

    def values(self) -> dict:
        said = self.cleaned_data
        amounts = {"cpu_milli": said["cpu"], "memory_mib": said["memory"], "hours": said["hours"]}
        others = {"environment": said["environment"] or None, "secrets": said["secrets"] or {}}
        return {"gpu": said["gpu"], **others, **amounts}


class SettingsForm(NotebookForm):
    def __init__(self, user: User, *args: object, **named: object):
        super().__init__(user, *args, **named)
        for name in ("name", "team"):
            self.fields.pop(name, None)
