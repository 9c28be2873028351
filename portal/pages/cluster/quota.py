"""The quota page."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from accounts.models import Team, User
from common.resources import show_cpu, show_gpu, show_memory
from jobs.models import Job
from jobs.pricing.price import load_prices
from jobs.states import JOB_ACTIVE, JobState
from notebooks.services import list_other_starts
from portal.pages.charts import chart_team
from portal.pages.own_limits import find_full_start_limit
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.templatetags.amounts import gpu_sum
from portal.templatetags.bars import LEGEND, Segment, quota_segments
from portal.wording.priority import describe_price
from quotas.models import Amounts, Holding, Quota, add_amounts, list_subtree, load_parents
from quotas.services import load_limits
from scheduler.preview.preview import list_capacity

NOTHING: Amounts = (0, 0, 0)
SHOWS: tuple[tuple[object, Callable[[int], str]], ...] = (
    (gettext_lazy("GPU"), show_gpu),
    (gettext_lazy("CPU cores"), show_cpu),
    (gettext_lazy("Memory"), show_memory),
)
COUNTS = (
    ("jobs_running", gettext_lazy("Jobs running")),
    ("jobs_waiting", gettext_lazy("Jobs waiting")),
    ("notebooks_running", gettext_lazy("Notebooks running")),
)


@dataclass(frozen=True)
class Line:
    """Usage of a resource in the ledger's units; `limit` may be None. free: what the pool has free now."""

    name: str
    show: Callable[[int], str]
    used: int
    guarantee: int
    limit: int | None
    free: int = 0

    @property
    def guarantee_text(self) -> str:
        """Usage against guarantee and limit: "3 = 2 guaranteed + 1 borrowed, limit 4"."""
        limit = _("no limit") if self.limit is None else _("limit %(limit)s") % {"limit": self.show(self.limit)}
        numbers = {"used": self.show(self.used), "guarantee": self.show(self.guarantee), "limit": limit}
        if not self.guarantee:
            return _("%(used)s used, %(limit)s") % numbers
        if self.used <= self.guarantee:
            return _("%(used)s of %(guarantee)s guaranteed, %(limit)s") % numbers
        numbers["borrowed"] = self.show(self.used - self.guarantee)
        return _("%(used)s = %(guarantee)s guaranteed + %(borrowed)s borrowed, %(limit)s") % numbers

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.used >= self.limit

    @property
    def is_nearly_full(self) -> bool:
        return self.limit is not None and not self.is_full and 10 * self.used >= 9 * self.limit

    @property
    def usage_text(self) -> str:
        """Usage against the limit: "3 of 4"."""
        if self.limit is None:
            return _("%(used)s, no limit") % {"used": self.show(self.used)}
        return _("%(used)s of %(limit)s") % {"used": self.show(self.used), "limit": self.show(self.limit)}

    @property
    def segments(self) -> list[Segment]:
        """The bar's parts in its pool. Cores and memory without a guarantee come with cards: nobody takes them back."""
        parts = quota_segments(self.used, self.guarantee, self.limit, self.free)
        if self.guarantee or self.show is show_gpu:
            return parts
        return [
            replace(part, kind="work", title=str(LEGEND["work"])) if part.kind == "borrowed" else part for part in parts
        ]

    @property
    def own_segments(self) -> list[Segment]:
        """The bar's parts over all pools, used and left of the limit; none without a limit."""
        if self.limit is None:
            return []
        parts = (("work", min(self.used, self.limit)), ("spare", max(self.limit - self.used, 0)))
        return [Segment(kind, share, title=str(LEGEND[kind])) for kind, share in parts if share]


@dataclass(frozen=True)
class PoolLines:
    """A team's quota in a pool; `whole`: guaranteed nodes, or "". price: what high priority costs."""

    pool: str
    shared: bool
    lines: list[Line]
    whole: str
    price: str


@dataclass(frozen=True)
class Member:
    """A member's formatted holdings [GPU, cores, memory]."""

    username: str
    full_name: str
    role: str
    me: bool
    amounts: list[str]
    running: int
    waiting: int


@dataclass(frozen=True)
class TeamQuota:
    team: Team
    mine: bool
    pools: list[PoolLines]
    members: list[Member]


@signed_in
@require_safe
def show_quota(request: HttpRequest) -> HttpResponse:
    """Show the user's teams; admins and auditors see all."""
    user = cast(User, request.user)
    mine = set(user.memberships.values_list("team_id", flat=True))
    teams = Team.objects.all() if user.sees_all else Team.objects.filter(pk__in=mine)
    ordered = sorted(teams, key=lambda team: (team.pk not in mine, team.name))
    free = {room.pool: (room.free_milli, room.cpu_free_milli, room.memory_free_mib) for room in list_capacity(user)}
    quotas = [build_team_quota(team, user, team.pk in mine, free) for team in ordered]
    context = {
        "quotas": quotas,
        "own": user_limit_lines(user),
        "full": find_full_start_limit(user),
        "answer": describe_quotas([q for q in quotas if q.mine]),
        **build_team_curves([quota.team for quota in quotas], request.GET.get("team", "")),
    }
    return render_page(request, "quota/page.html", context, fragment="quota/_live.html")


