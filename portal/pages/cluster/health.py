"""Health: the platform's own processes, loops and agents, and what is wrong on machines; failing first."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from accounts.permissions import require
from cluster.models import Gpu, Node
from monitoring.checks import list_changes, list_checks, list_wrong_checks
from monitoring.models import CheckState, NodeCheck, NodeCheckChange, RemoteWrite
from portal.pages.account.webhook_view import ERROR_MESSAGES
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.wording.monitoring.check_words import PART_WORDS, name_check
from scheduler.preview.preview import list_parts

MOST_CHANGES = 20


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
    parts, checks = list_parts(), list_wrong_checks()
    rows = [(part, PART_WORDS[part.kind], describe_sent(part.sent)) for part in parts]
    places = load_places({check.card for check in checks})
    wrong = [view_check(check, check.node.name, places) for check in checks]
    broken = sum(part.tone == "bad" for part in parts) + sum(check.state == CheckState.FAIL for check in wrong)
    context = {"rows": rows, "wrong": wrong, "answer": health_answer(broken)}
    return render_page(request, "cluster/health.html", context, fragment="cluster/_health.html")


def health_answer(broken: int) -> str:
    if not broken:
        return _("All of the platform is there, and no check fails.")
    return ngettext("%(count)s thing is broken.", "%(count)s things are broken.", broken) % {"count": broken}


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
