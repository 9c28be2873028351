"""What high priority costs in a pool: nothing, GPU hours of the team's weekly budget, or a lead's consent.

The price is asked for when a job is submitted, changed or retried by hand, and then never again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from accounts.models import Membership, Team, TeamRole, User
from accounts.permissions import may
from cluster.models import HighPriority, Pool
from common.errors import BudgetSpent, ConsentNeeded
from common.locks import lock_rows
from jobs.models import Job, Priority
from jobs.pricing.budget import Asked, Budget, GpuHours, load_budget, read_asked
from quotas.models import Quota


@dataclass(frozen=True)
class Price:
    """What high priority costs a team in a pool. leads: who can give consent. budget: None where there is none."""

    kind: str
    leads: list[str]
    budget: Budget | None


def load_price(team: Team, pool: Pool) -> Price:
    return load_prices([(team, pool)])[0]


def load_prices(places: Sequence[tuple[Team, Pool]]) -> list[Price]:
    """Load the price of each team in each pool."""
    leads = load_leads({team.pk for team, _pool in places})
    return [
        Price(
            pool.high_priority,
            leads[team.pk],
            load_budget(team, pool) if pool.high_priority == HighPriority.BUDGET else None,
        )
        for team, pool in places
    ]


def admit_priority(*, actor: User, asked: Asked, job: Job | None = None) -> None:
    """Check the price under the lock of the team's quota, so that two do not spend the same hours.

    Before the locks of a person's limit and of the job.
    """
    if asked.costs_hours:
        lock_rows(Quota.objects.filter(team=asked.team, pool=asked.pool))
    check_price(actor=actor, asked=asked, job=job)


def check_price(*, actor: User, asked: Asked, job: Job | None = None) -> None:
    """Raise ConsentNeeded or BudgetSpent, unless the priority is paid for.

    job: what waits and is to be changed; it goes on without a new price where it asks for no more than before.
    """
    if asked.priority < Priority.HIGH or (job is not None and _is_paid(asked, read_asked(job, asked.pool))):
        return
    if needs_consent(asked) and not may(actor, "job.consent", asked.team):
        raise ConsentNeeded(**_name_leads(asked))
    if asked.costs_hours:
        _check_budget(asked, load_budget(asked.team, asked.pool, but=job))


def admit_retry(*, actor: User, job: Job) -> list[Pool]:
    """Check the price in each pool where a job may wait when it is tried again; return where it is to wait.

    Raises ConsentNeeded or BudgetSpent if its priority is paid in none.
    """
    pools = Pool.objects.in_bulk(job.pool_ids)
    paid: list[Asked] = []
    unpaid: list[ConsentNeeded | BudgetSpent] = []
    for pool in (pools[pk] for pk in job.pool_ids if pk in pools):
        try:
            check_price(actor=actor, asked=read_asked(job, pool))
        except (ConsentNeeded, BudgetSpent) as dear:
            unpaid.append(dear)
        else:
            paid.append(read_asked(job, pool))
    if not paid:
        raise unpaid[0]
    admit_priority(actor=actor, asked=paid[0])
    return list_pools_to_wait_in(paid)


def list_pools_to_wait_in(paid: Sequence[Asked]) -> list[Pool]:
    """List where a job waits, of the pools where its priority is paid: a budget keeps hours for it in one pool only."""
    if paid[0].costs_hours:
        return [paid[0].pool]
    return [asked.pool for asked in paid if not asked.costs_hours]


def needs_consent(asked: Asked) -> bool:
    return asked.priority == Priority.URGENT or asked.pool.high_priority == HighPriority.CONSENT


def load_leads(team_ids: Collection[int]) -> dict[int, list[str]]:
    """Return by team the names of those who can give its consent, besides administrators."""
    leads = Membership.objects.filter(team__in=team_ids, role=TeamRole.LEAD, user__suspended_at__isnull=True)
    found: dict[int, list[str]] = {pk: [] for pk in team_ids}
    for team, name in leads.order_by("user__username").values_list("team", "user__username"):
        found[team].append(name)
    return found


def show_hours(hours: float) -> str:
    """Format GPU hours: "12", "0.5"."""
    return f"{hours:.1f}".removesuffix(".0")


def _is_paid(asked: Asked, before: Asked) -> bool:
    same = before.priority >= asked.priority and before.pool == asked.pool and before.team == asked.team
    if not same:
        return False
    hours = GpuHours(asked.pool)
    return hours.measure(asked) <= hours.measure(before)


def _name_leads(asked: Asked) -> dict[str, object]:
    return {
        "pool": asked.pool.name,
        "team": asked.team.name,
        "priority": Priority(asked.priority).name.lower(),
        "leads": load_leads([asked.team.pk])[asked.team.pk],
    }


def _check_budget(asked: Asked, budget: Budget) -> None:
    hours = GpuHours(asked.pool).measure(asked)
    if hours > budget.left:
        raise BudgetSpent(
            pool=asked.pool.name,
            team=asked.team.name,
            asked=show_hours(hours),
            left=show_hours(budget.left),
            budget=show_hours(budget.total),
            refills_at=f"{budget.refills_at:%Y-%m-%d %H:%M} UTC",
        )
