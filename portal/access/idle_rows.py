"""What is held and idle, as one person may see it: outside of one's teams neither job nor figures."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, Q, QuerySet, Sum
from django.utils import timezone

from accounts.models import User
from accounts.permissions import PERMISSIONS, roles_of
from common.errors import NotFound
from common.resources import show_place
from jobs.models import Job, Task
from jobs.states import HOLDING, JobState
from monitoring.idle.requests import SNOOZES_A_DAY
from monitoring.idle.rungs import Rung
from monitoring.models import Exemption, IdleSnooze, IdleWatch
from notebooks.models import Notebook
from portal.access.redacted_rows import RedactedRow, name_to_others, team_ids_in_sight
from portal.wording.monitoring.idle import describe_act, describe_finding, describe_next
from quotas.models import Holding

ACTIONS = {"snooze": "idle.snooze", "nudge": "idle.nudge", "exempt": "idle.exempt", "release": "job.stop"}
WEEK = timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class IdleRow(RedactedRow):
    """A running job that was idle at the last look. milli: of cards that it holds.

    seen*, detail*: what was found, in words and as a code. notebook_id*, notebook*. next: what happens then, in words.
    may: what this person may do about it. snoozes_left*: of today.
    """

    pool: str
    kind: str
    milli: int
    finding: str
    since: datetime | None
    idle_s: int
    held: bool
    rung: Rung
    next: str
    acts: str = ""
    place: str = ""
    detail: str = ""
    seen: str = ""
    evidence: dict
    next_at: datetime | None = None
    acts_at: datetime | None = None
    then: str = ""
    notebook_id: str = ""
    notebook: str = ""
    snoozed_until: datetime | None = None
    exempt_until: datetime | None = None
    exempt_reason: str = ""
    snoozes_left: int = 0
    may: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        return self.notebook or self.name or self.job_id

    @property
    def minutes(self) -> int:
        return self.idle_s // 60


@dataclass(frozen=True)
class IdleTotals:
    """Of all: idle_milli of held_milli now; of the last week hours returned, and how often, for how many people."""

    idle_milli: int
    held_milli: int
    gpu_hours: float
    acts: int
    people: int
    snoozes: int
    regretted: int


def list_idle_rows(user: User, *, jobs: Iterable[int] | None = None) -> list[IdleRow]:
    """List what is idle now, longest and largest first. jobs: of these only."""
    rows = IdleWatch.objects.filter(since__isnull=False, job__state=JobState.RUNNING, attempt=F("job__attempt"))
    rows = rows.exclude(finding="busy")
    rows = rows if jobs is None else rows.filter(job__in=list(jobs))
    named = rows.select_related("job__user", "job__team", "job__pool", "notebook").defer("job__spec", "job__gang")
    if not (watches := list(named)):
        return []
    build = _Builder(user, watches)
    found = [row for watch in watches if (row := build.build(watch)) is not None]
    return sorted(found, key=lambda row: (-row.idle_s * row.milli, row.job_id))


def find_told_rows(user: User, jobs: Iterable[int]) -> dict[str, IdleRow]:
    """Return the rows of jobs that are idle and whose owners were told, by the job's id ("job-12")."""
    keys, now = list(jobs), timezone.now()
    rows = list_idle_rows(user, jobs=keys) if keys else []
    return {row.job_id: row for row in rows if row.rung or (row.snoozed_until and row.snoozed_until > now)}


def list_exemptions(user: User) -> QuerySet[Exemption]:
    """Return the exemptions that hold, of what the user may see."""
    visible = Job.objects.visible_to(user).values("pk")
    rows = Exemption.objects.filter(ended_at__isnull=True, until__gt=timezone.now())
    rows = rows.filter(Q(job__in=visible) | Q(notebook__job__in=visible))
    return rows.select_related("by", "job__team", "job__user", "notebook__team", "notebook__user", "notebook__job")


def find_exemption(user: User, pk: int) -> Exemption:
    """Return a visible exemption that holds. Raises NotFound."""
    found = list_exemptions(user).filter(pk=pk).first()
    if found is None:
        raise NotFound()
    return found


def load_totals(now: datetime | None = None) -> IdleTotals:
    now = now or timezone.now()
    idle = IdleWatch.objects.filter(since__isnull=False, job__state=JobState.RUNNING).exclude(finding="busy")
    tasks = Task.objects.filter(job__in=idle.values("job"), state__in=HOLDING).values("uuid")
    live = Holding.objects.live().filter(gpu__isnull=False)
    acts = IdleWatch.objects.filter(acted_at__gt=now - WEEK)
    spans = acts.values_list("returned_milli", "acted_at", "returned_until")
    return IdleTotals(
        idle_milli=live.filter(task__in=tasks).aggregate(milli=Sum("gpu_milli", default=0))["milli"],
        held_milli=live.aggregate(milli=Sum("gpu_milli", default=0))["milli"],
        gpu_hours=sum(milli * _hours(begin, min(end, now)) for milli, begin, end in spans if begin and end) / 1000,
        acts=acts.count(),
        people=acts.values("job__user").distinct().count(),
        snoozes=IdleSnooze.objects.filter(at__gt=now - WEEK).count(),
        regretted=acts.filter(regretted=True).count(),
    )


