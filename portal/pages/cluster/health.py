"""Health: what the doctor finds, the platform's own parts, and what is wrong on machines; failing first."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from accounts.permissions import require
from cluster.models import Gpu, Node
from monitoring.backing_services import MailState, ValkeyState
from monitoring.checks import list_changes, list_checks, list_wrong_checks
from monitoring.engine.reading import EngineState
from monitoring.models import CheckState, NodeCheck, NodeCheckChange, RemoteWrite
from portal.pages.account.webhook_view import ERROR_MESSAGES
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.wording.monitoring.check_words import PART_WORDS, name_check
from scheduler.preview.preview import PlatformPart, list_parts, list_pool_faults

MOST_CHANGES = MOST_AGENTS = 20
TONES = ("bad", "note", "ok")
"""Of findings, worst first."""
CHECK_TONES = {CheckState.FAIL.value: "bad", CheckState.WARN.value: "note"}


@dataclass(frozen=True)
class CheckView:
    """card: its place on the machine, as pages name it; "" for the machine."""

    node: str
    card: str
    name: str
    state: str
    words: str
    since: datetime


@dataclass(frozen=True)
class NodeHealth:
    """wrong: what fails or warns. passed, unknown: how many others."""

    wrong: list[CheckView]
    passed: int
    unknown: int
    changes: list[CheckView]

    @property
    def is_known(self) -> bool:
        return bool(self.wrong or self.passed or self.unknown)


@require_safe
@signed_in
def show_health(request: HttpRequest) -> HttpResponse:
    """Show what of the platform is there, and what machines say is wrong."""
    require(request.user, "node.change")
    (parts, agents_more), checks = fold_agents(list_parts()), list_wrong_checks()
    rows = [(part, PART_WORDS[part.kind], describe_sent(part.sent) or describe_service(part.state)) for part in parts]
    found = [finding for finding in list_pool_faults() if finding.about != "machines"]  # in a table of their own
    findings = sorted(found, key=lambda finding: TONES.index(finding.tone))
    places = load_places({check.card for check in checks})
    wrong = [view_check(check, check.node.name, places) for check in checks]
    states = [finding.tone for finding in found] + [CHECK_TONES.get(check.state, "ok") for check in wrong]
    answer = health_answer(states.count("bad"), states.count("note"))
    context = {"rows": rows, "agents_more": agents_more, "findings": findings, "wrong": wrong, "answer": answer}
    return render_page(request, "cluster/health.html", context, fragment="cluster/_health.html")


def fold_agents(parts: list[PlatformPart]) -> tuple[list[PlatformPart], int]:
    """Return the parts with no more than MOST_AGENTS agents of each tone, and how many others there are."""
    agents = [[part for part in parts if part.kind == "agent" and part.tone == tone] for tone in TONES]
    more = {id(part) for alike in agents for part in alike[MOST_AGENTS:]}
    return [part for part in parts if id(part) not in more], len(more)


@require_safe
@signed_in
def show_checks(request: HttpRequest) -> HttpResponse:
    """Lead to Health, which shows what this page did."""
    require(request.user, "node.change")
    return redirect("health", permanent=True)


def health_answer(bad: int, notes: int) -> str:
    if bad:
        return ngettext("%(n)s problem found.", "%(n)s problems found.", bad) % {"n": bad}
    if notes:
        return ngettext("Everything works; %(n)s note.", "Everything works; %(n)s notes.", notes) % {"n": notes}
    return _("Everything is in order.")


def describe_sent(sent: RemoteWrite | None) -> str:
    """Say how far a series engine has what was sent, what was dropped, and why."""
    if sent is None:
        return ""
    late_s = max(round((timezone.now() - sent.until).total_seconds()), 0)
    words = ngettext(
        "%(late)s s behind; %(count)s value dropped", "%(late)s s behind; %(count)s values dropped", sent.dropped
    ) % {"late": late_s, "count": sent.dropped}
    why = str(ERROR_MESSAGES.get(sent.error, sent.error)) % {"status": sent.status}
    return " · ".join(filter(None, [words, why, sent.words]))


def describe_service(state: ValkeyState | MailState | EngineState | None) -> str:
    """Say how Valkey, the mail server and an engine that charts read are."""
    if isinstance(state, EngineState):
        return describe_engine(state)
    if isinstance(state, ValkeyState):
        if not state.answers:
            return _("It does not answer.")
        if state.limit_mib:
            memory = {"used": state.used_mib, "limit": state.limit_mib}
            return _("%(used)s of %(limit)s MiB of memory in use") % memory
        return _("%(used)s MiB of memory in use") % {"used": state.used_mib}
    return describe_mail(state) if state else ""


def describe_engine(state: EngineState) -> str:
    if state.answers:
        return _("It answers charts of what is older than is kept here.")
    if state.why in ("timeout", "nonsense"):
        return _("No answer within two seconds.") if state.why == "timeout" else _("Its answer cannot be read.")
    return str(ERROR_MESSAGES.get(state.why, state.why)) % {"status": state.status}


def describe_mail(state: MailState) -> str:
    if not state.is_on:
        return _("No mail is sent, as no mail server is set.")
    if state.waiting:
        words = ngettext(
            "%(n)s mail failed and is tried again", "%(n)s mails failed and are tried again", state.waiting
        )
        return words % {"n": state.waiting}
    if state.failed_of:
        made = date_format(timezone.localtime(state.failed_of), "DATETIME_FORMAT")
        return _("The newest mail that the server did not take is of %(made)s") % {"made": made}
    return _("No mail of the newest 1,000 notices failed")


def load_node_health(node: Node) -> NodeHealth:
    """Return what a machine's page shows of its checks."""
    checks, changes = list_checks(node), list_changes(node, MOST_CHANGES)
    places = load_places({check.card for check in checks} | {change.card for change in changes})
    counts = Counter(check.state for check in checks)
    wrong = [check for check in checks if check.state in (CheckState.FAIL, CheckState.WARN)]
    return NodeHealth(
        [view_check(check, node.name, places) for check in wrong],
        counts[CheckState.OK],
        counts[CheckState.UNKNOWN],
        [view_check(change, node.name, places) for change in changes],
    )


def view_check(check: NodeCheck | NodeCheckChange, node: str, places: dict[str, int]) -> CheckView:
    at = check.since if isinstance(check, NodeCheck) else check.at
    card = f"GPU {places[check.card]}" if check.card in places else check.card
    return CheckView(node, card, name_check(check.name), check.state, check.words, at)


def load_places(uuids: set[str]) -> dict[str, int]:
    """Return the place of each card on its machine."""
    return dict(Gpu.objects.filter(uuid__in=uuids - {""}).values_list("uuid", "index"))
