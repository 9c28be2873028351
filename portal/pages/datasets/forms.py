"""Forms of datasets: what is to be taken as a version, and who may read it."""

from collections.abc import Iterable
from typing import cast

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Team, User
from accounts.permissions import teams_where
from datasets.models import Dataset, DatasetKind, Share
from datasets.naming import MOST_NAME
from files.file_areas import list_file_areas

PLAIN = {"autocomplete": "off", "spellcheck": "false", "class": "mono"}
KINDS = ((DatasetKind.DATASET.value, _("dataset")), (DatasetKind.MODEL.value, _("model")))
SHARES = (
    (Share.TEAM.value, _("the team")),
    (Share.PRIVATE.value, _("only its owner")),
    (Share.EVERYBODY.value, _("everybody")),
)
SHARES_WITH_TEAMS = (*SHARES, (Share.TEAMS.value, _("the team and others named below")))
MOST_TEXT = 500


class VersionForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=MOST_NAME,
        help_text=_("Such as corpus. A name that the team has already gets its next version."),
        widget=forms.TextInput(attrs=PLAIN),
    )
    team = forms.ModelChoiceField(Team.objects.none(), label=_("Team"), to_field_name="name", empty_label=None)
    place = forms.ChoiceField(label=_("Folder of"))
    path = forms.CharField(
        label=_("Folder"),
        max_length=4000,
        strip=False,
        help_text=_("All files below it are the version. Take one that rests: what changes meanwhile is refused."),
        widget=forms.TextInput(attrs={**PLAIN, "placeholder": "data/corpus"}),
    )
    kind = forms.ChoiceField(label=_("Kind"), choices=KINDS)
    share = forms.ChoiceField(label=_("Who may read it"), choices=SHARES)
    note = forms.CharField(label=_("What is new"), max_length=MOST_TEXT, required=False)

    def __init__(self, *args: object, user: User, **named: object):
        super().__init__(*args, **named)  # type: ignore[arg-type]
        cast(forms.ModelChoiceField, self.fields["team"]).queryset = teams_where(user, "dataset.add")
        places = [(area.name, area.name) for area in list_file_areas(user)]
        cast(forms.ChoiceField, self.fields["place"]).choices = places


class ShareForm(forms.Form):
    share = forms.ChoiceField(label=_("Who may read it"), choices=SHARES_WITH_TEAMS)
    teams = forms.CharField(
        label=_("Other teams"),
        max_length=2000,
        required=False,
        help_text=_("Their names, with commas between."),
        widget=forms.TextInput(attrs=PLAIN),
    )
    description = forms.CharField(label=_("Description"), max_length=MOST_TEXT, required=False)

    def clean_teams(self) -> list[str]:
        return [name.strip() for name in self.cleaned_data["teams"].split(",") if name.strip()]


class StageForm(forms.Form):
    """version: none removes the stage."""

    stage = forms.CharField(
        label=_("Stage"), max_length=32, widget=forms.TextInput(attrs={**PLAIN, "placeholder": "prod"})
    )
    version = forms.TypedChoiceField(label=_("Version"), coerce=int, empty_value=None, required=False)

    def __init__(self, *args: object, versions: Iterable[int], **named: object):
        super().__init__(*args, **named)  # type: ignore[arg-type]
        choices = [*((number, f"v{number}") for number in versions), ("", _("none: remove it"))]
        cast(forms.ChoiceField, self.fields["version"]).choices = choices

    @property
    def stages(self) -> dict[str, int | None]:
        return {self.cleaned_data["stage"]: self.cleaned_data["version"]}


def show_values(dataset: Dataset) -> dict[str, str]:
    """Return what the form begins with."""
    teams = ", ".join(dataset.shared_with.order_by("name").values_list("name", flat=True))
    return {"share": dataset.share, "teams": teams, "description": dataset.description}
