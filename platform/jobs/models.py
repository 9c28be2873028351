"""Jobs, and their tasks, each of which runs once on one node."""

import re
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from django.conf import settings
from django.db import models
from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _

from accounts.models import ApiToken, Team, User
from cluster.models import Agent, Node, Pool
from common.locks import database_now
from jobs.arrays.models import JobArray
from jobs.states import HOLDING, JOB_ACTIVE, JOB_FINAL, JOB_MOVES, TASK_FINAL, TASK_MOVES, JobState, TaskState

LOG_PATIENCE = timedelta(minutes=10)
"""How long after a task's end an agent may still upload the rest of its log."""


class Priority(models.IntegerChoices):
    LOW = 0, _("low")
    NORMAL = 1, _("normal")
    HIGH = 2, _("high")
    URGENT = 3, _("urgent")


class JobKind(models.TextChoices):
    BATCH = "batch", _("batch")
    INTERACTIVE = "interactive", _("interactive")
    SERVICE = "service", _("service")


WITHOUT_TIME_LIMIT = frozenset({JobKind.INTERACTIVE, JobKind.SERVICE})
"""Kinds of jobs that a pool's usual limit does not end: something else does."""

LISTED = Q(array_index__isnull=True) | Q(array_index=0)
"""Jobs of which lists have a row: an array has one, that of its first element."""

JOB_ID = re.compile(r"job-([1-9][0-9]{0,17})")


class Preemptible(Protocol):
    """Fields of a job that say whether it may be stopped."""

    @property
    def kind(self) -> str: ...
    @property
    def preemptible(self) -> bool: ...


def may_be_stopped(job: Preemptible) -> bool:
    """Whether the scheduler may stop the job and queue it again."""
    return job.preemptible and job.kind != JobKind.INTERACTIVE


def has_label(label: str) -> Q:
    """Match jobs with a label: "exp:a", or "exp" with whatever value."""
    name, colon, value = label.partition(":")
    return Q(labels__contains={name: value}) if colon else Q(labels__has_key=name)


def read_job_id(text: str) -> int | None:
    """Return the number of "job-412", or None for what is no id of a job."""
    named = JOB_ID.fullmatch(text)
    return int(named[1]) if named else None


def show_job_id(pk: int) -> str:
    return f"job-{pk}"


def find_told_pool(pool: str, places: list[dict]) -> str:
    """Return the pool that the reasons and the position of a waiting job are of. The arguments are its columns."""
    return places[0]["name"] if places else pool


def list_positions(pool: str, choices: list[dict], places: list[dict], position: int | None) -> dict[str, int | None]:
    """Return {pool: the position there} of a waiting job, in order of preference; None before the first cycle.

    The arguments are its columns; position is that of the pool which its reasons are of.
    """
    known, told = {place["name"]: place["position"] for place in places}, find_told_pool(pool, places)
    open_ones = {place["pool"] for place in places}
    names = [choice["name"] for choice in choices if not open_ones or choice["pool"] in open_ones]
    return {name: known.get(name, position if name == told else None) for name in (names if choices else [pool])}


