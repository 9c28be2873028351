"""Reports of the teams that a person sees, for page, API and CSV."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from accounts.models import User
from common.errors import FieldError, InvalidInput
from monitoring.costs.sums import Cost, sum_costs
from monitoring.reports.failures import FailedTry, FailureReport, list_failures, sum_failures
from monitoring.reports.idle import IdleReport, sum_idle
from monitoring.reports.waits import WaitReport, sum_waits
from monitoring.usage.energy_report import Energy, sum_energy
from monitoring.usage.report import Period, Sums, sum_days, sum_usage
from portal.access.redacted_rows import team_ids_in_sight
from scheduler.preview.forecast_accuracy import AccuracyReport, sum_accuracy

LONGEST = timedelta(days=800)
MOST_GROUPS = 1000
MOST_DAYS = 92
"""Of a chart; longer periods are cut into weeks."""


@dataclass(frozen=True)
class Costs:
    """Of the groups of a report, by name, of the rest and of all."""

    groups: dict[str, Cost]
    rest: Cost
    total: Cost


@dataclass(frozen=True)
class UsageReport:
    """groups: the largest first. rest: of further ones, None if there are none. costs: None where no price is set."""

    by: str
    period: Period
    complete_to: datetime
    groups: dict[str, Sums]
    rest: Sums | None
    total: Sums
    costs: Costs | None


def load_usage_report(user: User, by: str, period: Period, now: datetime) -> UsageReport:
    """Return the GPU time of a period by key of monitoring.usage.report.GROUPS. Raises InvalidInput."""
    check_period(period)
    teams = team_ids_in_sight(user)
    found = sum_usage(by, period, now, teams)
    rest = list(islice(found.values(), MOST_GROUPS, None))
    groups = dict(islice(found.items(), MOST_GROUPS))
    total = sum(found.values(), Sums())
    costs = _sort_costs(sum_costs(by, period, now, teams), groups)
    return UsageReport(by, period, min(period.ends, now), groups, sum(rest, Sums()) if rest else None, total, costs)


def load_wait_report(user: User, by: str, period: Period, now: datetime) -> WaitReport:
    """Return the waits of a period by key of monitoring.reports.waits.GROUPS. Raises InvalidInput."""
    check_period(period)
    return sum_waits(by, period, now, team_ids_in_sight(user), MOST_GROUPS)


def load_failure_report(user: User, by: str, period: Period, now: datetime) -> FailureReport:
    """Return the failures of a period by key of monitoring.reports.failures.GROUPS. Raises InvalidInput."""
    check_period(period)
    return sum_failures(by, period, now, team_ids_in_sight(user), MOST_GROUPS)


def load_accuracy_report(user: User, by: str, period: Period, now: datetime) -> AccuracyReport:
    """Return how right told starts were by key of ACCURACY_GROUPS. Raises InvalidInput."""
    check_period(period)
    return sum_accuracy(by, period, now, team_ids_in_sight(user), MOST_GROUPS)


def load_failures(user: User, by: str, only: str | None, period: Period, now: datetime) -> list[FailedTry]:
    """Return the newest failures of a period, of one group or of all."""
    return list_failures(by, only, period, now, team_ids_in_sight(user))


def load_idle_report(user: User, by: str, period: Period, now: datetime) -> IdleReport:
    """Return what was idle in a period by one of monitoring.reports.idle.IDLE_GROUPS. Raises InvalidInput."""
    check_period(period)
    return sum_idle(by, period, now, team_ids_in_sight(user), MOST_GROUPS)


def _sort_costs(found: dict[str, Cost] | None, groups: Collection[str]) -> Costs | None:
    if found is None:
        return None
    shown = {name: found.get(name, Cost()) for name in groups}
    rest = sum((cost for name, cost in found.items() if name not in shown), Cost())
    return Costs(shown, rest, sum(shown.values(), rest))


def load_usage_by_day(user: User, period: Period, now: datetime) -> list[tuple[Period, Sums]]:
    """Return the sums of each day of a period up to now, or of each week of a long one."""
    step = timedelta(days=1 if period.ends - period.begins <= timedelta(days=MOST_DAYS) else 7)
    parts, at = [], period.begins
    while at < min(period.ends, now):
        parts.append(Period(at, min(at + step, period.ends)))
        at += step
    return list(zip(parts, sum_days(parts, now, team_ids_in_sight(user)), strict=True))


@dataclass(frozen=True)
class EnergyReport:
    """As UsageReport, of what held cards drew."""

    by: str
    period: Period
    complete_to: datetime
    groups: dict[str, Energy]
    rest: Energy | None
    total: Energy


def load_energy_report(user: User, by: str, period: Period, now: datetime) -> EnergyReport:
    """Return what held cards drew in a period by key of ENERGY_GROUPS. Raises InvalidInput."""
    check_period(period)
    found = sum_energy(by, period, now, team_ids_in_sight(user))
    rest = list(islice(found.values(), MOST_GROUPS, None))
    return EnergyReport(
        by,
        period,
        min(period.ends, now),
        dict(islice(found.items(), MOST_GROUPS)),
        sum(rest, Energy()) if rest else None,
        sum(found.values(), Energy()),
    )


def check_period(period: Period) -> None:
    """Raise InvalidInput where it ends before it begins, or is longer than anything is kept."""
    if period.begins >= period.ends:
        raise InvalidInput([FieldError("/from", "time_not_before", {"to": period.ends.isoformat()})])
    if period.ends - period.begins > LONGEST:
        raise InvalidInput([FieldError("/from", "time_too_long", {"most_days": LONGEST.days})])
