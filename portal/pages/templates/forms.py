"""Forms of templates: the one that a template's parameters make, and the one in which a template is written."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import Team, User
from accounts.permissions import teams_where
from common.errors import PlatformError
from job_templates.parameters import MAX_TEXT, Parameter
from job_templates.template_file import TemplateFile
from jobs.jobfile.load import MAX_BYTES
from portal.wording.errors import describe_field_error, describe_refusal

PREFIX = "v"
"""Keeps the names of parameters apart from those of other fields."""

EXAMPLES = {"gpu": "1/4", "cpu": "4", "memory": "16GB", "duration": "2h", "number": "3e-4", "integer": "10"}


class RunForm(forms.Form):
    """A field for each parameter, and the team if there is a choice of several."""

    def __init__(self, file: TemplateFile, user: User, data: Any = None, team: str = ""):
        """team: of the template, chosen first unless its file names another."""
        super().__init__(data, prefix=PREFIX)
        self.parameters = file.parameters
        for name, parameter in file.parameters.items():
            self.fields[name] = build_field(name, parameter)
        teams = [team.name for team in teams_where(user, "job.submit")]
        if len(teams) > 1:
            usual = file.data.get("team") or team
            choices = [("", _("Choose a team")), *((name, name) for name in teams)]
            self.fields["team:"] = forms.ChoiceField(
                label=_("Team"), choices=choices, initial=usual if usual in teams else "", required=False
            )

    def values(self) -> dict[str, Any]:
        """Return what was given, by parameter; render_job reads it."""
        return {name: self.cleaned_data.get(name) for name in self.parameters}

    def changes(self) -> dict[str, Any]:
        """Return keys of the job file that are said beside the parameters."""
        team = self.cleaned_data.get("team:", "")
        return {"team": team} if team else {}

    def refuse(self, error: PlatformError) -> None:
        """Show an error: each sentence at its parameter, others on top."""
        for one in getattr(error, "errors", []):
            name = one.pointer.removeprefix("/values/")
            told = replace(one, pointer=f"/{name}") if name in self.fields else one
            self.add_error(name if name in self.fields else None, describe_field_error(told))
        if not getattr(error, "errors", []):
            self.add_error(None, describe_refusal(error))


class TemplateForm(forms.Form):
    """The text of a template. team: only of a new one."""

    team = forms.ChoiceField(label=gettext_lazy("For whom"))
    file = forms.CharField(max_length=MAX_BYTES, strip=False, required=False)

    def __init__(self, *args: Any, teams: Iterable[tuple[str, str | Promise]] | None, **named: Any):
        super().__init__(*args, **named)
        if teams is None:
            del self.fields["team"]
        else:
            cast(forms.ChoiceField, self.fields["team"]).choices = list(teams)


def list_owners(user: User) -> list[tuple[str, str | Promise]]:
    """Return those for whom the user may create a template: {team's id, or "" for everybody: words}."""
    teams: list[tuple[str, str | Promise]] = [(str(t.pk), t.name) for t in teams_where(user, "template.create")]
    return [*teams, ("", gettext_lazy("Everybody"))] if user.is_admin else teams


def find_owner(user: User, choice: str) -> Team | None:
    return teams_where(user, "template.create").get(pk=int(choice)) if choice else None


def build_field(name: str, parameter: Parameter) -> forms.Field:
    """Return the control of a parameter. What it refuses is left to the parameter's own reader."""
    usual: dict[str, Any] = {"label": name, "help_text": describe_parameter(parameter), "initial": parameter.default}
    if parameter.kind == "boolean":
        return forms.BooleanField(required=False, **usual)
    if parameter.kind == "choice":
        words = [(word, word) for word in parameter.choices]
        empty = [("", _("Choose one"))] if parameter.is_required else []
        return forms.ChoiceField(choices=[*empty, *words], required=parameter.is_required, **usual)
    hints = {"spellcheck": "false", "autocomplete": "off", "placeholder": EXAMPLES.get(parameter.kind, "")}
    return forms.CharField(
        required=parameter.is_required, max_length=MAX_TEXT, strip=False, widget=forms.TextInput(attrs=hints), **usual
    )


def describe_parameter(parameter: Parameter) -> str:
    """Return its help and its limits in one line."""
    limits = {"least": parameter.least, "most": parameter.most}
    if parameter.least is not None and parameter.most is not None:
        words = _("From %(least)s to %(most)s.") % limits
    elif parameter.least is not None:
        words = _("At least %(least)s.") % limits
    elif parameter.most is not None:
        words = _("At most %(most)s.") % limits
    else:
        words = ""
    return f"{parameter.help} {words}".strip()