class JobQuerySet(models.QuerySet["Job"]):
    def visible_to(self, user: User) -> "JobQuerySet":
        """Filter to jobs of the user's teams; all for admins and auditors."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self if user.sees_all else self.filter(team__memberships__user=user)

    def waiting(self) -> "JobQuerySet":
        return self.filter(state=JobState.QUEUED)

    def in_pool(self, name: str) -> "JobQuerySet":
        """Filter to jobs that wait in the pool, run or ran there."""
        waits = Q(state=JobState.QUEUED, choices__contains=[{"name": name}])
        return self.filter(waits | Q(pool__name=name) & (Q(choices=[]) | ~Q(state=JobState.QUEUED)))

    def open(self) -> "JobQuerySet":
        return self.exclude(state__in=JOB_FINAL)

    def of_kind(self, kind: str) -> "JobQuerySet":
        """Filter by kind; "" means all but notebook starts."""
        return self.filter(kind=kind) if kind else self.exclude(kind=JobKind.INTERACTIVE)

    def with_names(self) -> "JobQuerySet":
        return self.select_related("team", "user", "pool")


class Job(models.Model):
    """A spec and the state of its newest attempt, derived from its tasks and stored for queries.

    spec: from jobs.jobfile.to_json. wait_reasons: [{"code", "params"}].
    gang: [{"role", "min", "max", "request": {...}, maybe "ends_job"}].
    choices: where it waits, in order of preference: [{"pool": id, "name", "gang", "max_time_s", "preemptible"}]; empty
    if only in `pool`. pool, gang, max_time_s, preemptible: of the first of them until it has started, then of the pool
    where it did.
    wait_places: where it stands in each of them: [{"pool": id, "name", "position", "of"}]; wait_reasons, wait_position
    and wait_of tell of the first of these, where it is to start first.
    template: of which it was made: {"id", "name", "version", "values"}. parent: the job that it is a copy of.
    made_by: the token that submitted it, where the job has one of its own (`token`), which ends with that one.
    array, array_index: of which array it is which element, from 0.
    """

    KIND = "job"
    MOVES = JOB_MOVES

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=64, blank=True)
    kind = models.CharField(max_length=12, choices=JobKind.choices, default=JobKind.BATCH)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="jobs")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="jobs")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="jobs")
    choices = models.JSONField(default=list, db_default=[])  # the previous version still inserts rows in an upgrade
    spec = models.JSONField()
    gang = models.JSONField()
    labels = models.JSONField(default=dict)
    template = models.JSONField(null=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="copies", db_index=False)
    made_by = models.ForeignKey(ApiToken, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    array = models.ForeignKey(JobArray, null=True, on_delete=models.PROTECT, related_name="elements", db_index=False)
    array_index = models.PositiveIntegerField(null=True)
    priority = models.SmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)
    preemptible = models.BooleanField(default=False)
    time_s = models.PositiveIntegerField(null=True)
    max_time_s = models.PositiveIntegerField(null=True)

    state = models.CharField(max_length=12, choices=JobState.choices, default=JobState.QUEUED)
    reason = models.CharField(max_length=40, blank=True)
    exit_code = models.IntegerField(null=True)
    attempt = models.PositiveSmallIntegerField(default=1)
    retries_left = models.PositiveSmallIntegerField(default=0)
    revision = models.PositiveIntegerField(default=0, help_text="how often what it asks for was changed")
    stops = models.PositiveSmallIntegerField(default=0, help_text="how often it was stopped for others")
    submitted_at = models.DateTimeField(db_default=Now())
    queued_at = models.DateTimeField(db_default=Now())
    eligible_at = models.DateTimeField(db_default=Now(), help_text="its submit, or its start_at if that is later")
    not_before = models.DateTimeField(null=True)
    waits_for = models.JSONField(default=list, db_default=[], help_text="jobs of `after` that have yet to end")
    give_up_at = models.DateTimeField(null=True, help_text="when it is cancelled if it has not started by then")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    stop_requested_at = models.DateTimeField(null=True)
    stop_requested_by = models.CharField(max_length=64, blank=True)
    stop_reason = models.CharField(max_length=40, blank=True)
    held_at = models.DateTimeField(null=True)
    held_by = models.CharField(max_length=64, blank=True)

    wait_reasons = models.JSONField(default=list)
    wait_position = models.PositiveIntegerField(null=True)
    wait_of = models.PositiveIntegerField(null=True)
    wait_places = models.JSONField(default=list, db_default=[])
    explained_at = models.DateTimeField(null=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("job"), _("jobs")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["array", "array_index"], name="each_element_once")]
        indexes = [
            models.Index(fields=["pool", "id"], name="queued_jobs", condition=Q(state="QUEUED")),
            models.Index(fields=["pool", "id"], name="active_jobs", condition=Q(state__in=sorted(JOB_ACTIVE))),
            models.Index(fields=["team", "-id"], name="jobs_of_team"),
            models.Index(fields=["user", "state"], name="jobs_of_user"),
            models.Index(fields=["parent"], name="copies_of_job", condition=Q(parent__isnull=False)),
            models.Index(fields=["array", "state"], name="elements_by_state", condition=Q(array__isnull=False)),
            models.Index(fields=["team", "-id"], name="listed_jobs_of_team", condition=LISTED),
            models.Index(fields=["user", "-id"], name="listed_jobs_of_user", condition=LISTED),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return show_job_id(self.pk)

    @property
    def is_final(self) -> bool:
        return self.state in JOB_FINAL

    @property
    def is_told_alone(self) -> bool:
        """Whether people and webhooks are told of what becomes of it: of an array they are told as a whole."""
        return self.array_id is None

    @property
    def pool_ids(self) -> list[int]:
        """The pools where it may start, runs or ran: those whose pages may show it."""
        return [choice["pool"] for choice in self.choices] or [self.pool_id]

    @property
    def waits_from(self) -> datetime:
        """Since when it waits: from its last queueing, and not before the `start_at` that it asked for."""
        return max(self.queued_at, self.eligible_at)

    @property
    def told_pool_name(self) -> str:
        """The pool where it runs or ran, and while it waits the one that its reasons and position are of."""
        return find_told_pool(self.pool.name, self.wait_places if self.state == JobState.QUEUED else [])

    @property
    def pool_names(self) -> list[str]:
        """The pools where it waits, in order of preference; where it runs or ran, once it has started."""
        return list(self.positions) if self.state == JobState.QUEUED else [self.pool.name]

    @property
    def positions(self) -> dict[str, int | None]:
        """{pool: the position there} while it waits: see `list_positions`."""
        return list_positions(self.pool.name, self.choices, self.wait_places, self.wait_position)

    def enter_pool(self, pool_id: int) -> bool:
        """Set what it asks for in one of the pools where it waits; False if it does not wait there."""
        chosen = next((choice for choice in self.choices if choice["pool"] == pool_id), None)
        if chosen is not None:
            self.pool_id, self.gang, self.max_time_s = pool_id, chosen["gang"], chosen["max_time_s"]
            self.preemptible = chosen.get("preemptible", self.preemptible)  # jobs of the previous version lack it
        return self.pool_id == pool_id

    def is_preemptible_in(self, pool_id: int) -> bool:
        """Whether it may be stopped where it waits in this pool."""
        chosen = next((choice for choice in self.choices if choice["pool"] == pool_id), None)
        return self.preemptible if chosen is None else chosen.get("preemptible", self.preemptible)

    @property
    def least(self) -> int:
        """The number of tasks that must start together."""
        return sum(role["min"] for role in self.gang)

    @property
    def most(self) -> int:
        """The largest number of tasks."""
        return sum(role["max"] for role in self.gang)

    @property
    def request(self) -> dict:
        """The request per task, of the first role with GPUs if any."""
        return next((role for role in self.gang if role["request"]["gpu"] != "0"), self.gang[0])["request"]

    def in_order(self, tasks: "Iterable[Task]") -> "list[Task]":
        """Sort tasks by role, as in the job file, then rank."""
        places = {role["role"]: place for place, role in enumerate(self.gang)}
        return sorted(tasks, key=lambda task: (places.get(task.role, 0), task.rank))

    @property
    def size(self) -> int:
        return sum(self.sizes.values())

    @property
    def sizes(self) -> dict[str, int]:
        """{role: number of tasks}; the minimum while an elastic gang waits."""
        if self.least == self.most or self.state == JobState.QUEUED:
            return {role["role"]: role["min"] for role in self.gang}
        counts = self.tasks.filter(attempt=self.attempt).values_list("role").annotate(tasks=Count("pk"))
        return dict(counts.order_by())

    @property
    def newest_tasks(self) -> "TaskQuerySet":
        return self.tasks.filter(attempt=self.attempt).order_by("role", "rank")


class TaskQuerySet(models.QuerySet["Task"]):
    def visible_to(self, user: User) -> "TaskQuerySet":
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self if user.sees_all else self.filter(job__team__memberships__user=user)

    def holding(self) -> "TaskQuerySet":
        return self.filter(state__in=HOLDING)

    def log_awaited(self) -> "TaskQuerySet":
        """Filter to ended tasks with logs that an agent may complete."""
        return self.filter(_build_log_awaited_filter())

    def log_open(self) -> "TaskQuerySet":
        return self.filter(~Q(state__in=TASK_FINAL) | _build_log_awaited_filter())


def _build_log_awaited_filter() -> Q:
    agents = Agent.objects.filter(node_name=OuterRef("node__name"), revoked_at__isnull=True, logs_at__isnull=False)
    ended = Q(state__in=TASK_FINAL, started_at__isnull=False, ended_at__gt=database_now() - LOG_PATIENCE)
    return ended & ~Q(brought__end__in=[BroughtLog.End.WHOLE, BroughtLog.End.CUT]) & Q(Exists(agents))


class Task(models.Model):
    """One container on one node. It never restarts: a retry is a new task."""

    KIND = "task"
    MOVES = TASK_MOVES

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tasks")
    role = models.CharField(max_length=32, default="main")
    rank = models.PositiveIntegerField(default=0)
    attempt = models.PositiveSmallIntegerField(default=1)
    state = models.CharField(max_length=12, choices=TaskState.choices, default=TaskState.PENDING)
    reason = models.CharField(max_length=40, blank=True)
    detail = models.CharField(max_length=300, blank=True)
    node = models.ForeignKey(Node, null=True, on_delete=models.PROTECT, related_name="tasks")
    epoch = models.BigIntegerField(null=True)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    cards = models.JSONField(
        default=list, help_text="[{uuid, index, model, memory_mib, compute_percent, whole, simulated}]"
    )
    address = models.CharField(max_length=64, blank=True)
    ports = models.JSONField(default=dict, help_text="{declared: actual}")
    exit_code = models.IntegerField(null=True)
    exit_signal = models.SmallIntegerField(null=True)
    peak_memory_mib = models.PositiveIntegerField(null=True)
    assigned_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    fetching_since = models.DateTimeField(null=True, help_text="of its image, while it starts")
    fetch_began_at = models.DateTimeField(null=True, help_text="the same, kept once it runs")
    checkpointed_at = models.DateTimeField(null=True)
    gpu_use = models.JSONField(
        default=list,
        db_default=[],  # the previous version still inserts rows during an upgrade
        help_text="[{uuid, limit_mib, used_mib, peak_mib, refused}] of shared cards, the newest sample",
    )
    resize = models.JSONField(
        null=True, help_text="the newest wish for another size of its slice (jobs.running_slices); null: there was none"
    )
    settled = models.JSONField(null=True, help_text="an administrator's word on a lost task (jobs.control)")
    lost_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "role", "rank"], condition=~Q(state__in=sorted(TASK_FINAL)), name="one_live_task"
            ),
            models.UniqueConstraint(fields=["job", "role", "rank", "attempt"], name="one_task_per_attempt"),
        ]
        indexes = [
            models.Index(fields=["state"], name="holding_tasks", condition=Q(state__in=sorted(HOLDING))),
            models.Index(Coalesce("assigned_at", "ended_at"), name="waits_by_end", condition=Q(rank=0)),
        ]

    def __str__(self) -> str:
        return f"{self.job.public_id} {self.name}"

    @property
    def name(self) -> str:
        """Its name within its job, such as worker.1."""
        return f"{self.role}.{self.rank}"

    @property
    def public_id(self) -> str:
        """The job's id, under which tasks are published."""
        return self.job.public_id

    @property
    def team_id(self) -> int:
        return self.job.team_id

    @property
    def user_id(self) -> int:
        return self.job.user_id

    @property
    def pool_id(self) -> int:
        return self.job.pool_id

    @property
    def is_final(self) -> bool:
        return self.state in TASK_FINAL

    @property
    def is_told_alone(self) -> bool:
        return self.job.is_told_alone


