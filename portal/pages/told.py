"""What stands at the top of each whole page: announcements, and maintenance of machines that the person may use."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import date as format_date
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from accounts.announcements import list_shown
from accounts.models import User
from cluster.maintenance import list_machines_of_pools, load_maintenance
from cluster.models import Maintenance, Node
from portal.pages.request_guards import safe_path, signed_in
from quotas.models import Quota

SOON = timedelta(hours=24)
COOKIE = "tessera-read"
COOKIE_S = 90 * 24 * 3600
MOST_READ = 40
MOST_NAMES = 4


@dataclass(frozen=True)
class Told:
    """key: names it in the cookie of what was read; "" for what cannot be put away."""

    key: str
    tone: str
    text: str
    href: str = ""


def list_told(user: User, request: HttpRequest) -> list[Told]:
    """Return what the person is told now and has not put away."""
    read = set(request.COOKIES.get(COOKIE, "").split("."))
    announced = [Told(f"a{row.pk}", row.tone, row.text) for row in list_shown(user)]
    return [one for one in (*announced, *_list_maintenance(user)) if one.key not in read]


@require_POST
@signed_in
def put_away(request: HttpRequest, key: str) -> HttpResponse:
    """Show it no more in this browser."""
    read = [one for one in request.COOKIES.get(COOKIE, "").split(".") if one and one != key]
    response = HttpResponseRedirect(safe_path(request.POST.get("next", "/")))
    kept = ".".join([*read, key][-MOST_READ:])
    response.set_cookie(COOKIE, kept, max_age=COOKIE_S, httponly=True, samesite="Lax", secure=settings.SECURE)
    return response


def _list_maintenance(user: User) -> list[Told]:
    """Tell of maintenance that begins within a day or goes on, in pools where a team of the person has a quota."""
    now = timezone.now()
    closing = [one for one in load_maintenance(now, until=now + SOON) if one.node_ids]
    if not closing:
        return []
    pools = Quota.objects.filter(team__memberships__user=user).values_list("pool_id", flat=True)
    closed = set[int]().union(*(one.node_ids for one in closing))
    mine = set[int]().union(*list_machines_of_pools(pools, among=closed).values())
    names = dict(Node.objects.filter(pk__in=mine).values_list("pk", "name"))
    return [
        Told(
            f"m{one.maintenance.pk}",
            "idle",
            describe_banner(one.maintenance, sorted(names[pk] for pk in hit), now),
            reverse("cluster"),
        )
        for one in closing
        if (hit := one.node_ids & mine)
    ]


def describe_banner(row: Maintenance, nodes: list[str], now: datetime) -> str:
    """Say what people read of a maintenance at the top of each page. nodes: names of those that concern them."""
    more = len(nodes) - MOST_NAMES
    shown = ", ".join(nodes[:MOST_NAMES])
    words = {
        "nodes": _("%(names)s and %(n)s more") % {"names": shown, "n": more} if more > 0 else shown,
        "begins": format_date(timezone.localtime(row.begins_at), "Y-m-d H:i"),
        "ends": format_date(timezone.localtime(row.ends_at), "Y-m-d H:i"),
    }
    if row.begins_at <= now:
        said = _("Maintenance on %(nodes)s until %(ends)s: nothing starts there.") % words
    else:
        said = _("Maintenance on %(nodes)s from %(begins)s until %(ends)s.") % words
    return f"{said} {row.why}".strip()