def build_team_curves(teams: list[Team], chosen: str) -> dict:
    """Return the curves of one of the teams, the first if none of that name is shown."""
    team = next((team for team in teams if team.name == chosen), teams[0] if teams else None)
    return {"teams": teams, "team": team, "charts": chart_team(team.name) if team else None}


def describe_quotas(quotas: list[TeamQuota]) -> str:
    """Sum up one's teams' quotas in a sentence."""
    lines = [pool.lines[0] for quota in quotas for pool in quota.pools]
    if not lines:
        return _("None of your teams has a quota yet.")
    numbers = {
        "used": gpu_sum(sum(line.used for line in lines)),
        "guarantee": gpu_sum(sum(line.guarantee for line in lines)),
    }
    if full := next((q.team.name for q in quotas for pool in q.pools if pool.lines[0].is_full), ""):
        return _("%(used)s GPUs held; %(team)s is at its limit.") % {**numbers, "team": full}
    return _("%(used)s GPUs held, %(guarantee)s guaranteed.") % numbers


def build_team_quota(team: Team, user: User, mine: bool, free: dict[str, Amounts]) -> TeamQuota:
    """Return a team's quotas; usage includes sub-teams. free: by pool."""
    below = list_subtree(team.pk, load_parents())
    held = Holding.objects.live().filter(team__in=below).totals_by("pool")
    rows = Quota.objects.filter(team=team).select_related("pool").order_by("pool__name")
    pools = []
    prices = load_prices([(team, row.pool) for row in rows])
    for row, price in zip(rows, prices, strict=True):
        lines = build_quota_lines(row, held.get((row.pool_id,), NOTHING), free.get(row.pool.name, NOTHING))
        words = describe_price(price)
        pools.append(PoolLines(row.pool.name, row.pool.shared, lines, describe_whole_nodes(row), words))
    return TeamQuota(team, mine, pools, load_members(team, user))


def describe_whole_nodes(quota: Quota) -> str:
    """Say how many whole nodes the quota guarantees, or ""."""
    words = ngettext(
        "%(nodes)s whole node of %(cards)s cards is guaranteed",
        "%(nodes)s whole nodes of %(cards)s cards are guaranteed",
        quota.whole_nodes,
    )
    return words % {"nodes": quota.whole_nodes, "cards": quota.cell} if quota.whole_nodes else ""


def build_quota_lines(quota: Quota, held: Amounts, free: Amounts) -> list[Line]:
    numbers = zip(SHOWS, held, quota.guarantees(), quota.limits(), free, strict=True)
    return [Line(str(name), show, *amounts) for (name, show), *amounts in numbers]


def load_members(team: Team, user: User) -> list[Member]:
    held = {key[0]: total for key, total in Holding.objects.live().filter(team=team).totals_by("user").items()}
    jobs = Job.objects.filter(team=team).open().order_by().values_list("user", "state").annotate(n=Count("pk"))
    counts: Counter = Counter()
    for user_id, state, n in jobs:
        counts[user_id, "active" if state in JOB_ACTIVE else "waiting"] += n
    rows = team.memberships.filter(user__suspended_at__isnull=True).select_related("user").order_by("user__username")
    amounts = {row.user_id: held.get(row.user_id, NOTHING) for row in rows}
    return [
        Member(
            username=row.user.username,
            full_name=row.user.full_name,
            role=row.get_role_display(),
            me=row.user_id == user.pk,
            amounts=[show(amount) for (_name, show), amount in zip(SHOWS, amounts[row.user_id], strict=True)],
            running=counts[row.user_id, "active"],
            waiting=counts[row.user_id, "waiting"],
        )
        for row in sorted(rows, key=lambda row: [-amount for amount in amounts[row.user_id]])
    ]


def user_limit_lines(user: User) -> list[Line]:
    """Return the user's usage and limits, over all pools."""
    limits = load_limits(user)
    held = add_amounts(Holding.objects.live().filter(user=user).totals_by("pool").values())
    counts = Job.objects.filter(user=user).aggregate(
        jobs_running=Count("pk", filter=Q(state__in=sorted(JOB_ACTIVE))),
        jobs_waiting=Count("pk", filter=Q(state=JobState.QUEUED)),
    )
    counts["notebooks_running"] = list_other_starts(user).count()
    fields = ("gpu_milli", "cpu_milli", "memory_mib")
    amounts = zip(SHOWS, fields, held, strict=True)
    lines = [Line(str(name), show, used, 0, limits[field]) for (name, show), field, used in amounts]
    return [*lines, *(Line(str(words), str, counts[name], 0, limits[name]) for name, words in COUNTS)]