class BroughtLog(models.Model):
    """Upload state of a log. behind_since: when the oldest missing line was written."""

    class End(models.TextChoices):
        OPEN = "", _("more may follow")
        WHOLE = "whole", _("complete")
        CUT = "cut", _("the end was lost on the machine")

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="brought")
    behind_since = models.DateTimeField(null=True)
    end = models.CharField(max_length=5, choices=End.choices, default=End.OPEN, blank=True)

    def __str__(self) -> str:
        return f"log of {self.task}"


class GivenSecrets(models.Model):
    """What an attempt's tasks were given of secrets, sealed, so that their logs are masked when they are brought."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="given_secrets")
    attempt = models.PositiveIntegerField()
    sealed = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt"], name="secrets_given_once")]

    def __str__(self) -> str:
        return f"secrets of {self.job}"


class CodePack(models.Model):
    """An uploaded directory, stored once per content. Only the uploader may use it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="code_packs")
    digest = models.CharField(max_length=71)
    files = models.PositiveIntegerField()
    bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="one_code_pack")]

    def __str__(self) -> str:
        return self.digest


class IdempotencyKey(models.Model):
    """A request's result, with which its retry is answered."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64)
    kind = models.CharField(max_length=20)
    object_id = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_idempotency_key")]

    def __str__(self) -> str:
        return self.key
