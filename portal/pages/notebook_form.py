"""The form of a new notebook, and that of its settings. What a value means is judged by the services."""

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from common.resources import parse_cpu, parse_gpu, parse_memory
from portal.pages.job_form import gpu_of
from portal.pages.sizes import teams_of

LONGEST_NAME = 40


class NotebookForm(forms.Form):
    """gpu comes as a radio, beside which another size may be typed (portal.pages.job_form.gpu_of)."""

    name = forms.CharField(
        label=_("Name"),
        max_length=LONGEST_NAME,
        help_text=_("Small letters, digits and dashes. It names the notebook's folder, and its host for SSH."),
    )
    team = forms.ChoiceField(label=_("Team"), required=False)
    cpu = forms.CharField(label=_("CPU cores"), required=False, max_length=20)
    memory = forms.CharField(label=_("Memory"), required=False, max_length=20)
    hours = forms.IntegerField(
        label=_("Hours"),
        required=False,
        min_value=1,
        max_value=24 * 30,
        help_text=_("It is stopped after so many; its files stay."),
    )

    def __init__(self, user: User, *args: object, **named: object):
        super().__init__(*args, **named)  # type: ignore[arg-type]
        teams = teams_of(user)
        self.fields["team"].choices = [(team, team) for team in teams]  # type: ignore[attr-defined]
        if len(teams) < 2:
            del self.fields["team"]
        for name in ("name", "cpu", "memory"):
            self.fields[name].widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}
        self.fields["cpu"].widget.attrs["placeholder"] = _("the pool's share")
        self.fields["memory"].widget.attrs["placeholder"] = _("the pool's share")

    def values(self) -> dict:
        """What the service wants, in the ledger's units. Raises InvalidInput."""
        said = self.cleaned_data
        cpu, memory = said.get("cpu", "").strip(), said.get("memory", "").strip()
        return {
            "gpu": parse_gpu(gpu_of(self.data)).text,
            "cpu_milli": parse_cpu(cpu) if cpu else None,
            "memory_mib": parse_memory(memory) if memory else None,
            "hours": said.get("hours"),
        }


class SettingsForm(NotebookForm):
    """Everything but the name and the team, which never change."""

    def __init__(self, user: User, *args: object, **named: object):
        super().__init__(user, *args, **named)
        for name in ("name", "team"):
            self.fields.pop(name, None)
