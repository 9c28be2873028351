"""The console's first page: what needs a person now, the state of platform and pools, the last changes."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Count, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from accounts.models import Team, User
from cluster.agents import check_agents
from cluster.models import Agent, Gpu, Pool
from jobs.models import Job
from jobs.states import JOB_ACTIVE
from monitoring.alerts.services import list_loud
from monitoring.checks import list_wrong_checks
from monitoring.models import CheckState
from portal.access.admin_lists import filter_audit
from portal.access.idle_rows import load_totals
from portal.pages.cluster.health import fold_agents
from portal.pages.console.audit import AuditLine
from portal.pages.console.page import for_staff, person_of, show
from portal.wording.agents import describe_held_back
from portal.wording.monitoring.alerts import describe_subject
from portal.wording.monitoring.check_words import name_check
from quotas.models import Holding
from scheduler.preview.preview import list_parts

MOST_OF_A_KIND = 5
MOST_CHANGES = 8


@dataclass(frozen=True)
class Due:
    """Something that needs a person. seen: of an agent that may be approved here: what was shown of it."""

    tone: str
    icon: str
    words: str
    note: str
    href: str
    action: str
    agent: str = ""
    seen: str = ""


@dataclass(frozen=True)
class PoolLine:
    name: str
    cards: int
    held_milli: int
    waiting: int
    teams: int


@require_safe
@for_staff
def show_overview(request: HttpRequest) -> HttpResponse:
    user = person_of(request)
    parts, agents_more = fold_agents(list_parts())
    due = list(list_due(user))
    context = {
        "due": due,
        "parts": parts,
        "agents_more": agents_more,
        "broken": [part for part in parts if part.tone == "bad"],
        "pools": list_pools(),
        "people": User.objects.filter(suspended_at__isnull=True).count(),
        "teams": Team.objects.count(),
        "running": Job.objects.filter(state__in=sorted(JOB_ACTIVE)).count(),
        "waiting": Job.objects.waiting().count(),
        "idle": load_totals(),
        "changes": [AuditLine(row) for row in filter_audit()[:MOST_CHANGES]],
    }
    context["answer"] = _answer(len(due), len(context["broken"]))
    return show(request, "console/overview.html", context, current="console", fragment="console/_overview.html")


def list_due(user: User) -> Iterator[Due]:
    """Yield what needs a person: broken things first, then who asks for something."""
    for alert in list_loud(user).filter(acknowledged_at=None).order_by("-pk")[:MOST_OF_A_KIND]:
        yield Due("fault", "alert-circle", describe_subject(alert), alert.rule.name, reverse("alerts"), _("Look"))
    failing = [check for check in list_wrong_checks() if check.state == CheckState.FAIL]
    for check in failing[:MOST_OF_A_KIND]:
        href = reverse("node", args=[check.node.name])
        yield Due("fault", "tools", f"{check.node.name}: {name_check(check.name)}", check.words, href, _("Evidence"))
    yield from _asking_agents()
    without = list(Team.objects.filter(quotas__isnull=True).values_list("name", flat=True)[:MOST_OF_A_KIND])
    if without:
        words = ngettext("%(names)s has no quota", "%(names)s have no quota", len(without))
        note = _("Its members can run nothing.") if len(without) == 1 else _("Their members can run nothing.")
        yield Due("idle", "gauge", words % {"names": ", ".join(without)}, note, reverse("console_quotas"), _("Quotas"))


def list_pools() -> list[PoolLine]:
    held = dict(Holding.objects.live().values_list("pool").annotate(milli=Sum("gpu_milli")))
    cards = dict(Gpu.objects.present().order_by().values_list("pool").annotate(count=Count("pk")))
    pools = Pool.objects.annotate(teams=Count("quotas", filter=Q(quotas__isnull=False)))
    return [
        PoolLine(
            pool.name,
            cards.get(pool.pk, 0),
            held.get(pool.pk) or 0,
            Job.objects.waiting().in_pool(pool.name).count(),
            pool.teams,
        )
        for pool in pools
    ]


def _asking_agents() -> Iterator[Due]:
    agents = Agent.objects.filter(revoked_at__isnull=True, reported_at__isnull=False)
    asking = [judged for judged in check_agents(agents) if judged.held_back]
    for judged in asking[:MOST_OF_A_KIND]:
        name = judged.agent.node_name
        words = _("%(name)s asks that its cards take work") % {"name": name}
        note = " ".join(describe_held_back(held) for held in judged.held_back[:2])
        href = reverse("console_machines")
        yield Due("wait", "server-2", words, note, href, _("Details"), agent=name, seen=judged.seen)


def _answer(due: int, broken: int) -> str:
    needs = ngettext("%(count)s thing needs a person.", "%(count)s things need a person.", due) % {"count": due}
    if not due:
        needs = _("Nothing needs a person.")
    if not broken:
        return needs + " " + _("The platform works.")
    return (
        needs
        + " "
        + ngettext("%(count)s part of the platform is broken.", "%(count)s parts of the platform are broken.", broken)
        % {"count": broken}
    )
