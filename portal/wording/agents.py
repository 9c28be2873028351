"""Sentences about agents, for the admin site and the API."""

from datetime import datetime

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from cluster.agents import SILENT_AFTER
from cluster.models import Agent
from cluster.report_approval import HeldBack
from common.resources import show_memory, show_place

HELD_BACK = {
    "new_card": gettext_lazy("GPU %(index)s is new: %(model)s with %(memory)s. It gets no work until it is approved."),
    "other_model": gettext_lazy("GPU %(index)s reports that it is %(model)s, but was approved as %(approved)s."),
    "more_memory": gettext_lazy("GPU %(index)s reports %(memory)s to allocate, but was approved with %(approved)s."),
    "card_elsewhere": gettext_lazy(
        "GPU %(index)s (%(uuid)s) belongs to machine %(node)s. It counts here once it is gone from there."
    ),
}
STATES = {
    "reporting": gettext_lazy("reporting"),
    "silent": gettext_lazy("silent"),
    "new": gettext_lazy("has not reported yet"),
    "revoked": gettext_lazy("revoked"),
}


def command_of(token: str) -> str:
    """Return the shell command that enrols and runs an agent."""
    return f"TESSERA_AGENT_TOKEN={token} python -m agent --server {settings.TESSERA_PUBLIC_URL}"


def describe_held_back(held: HeldBack) -> str:
    params = {name: show_memory(value) for name, value in held.params.items() if name.endswith("_mib")}
    amounts = {name.removesuffix("_mib"): value for name, value in params.items()}
    return str(HELD_BACK[held.code]) % {"uuid": held.uuid, "index": show_place(held.index), **held.params, **amounts}


def state_of(agent: Agent, now: datetime | None = None) -> str:
    if agent.revoked_at is not None:
        return "revoked"
    if agent.reported_at is None:
        return "new"
    return "silent" if (now or timezone.now()) - agent.reported_at > SILENT_AFTER else "reporting"


def faults_of(agent: Agent) -> list[str]:
    """Return one sentence per broken or lost card."""
    gpus = [(gpu["index"], gpu["fault"]) for gpu in agent.report.get("gpus", ()) if gpu["fault"]]
    lost = [(place["index"], place["why"]) for place in agent.report.get("lost", ())]
    return [
        _("GPU %(index)s: %(why)s") % {"index": show_place(index), "why": why} for index, why in sorted([*gpus, *lost])
    ]
