"""Admin pages of agents and their enrolment."""

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from cluster.agents import approve_agent, check_agents, invite_agent, revoke_agent
from cluster.models import Agent, Enrolment
from common.errors import StaleState
from portal.console.machines import FoundAdmin, KeptAdmin
from portal.console.people import become
from portal.wording.agents import STATES, command_of, describe_held_back, faults_of, state_of
from portal.wording.errors import describe_error


class EnrolmentForm(forms.ModelForm):
    class Meta:
        model = Enrolment
        fields = ("node_name",)
        help_texts = {
            "node_name": gettext_lazy(
                "The machine's name in the engine. The token is shown once; it enrols one agent within 15 "
                "minutes, and older tokens of this machine stop working."
            ),
        }


class EnrolmentAdmin(KeptAdmin):
    form = EnrolmentForm
    list_display = ("node_name", "created_by", "created_at", "expires_at", "used_at", "stage")
    ordering = ("-created_at",)

    def has_change_permission(self, request: HttpRequest, obj: Enrolment | None = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Enrolment, form: EnrolmentForm, change: bool) -> None:
        row, token = invite_agent(actor=request.user.as_actor, node_name=obj.node_name)
        become(obj, row)
        words = _("Run this on %(node)s within 15 minutes. It is shown only once: %(command)s")
        messages.success(request, words % {"node": row.node_name, "command": command_of(token)})

    @admin.display(description=gettext_lazy("stage"))
    def stage(self, row: Enrolment) -> str:
        if row.used_at is not None:
            return _("used")
        return _("expired") if row.expires_at <= timezone.now() else _("pending")


class AgentForm(forms.ModelForm):
    """`seen` names what was shown, so that nothing newer is approved."""

    approve = forms.BooleanField(
        label=gettext_lazy("approve what is waiting"),
        required=False,
        help_text=gettext_lazy("The cards may be used as listed above. Anything beyond that needs approval again."),
    )
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Agent
        fields = ()

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.initial["seen"] = check_agents([self.instance])[0].seen


class AgentAdmin(FoundAdmin):
    form = AgentForm
    told = ("node_name", "state", "enrolled_at", "reported_at", "version", "cards", "faults", "waits")
    readonly_fields = told
    list_display = ("node_name", "state", "reported_at", "version", "cards", "waiting")
    search_fields = ("node_name",)
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: Agent | None = None) -> tuple[str, ...]:
        return (*self.told, "approve", "seen") if self.has_change_permission(request, obj) else self.told

    def save_model(self, request: HttpRequest, obj: Agent, form: AgentForm, change: bool) -> None:
        if not form.cleaned_data["approve"]:
            return
        try:
            approve_agent(actor=request.user.as_actor, node_name=obj.node_name, seen=form.cleaned_data["seen"])
        except StaleState as stale:
            self.message_user(request, f"{obj.node_name}: {describe_error(stale)}", messages.WARNING)

    @admin.action(description=gettext_lazy("Revoke: the key stops working"), permissions=["change"])
    def revoke(self, request: HttpRequest, agents) -> None:
        for agent in agents:
            revoke_agent(actor=request.user.as_actor, node_name=agent.node_name)

    @admin.display(description=gettext_lazy("state"))
    def state(self, agent: Agent) -> str:
        return str(STATES[state_of(agent)])

    @admin.display(description=gettext_lazy("version"))
    def version(self, agent: Agent) -> str:
        return agent.report.get("agent", "")

    @admin.display(description=gettext_lazy("cards"))
    def cards(self, agent: Agent) -> str:
        models = [gpu["model"] for gpu in agent.report.get("gpus", ())]
        return ", ".join(f"{models.count(name)} × {name}" for name in dict.fromkeys(models)) or "–"

    @admin.display(description=gettext_lazy("out of service"))
    def faults(self, agent: Agent) -> SafeString | str:
        return _lines(faults_of(agent))

    @admin.display(description=gettext_lazy("waiting for approval"))
    def waits(self, agent: Agent) -> SafeString | str:
        return _lines([describe_held_back(held) for held in check_agents([agent])[0].held_back])

    @admin.display(description=gettext_lazy("waiting for approval"), boolean=True)
    def waiting(self, agent: Agent) -> bool:
        return bool(check_agents([agent])[0].held_back)


def _lines(texts: list[str]) -> SafeString | str:
    return format_html_join("", "<div>{}</div>", ((text,) for text in texts)) or "–"