def _hours(begin: datetime, end: datetime) -> float:
    return max((end - begin).total_seconds(), 0) / 3600


class _Builder:
    """Loads in few statements what the rows of all jobs need."""

    def __init__(self, user: User, watches: list[IdleWatch]):
        self.user, self.watches, self.now = user, watches, timezone.now()
        self.sight = team_ids_in_sight(user)
        self.roles: dict[tuple[int, bool], set[str]] = {}
        keys = [watch.job_id for watch in watches]
        self.tasks: dict[int, list[Task]] = defaultdict(list)
        for task in Task.objects.filter(job__in=keys, state__in=HOLDING).select_related("node"):
            self.tasks[task.job_id].append(task)
        uuids = [task.uuid for tasks in self.tasks.values() for task in tasks]
        held = Holding.objects.live().filter(task__in=uuids).order_by().values_list("task")
        self.milli = dict(held.annotate(milli=Sum("gpu_milli")))
        self.exempt: dict[tuple[str, int | None], Exemption] = {}
        open_ones = Exemption.objects.filter(ended_at__isnull=True, until__gt=self.now).order_by("until")
        for row in open_ones:
            self.exempt["notebook" if row.notebook_id else "job", row.notebook_id or row.job_id] = row
        today = IdleSnooze.objects.filter(watch__in=keys, at__gt=self.now - timedelta(days=1)).order_by()
        self.snoozes = dict(today.values_list("watch").annotate(count=Count("pk")))

    def build(self, watch: IdleWatch) -> IdleRow | None:
        """Return the row; None for what holds no card any more."""
        job, tasks = watch.job, self.tasks[watch.job_id]
        milli = sum(self.milli.get(task.uuid, 0) for task in tasks)
        if not milli:
            return None
        full = self.sight is None or job.team_id in self.sight
        exempt = self.exempt.get(("notebook", watch.notebook_id)) if watch.notebook_id else None
        exempt = exempt or self.exempt.get(("job", job.pk))
        until = exempt.until if exempt else None
        public = {
            "full": full,
            "state": job.state,
            "pool": job.pool.name,
            "kind": job.kind,
            "milli": milli,
            "finding": watch.finding,
            "since": watch.since,
            "idle_s": int(watch.clock.measure_idle_s(watch.looked_at or self.now)),
            "held": bool(watch.evidence.get("held")),
            "rung": Rung(watch.rung),
            "next": describe_next(watch, self.now, until),
            "evidence": watch.evidence if full else {},
        }
        if not full:
            return IdleRow(**public, **name_to_others(job))
        return IdleRow(**public, **self._private(watch, job, tasks), exempt_until=until, exempt_reason=_reason(exempt))

    def _private(self, watch: IdleWatch, job: Job, tasks: list[Task]) -> dict:
        times = watch.times
        notebook: Notebook | None = watch.notebook
        left = max(SNOOZES_A_DAY - self.snoozes.get(job.pk, 0), 0)
        return {
            "team": job.team.name,
            "job_id": job.public_id,
            "name": job.name,
            "owner": job.user.username,
            "own": job.user_id == self.user.pk,
            "place": " · ".join(sorted({_place(task) for task in tasks if task.cards})),
            "detail": watch.detail,
            "seen": describe_finding(watch),
            "acts": describe_act(watch, self.now),
            "next_at": next(iter(times.values()), None),
            "acts_at": times.get(Rung.ACTED),
            "then": watch.then,
            "notebook_id": notebook.public_id if notebook else "",
            "notebook": notebook.name if notebook else "",
            "snoozed_until": watch.snoozed_until,
            "snoozes_left": left,
            "may": self._find_actions(job, left),
        }

    def _find_actions(self, job: Job, snoozes_left: int) -> frozenset[str]:
        key = job.team_id, job.user_id == self.user.pk
        if key not in self.roles:
            self.roles[key] = roles_of(self.user, job.team, job.user_id)
        may = {name for name, action in ACTIONS.items() if self.roles[key] & PERMISSIONS[action]}
        own = job.user_id == self.user.pk
        return frozenset(may - ({"nudge"} if own else set()) - (set() if snoozes_left else {"snooze"}))


def _place(task: Task) -> str:
    cards = ", ".join(show_place(card["index"]) for card in task.cards)
    return f"{task.node.name if task.node else '?'} · {cards}"


def _reason(exempt: Exemption | None) -> str:
    return exempt.reason if exempt else ""
