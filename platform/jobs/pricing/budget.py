"""A team's weekly budget of high priority in a pool. What is used is summed from what ran, and never counted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from accounts.models import Team
from cluster.capacity import Kind, kinds_of_cards, measure_ask
from cluster.models import HighPriority, Pool
from common.locks import database_now
from common.resources import parse_gpu
from jobs.models import Job, Priority
from jobs.pricing.expected_length import measure_expected_length
from jobs.states import JobState
from quotas.models import Holding

HOUR = 3600 * 1000
"""Thousandths of a card, times seconds."""


@dataclass(frozen=True)
class Asked:
    """What of a job decides its price. gang: as Job.gang. time_s: as it says itself, None without a word."""

    team: Team
    pool: Pool
    priority: int
    gang: Sequence[dict]
    time_s: int | None

    @property
    def costs_hours(self) -> bool:
        """Whether its priority is paid for from a budget."""
        return self.priority >= Priority.HIGH and self.pool.high_priority == HighPriority.BUDGET


@dataclass(frozen=True)
class Budget:
    """In GPU hours: of one week, what ran at high priority in it, and what open jobs of high priority may still use."""

    total: float
    ran: float
    asked: float
    refills_at: datetime

    @property
    def left(self) -> float:
        return max(self.total - self.ran - self.asked, 0.0)


class GpuHours:
    """Measures jobs of one pool in GPU hours."""

    def __init__(self, pool: Pool):
        self._kinds: list[Kind] = kinds_of_cards(pool)
        self._usual_s = measure_expected_length(pool.pk)

    def measure(self, asked: Asked, *, ran_s: float = 0.0) -> float:
        """Return what a job asks for, less what it ran: its smallest size, for as long as it is taken to last."""
        milli = sum(role["min"] * measure_ask(parse_gpu(role["request"]["gpu"]), self._kinds) for role in asked.gang)
        return milli * max((asked.time_s or self._usual_s) - ran_s, 0.0) / HOUR


def read_asked(job: Job, pool: Pool | None = None) -> Asked:
    """Return what a job asks for. pool: one of those where it waits, None for its own."""
    there = next((choice for choice in job.choices if pool and choice["pool"] == pool.pk), None)
    if pool and there:
        return Asked(job.team, pool, job.priority, there["gang"], shorter(job.time_s, there["max_time_s"]))
    return Asked(job.team, job.pool, job.priority, job.gang, shorter(job.time_s, job.max_time_s))


def shorter(*times_s: int | None) -> int | None:
    """Return the shortest of the times that are given, None without any."""
    return min((time_s for time_s in times_s if time_s), default=None)


def load_budget(team: Team, pool: Pool, *, but: Job | None = None) -> Budget:
    """Load what a team has left this week. but: a job that is to be priced anew."""
    now = database_now()
    begins = begin_week(now)
    rows = Holding.objects.filter(team=team, pool=pool, priority__gte=Priority.HIGH, gpu_milli__gt=0)
    rows = rows.filter(Q(released_at__isnull=True) | Q(released_at__gt=begins))
    held = rows.values_list("gpu_milli", "held_from", "released_at")
    waiting = _measure_open_jobs(team, pool, now, but)
    return Budget(float(pool.high_gpu_hours), sum_hours(held, begins, now), waiting, begins + timedelta(days=7))


def begin_week(now: datetime) -> datetime:
    """Return the Monday, 00:00 UTC, on which the week of `now` began."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=midnight.weekday())


def sum_hours(held: Iterable[tuple[int, datetime, datetime | None]], begins: datetime, now: datetime) -> float:
    """Return the GPU hours of (thousandths of a card, from, until or None) that lie between two times."""
    spans = ((milli, (min(until or now, now) - max(since, begins)).total_seconds()) for milli, since, until in held)
    return sum(milli * max(seconds, 0.0) for milli, seconds in spans) / HOUR


def _measure_open_jobs(team: Team, pool: Pool, now: datetime, but: Job | None) -> float:
    """Measure what runs in the pool or may start there: it may wait in several from before the pool had a budget."""
    jobs = Job.objects.open().in_pool(pool.name).filter(team=team, priority__gte=Priority.HIGH)
    found = [job for job in jobs.select_related("team", "pool") if but is None or job.pk != but.pk]
    if not found:
        return 0.0
    hours = GpuHours(pool)
    return sum(hours.measure(_read_asked_here(job, pool), ran_s=_measure_run(job, now)) for job in found)


def _read_asked_here(job: Job, pool: Pool) -> Asked:
    return read_asked(job, pool) if job.state == JobState.QUEUED else read_asked(job)


def _measure_run(job: Job, now: datetime) -> float:
    """Return the seconds that the present attempt has run."""
    if job.state == JobState.QUEUED or job.started_at is None:
        return 0.0
    return max((now - job.started_at).total_seconds(), 0.0)
