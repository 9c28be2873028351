"""The quota page."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from accounts.models import Membership, Team, User
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
from portal.wording.changes import describe_return
from portal.wording.priority import describe_price
from quotas.models import Amounts, Holding, Quota, add_amounts, list_subtree, load_parents
from quotas.services import load_limits
from scheduler.preview.preview import list_capacity

ON_A_PAGE = 20
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
    """A team's quota in a pool; `whole`: guaranteed nodes, or "". returns: until when it holds, or "". price: what high
    priority costs.
    """

    pool: str
    shared: bool
    lines: list[Line]
    whole: str
    returns: str
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
    """Show the user's teams; admins and auditors see all, twenty others on a ?page=, one's own on the first."""
    user = cast(User, request.user)
    mine = Team.objects.filter(memberships__user=user).order_by("name")
    others = Team.objects.exclude(pk__in=mine.values("pk")) if user.sees_all else Team.objects.none()
    page = Paginator(others.order_by("name"), ON_A_PAGE).get_page(request.GET.get("page"))
    free = {room.pool: (room.free_milli, room.cpu_free_milli, room.memory_free_mib) for room in list_capacity(user)}
    own = list(mine)
    quotas = build_team_quotas([*own, *page], user, {team.pk for team in own}, free)
    shown = [quota for quota in quotas if not (quota.mine and page.has_previous())]
    context = {
        "quotas": shown,
        "page": page,
        "own": user_limit_lines(user),
        "full": find_full_start_limit(user),
        "answer": describe_quotas([quota for quota in quotas if quota.mine]),
        **build_team_curves([quota.team for quota in shown], request.GET.get("team", "")),
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


def build_team_quotas(teams: list[Team], user: User, mine: set[int], free: dict[str, Amounts]) -> list[TeamQuota]:
    """Return the teams' quotas; usage includes sub-teams. mine: the user's own teams. free: by pool."""
    if not teams:
        return []
    rows = list(Quota.objects.filter(team__in=teams).select_related("team", "pool").order_by("pool__name"))
    prices = load_prices([(row.team, row.pool) for row in rows])
    parents, held = load_parents(), Holding.objects.live().totals_by("team", "pool")
    pools: dict[int, list[PoolLines]] = defaultdict(list)
    for row, price in zip(rows, prices, strict=True):
        used = add_amounts(held.get((team, row.pool_id), NOTHING) for team in list_subtree(row.team_id, parents))
        lines = build_quota_lines(row, used, free.get(row.pool.name, NOTHING))
        words = describe_whole_nodes(row), describe_return(row), describe_price(price)
        pools[row.team_id].append(PoolLines(row.pool.name, row.pool.shared, lines, *words))
    members = load_members(teams, user)
    return [TeamQuota(team, team.pk in mine, pools[team.pk], members[team.pk]) for team in teams]


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


def load_members(teams: list[Team], user: User) -> dict[int, list[Member]]:
    """Return {team: its members}, who holds most first."""
    held = Holding.objects.live().filter(team__in=teams).totals_by("team", "user")
    jobs = Job.objects.filter(team__in=teams).open().order_by().values_list("team", "user", "state")
    counts: Counter = Counter()
    for team_id, user_id, state, n in jobs.annotate(n=Count("pk")):
        counts[team_id, user_id, "active" if state in JOB_ACTIVE else "waiting"] += n
    rows = Membership.objects.filter(team__in=teams, user__suspended_at__isnull=True).select_related("user")
    found: dict[int, list[Member]] = {team.pk: [] for team in teams}
    for amounts, row in sorted(
        ((held.get((row.team_id, row.user_id), NOTHING), row) for row in rows.order_by("user__username")),
        key=lambda one: [-amount for amount in one[0]],
    ):
        found[row.team_id].append(
            Member(
                username=row.user.username,
                full_name=row.user.full_name,
                role=row.get_role_display(),
                me=row.user_id == user.pk,
                amounts=[show(amount) for (_name, show), amount in zip(SHOWS, amounts, strict=True)],
                running=counts[row.team_id, row.user_id, "active"],
                waiting=counts[row.team_id, row.user_id, "waiting"],
            )
        )
    return found


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
