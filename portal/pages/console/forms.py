"""Forms of people, their limits, and teams; the services check what they are given."""

from django import forms
from django.core.validators import validate_email
from django.forms.models import construct_instance
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from accounts.models import PlatformRole, Team, TeamRole
from portal.console.fields import cards, cores, memory
from quotas.models import UserLimit

MOST_INVITED = 50


def _count(label: Promise, least: int = 0) -> forms.IntegerField:
    widget = forms.TextInput(attrs={"size": 12, "inputmode": "numeric", "autocomplete": "off"})
    return forms.IntegerField(label=label, required=False, min_value=least, max_value=10**6, widget=widget)


def begin_labels_large(form: forms.BaseForm) -> None:
    """Write labels as the console does; those of Django's admin, from the models, begin small."""
    for field in form.fields.values():
        field.label = capfirst(str(field.label))


class TeamChoice(forms.ModelChoiceField):
    def __init__(self, **named):
        super().__init__(queryset=Team.objects.order_by("name"), label=named.pop("label", _("Team")), **named)


class CheckedBySaving(forms.ModelForm):
    """Checks each field; what rows may not have together the service says that saves them."""

    def _post_clean(self) -> None:
        try:
            self.instance = construct_instance(self, self.instance, list(self.fields))
            self.instance.clean_fields(exclude=self._get_validation_exclusions())  # type: ignore[attr-defined]
        except forms.ValidationError as wrong:
            self._update_errors(wrong)  # type: ignore[attr-defined]  # the stubs leave Django's own hooks out


class PersonForm(forms.Form):
    full_name = forms.CharField(label=_("Name"), max_length=100, required=False)
    email = forms.EmailField(label=_("E-mail"), required=False)
    platform_role = forms.ChoiceField(
        label=_("Platform role"),
        choices=PlatformRole.choices,
        help_text=_("An auditor reads everything, an admin changes everything. Most people have none."),
    )


class NewPersonForm(forms.Form):
    username = forms.CharField(label=_("User name"), max_length=32)
    full_name = forms.CharField(label=_("Name"), max_length=100, required=False)
    team = TeamChoice(empty_label=None)
    role = forms.ChoiceField(label=_("Role"), choices=TeamRole.choices, initial=TeamRole.MEMBER)


class InviteForm(forms.Form):
    """emails: with commas or spaces between; empty for one link only."""

    emails = forms.CharField(
        label=_("Mail addresses, one or several"),
        max_length=4000,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "inputmode": "email"}),
        help_text=_("Empty: one link, to send yourself."),
    )
    team = TeamChoice(empty_label=None)
    role = forms.ChoiceField(label=_("Role"), choices=TeamRole.choices, initial=TeamRole.MEMBER)

    def clean_emails(self) -> list[str]:
        found = self.cleaned_data["emails"].replace(",", " ").replace(";", " ").split()
        if len(found) > MOST_INVITED:
            raise forms.ValidationError(_("Invite at most %(max)s people at once."), params={"max": MOST_INVITED})
        for address in found:
            try:
                validate_email(address)
            except forms.ValidationError:
                wrong = {"got": address[:80]}
                raise forms.ValidationError(_("“%(got)s” is not a mail address."), params=wrong) from None
        return list(dict.fromkeys(found))


class LimitForm(CheckedBySaving):
    gpu_milli = cards(label=_("GPUs"), help_text=_("In cards, for example 1.5 or 1/4."))
    cpu_milli = cores(label=_("CPU"), help_text=_("In cores, for example 8 or 0.5."))
    memory_mib = memory(label=_("Memory"), help_text=_("With a unit, for example 64GB."))
    jobs_running = _count(_("Jobs running"))
    jobs_waiting = _count(_("Jobs waiting"))
    notebooks_running = _count(_("Notebooks running"))
    notebook_hours = _count(_("Hours of a notebook"), least=1)

    class Meta:
        model = UserLimit
        fields = UserLimit.FIELDS


class RoleForm(forms.Form):
    role = forms.ChoiceField(label=_("Role"), choices=TeamRole.choices, initial=TeamRole.MEMBER)


class MemberForm(RoleForm):
    person = forms.CharField(label=_("User name"), max_length=32, widget=forms.TextInput(attrs={"list": "people"}))
    field_order = ("person", "role")


class MembershipForm(RoleForm):
    team = TeamChoice(empty_label=None)
    field_order = ("team", "role")


class TeamForm(forms.Form):
    title = forms.CharField(label=_("Title"), max_length=100, required=False)
    parent = TeamChoice(
        label=_("Parent"), required=False, empty_label=_("none"), help_text=_("Its limits hold for this team, too.")
    )


class NewTeamForm(TeamForm):
    name = forms.CharField(
        label=_("Name"), max_length=32, help_text=_("Lower-case letters, digits and hyphens. It never changes.")
    )
    field_order = ("name", "title", "parent")
