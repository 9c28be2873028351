"""Machines: take several out of service and back, and approve, refuse and invite their agents."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.permissions import require
from cluster.agents import Judged, approve_agent, check_agents, invite_agent, revoke_agent
from cluster.models import Agent, Enrolment, Node, NodeState, Pool
from cluster.nodes import cordon_node, drain_node, uncordon_node
from common.errors import NotFound, StaleState
from events.record_and_publish import Actor
from monitoring.checks import list_wrong_checks
from monitoring.models import CheckState, NodeCheck
from portal.access.admin_lists import JobThere, list_jobs_on
from portal.access.redacted_rows import filter_nodes, view_nodes
from portal.forms import save
from portal.pages.cluster.machines import Machine, build_machines, show_moment
from portal.pages.console.page import for_staff, person_of, show
from portal.wording.agents import STATES, command_of, describe_held_back, faults_of, state_of
from portal.wording.errors import describe_error
from portal.wording.monitoring.check_words import name_check

ON_A_PAGE = 50
MOST_JOBS = 200
"""Shown before machines go out of service."""
SERVICES: dict[str, Callable[..., None]] = {"cordon": cordon_node, "drain": drain_node, "uncordon": uncordon_node}
TITLES = {
    "cordon": gettext_lazy("Cordon"),
    "drain": gettext_lazy("Drain"),
    "uncordon": gettext_lazy("Back into service"),
}


class InviteForm(forms.Form):
    node = forms.CharField(
        label=gettext_lazy("Machine"),
        max_length=63,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("Its name in the engine: of the node in Kubernetes, or its host name."),
    )


class ServiceForm(forms.Form):
    why = forms.CharField(
        label=gettext_lazy("Reason, for everyone to read"),
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


@dataclass(frozen=True)
class MachineLine:
    """wrong: its checks that fail or warn, worst first. agent: None for a machine without one."""

    machine: Machine
    wrong: list[NodeCheck]
    agent: Agent | None

    @property
    def jobs(self) -> int:
        return len({task.job_id for task in self.machine.view.tasks})

    @property
    def active_percent(self) -> int | None:
        """Return how busy its cards are, those that are known."""
        uses = [card.view.use.busy_percent for card in self.machine.cards if card.view.use is not None]
        known = [percent for percent in uses if percent is not None]
        return round(fmean(known)) if known else None

    @property
    def fails(self) -> bool:
        return any(check.state == CheckState.FAIL for check in self.wrong)

    @property
    def health(self) -> str:
        return ", ".join(dict.fromkeys(name_check(check.name) for check in self.wrong))

    @property
    def agent_state(self) -> str:
        return str(STATES[state_of(self.agent)]) if self.agent else ""

    @property
    def is_silent(self) -> bool:
        return self.agent is not None and state_of(self.agent) != "reporting"

    @property
    def version(self) -> str:
        return self.agent.report.get("agent", "") if self.agent else ""


@dataclass(frozen=True)
class AskingAgent:
    """An agent that waits for a person. is_known: some of its cards were approved before."""

    judged: Judged

    @property
    def agent(self) -> Agent:
        return self.judged.agent

    @property
    def waits(self) -> list[str]:
        return [describe_held_back(held) for held in self.judged.held_back]

    @property
    def faults(self) -> list[str]:
        return faults_of(self.agent)

    @property
    def is_known(self) -> bool:
        return bool(self.agent.approved)

    @property
    def facts(self) -> str:
        """Return what it says of itself: cards, driver, kernel, its version."""
        report = self.agent.report
        models = [gpu["model"] for gpu in report.get("gpus", ())]
        cards = [f"{models.count(name)} × {name}" for name in dict.fromkeys(models)]
        driver, kernel = report.get("driver", ""), report.get("host", {}).get("kernel", "")
        told = [_("driver %(version)s") % {"version": driver}] if driver else []
        told += [_("kernel %(version)s") % {"version": kernel}] if kernel else []
        told += [_("agent %(version)s") % {"version": report["agent"]}] if report.get("agent") else []
        return " · ".join(cards + told)


@require_safe
@for_staff
def list_machines(request: HttpRequest) -> HttpResponse:
    return show_machines(request)


@require_http_methods(["GET", "POST"])
@for_staff
def change_service(request: HttpRequest) -> HttpResponse:
    """Say what it means for jobs to take the chosen machines out of service or back, or do it."""
    actor = person_of(request)
    require(actor, "node.change")
    sent = request.POST if request.method == "POST" else request.GET
    to, nodes = sent.get("to", ""), find_nodes(sent.getlist("node"))
    if to not in SERVICES or not nodes:
        messages.warning(request, _("Choose one machine or several, and what to do."))
        return redirect("console_machines")
    form = ServiceForm(request.POST or None)
    if save(form, lambda: _change_all(actor.as_actor, nodes, to, form.cleaned_data["why"])):
        words = ngettext("%(what)s: %(count)s machine.", "%(what)s: %(count)s machines.", len(nodes))
        messages.success(request, words % {"what": TITLES[to], "count": len(nodes)})
        return redirect("console_machines")
    jobs = list_jobs_on(nodes)
    context = {
        "to": to,
        "title": TITLES[to],
        "nodes": nodes,
        "form": form,
        "jobs": jobs[:MOST_JOBS],
        "more": max(len(jobs) - MOST_JOBS, 0),
        "answer": describe_effect(to, nodes, jobs),
    }
    status = 400 if form.is_bound else 200
    return show(request, "console/machine_service.html", context, current="console_machines", status=status)


@require_POST
@for_staff
def invite(request: HttpRequest) -> HttpResponse:
    """Show the command that joins a machine, once."""
    actor = person_of(request)
    require(actor, "node.change")
    form = InviteForm(request.POST)
    made = save(form, lambda: invite_agent(actor=actor.as_actor, node_name=form.cleaned_data["node"].strip()))
    return show_machines(request, form=None if made else form, command=command_of(made[1]) if made else "")


@require_POST
@for_staff
def approve(request: HttpRequest, name: str) -> HttpResponse:
    """Approve what a machine's agent reported, if it is still what was shown."""
    user = person_of(request)
    require(user, "node.change")
    try:
        approve_agent(actor=user.as_actor, node_name=name, seen=request.POST.get("seen", ""))
        messages.success(request, _("The cards of %(name)s take work from now on.") % {"name": name})
    except StaleState as stale:
        messages.warning(request, describe_error(stale))
    return redirect("console_machines" if request.POST.get("from") == "machines" else "console")


@require_POST
@for_staff
def refuse(request: HttpRequest, name: str) -> HttpResponse:
    """Revoke the key of an agent that asks to join."""
    require(person_of(request), "node.change")
    revoke_agent(actor=person_of(request).as_actor, node_name=name)
    messages.success(request, _("The agent of %(name)s is refused: its key stopped working.") % {"name": name})
    return redirect("console_machines")


def show_machines(request: HttpRequest, form: InviteForm | None = None, command: str = "") -> HttpResponse:
    words, pool, state = (request.GET.get(name, "")[:64] for name in ("q", "pool", "state"))
    nodes = filter_nodes(words=words, pool=pool, state=state)
    page = Paginator(nodes, ON_A_PAGE).get_page(request.GET.get("page"))
    asking, invited = list_asking(), list_invited()
    context = {
        "page": page,
        "lines": list_lines(build_machines(view_nodes(person_of(request), page))),
        "asking": asking,
        "invited": invited,
        "answer": _answer(len(asking)),
        "form": form or InviteForm(),
        "command": command,
        "q": words,
        "pool": pool,
        "state": state,
        "pools": Pool.objects.values_list("name", flat=True),
        "states": NodeState.choices,
        "any": bool(words or pool or state or page.paginator.count),
    }
    status = 400 if form is not None else 200
    return show(request, "console/machines.html", context, current="console_machines", status=status)


def list_lines(machines: list[Machine]) -> list[MachineLine]:
    wrong: dict[int, list[NodeCheck]] = defaultdict(list)
    for check in list_wrong_checks():
        wrong[check.node_id].append(check)
    names = [machine.node.name for machine in machines]
    agents = {agent.node_name: agent for agent in Agent.objects.filter(node_name__in=names, revoked_at=None)}
    return [MachineLine(one, wrong[one.node.pk], agents.get(one.node.name)) for one in machines]


def list_asking() -> list[AskingAgent]:
    """Return agents with something to approve, and those that have not reported yet."""
    agents = Agent.objects.filter(revoked_at__isnull=True)
    return [AskingAgent(one) for one in check_agents(agents) if one.held_back or one.agent.reported_at is None]


def list_invited() -> list[Enrolment]:
    rows = Enrolment.objects.filter(used_at__isnull=True, expires_at__gt=timezone.now())
    return list(rows.order_by("node_name"))


def find_nodes(names: list[str]) -> list[Node]:
    """Return the named machines that are there. Raises NotFound."""
    found = list(Node.objects.present().filter(name__in=names).order_by("name"))
    if missing := set(names) - {node.name for node in found}:
        raise NotFound(kind="node", id=min(missing))
    return found


def describe_effect(to: str, nodes: list[Node], jobs: list[JobThere]) -> str:
    """Say in a sentence what happens to the jobs there."""
    if to == "uncordon":
        count = len(nodes)
        words = ngettext("%(count)s machine takes new work again.", "%(count)s machines take new work again.", count)
        return words % {"count": count}
    stopped = [one for one in jobs if one.stops and to == "drain"]
    staying = [one for one in jobs if one not in stopped]
    told = [_("Nothing new starts there until you take them back into service.")]
    if not jobs:
        told.append(_("Nothing runs there now."))
    if count := len(stopped):
        words = ngettext(
            "%(count)s job is stopped and queued again.", "%(count)s jobs are stopped and queued again.", count
        )
        told.append(words % {"count": count})
    if count := len(staying):
        told.append(ngettext("%(count)s job runs on.", "%(count)s jobs run on.", count) % {"count": count})
        told.append(_describe_end([one.ends_at for one in staying]))
    return " ".join(told)


def _describe_end(ends: list[datetime | None]) -> str:
    known = [end for end in ends if end is not None]
    if unknown := len(ends) - len(known):
        return ngettext(
            "When %(count)s of them ends is not known.", "When %(count)s of them end is not known.", unknown
        ) % {"count": unknown}
    return _("The last ends by about %(at)s.") % {"at": show_moment(max(known), timezone.now())}


def _change_all(actor: Actor, nodes: list[Node], to: str, why: str) -> int:
    reason = {} if to == "uncordon" else {"why": why.strip()}
    for node in nodes:
        SERVICES[to](actor=actor, node=node, **reason)
    return len(nodes)


def _answer(asking: int) -> str:
    states = list(Node.objects.present().values_list("state", flat=True))
    ready = states.count(NodeState.READY)
    words = ngettext("%(count)s machine", "%(count)s machines", len(states)) % {"count": len(states)}
    told = _("%(machines)s, %(ready)s ready.") % {"machines": words, "ready": ready}
    if asking:
        told += " " + ngettext("%(count)s asks to join.", "%(count)s ask to join.", asking) % {"count": asking}
    return told
