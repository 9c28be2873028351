"""Services: named programs that answer requests. Each replica is a job."""

from dataclasses import replace
from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import ApiToken, Credential, CredentialQuerySet, Team, User
from common.steady_clock import steady_now
from jobs.jobfile.serving import Serving
from jobs.jobfile.spec import JobSpec, from_json
from jobs.models import Job, Task
from jobs.states import JobState, TaskState


class ServiceQuerySet(models.QuerySet["Service"]):
    def visible_to(self, user: User) -> "ServiceQuerySet":
        """Filter to those of the user's teams, as jobs are seen; all for admins and auditors."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self.live() if user.sees_all else self.live().filter(team__memberships__user=user)

    def live(self) -> "ServiceQuerySet":
        """Filter to those not deleted."""
        return self.filter(deleted_at__isnull=True)

    def with_names(self) -> "ServiceQuerySet":
        return self.select_related("user", "team", "current", "rollout")


class Service(models.Model):
    """A service and what its controller remembers of it.

    current: the revision that answers. rollout: the one that takes its place once it is ready. canary_since: since when
    the rollout, as a canary, gets its share of the requests. canary_passed: it is tried no longer. least, most: how
    many replicas, as a person set it until a new file is rolled out. stopped_at: a person stopped it. woken_at: when it
    was last woken by hand, or got a new revision. busy_at: when it last had requests. low_since: since when it has more
    replicas than it needs.
    """

    KIND = "service"

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="services")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="services")
    name = models.CharField(max_length=40)
    current = models.ForeignKey("Revision", null=True, on_delete=models.PROTECT, related_name="+")
    rollout = models.ForeignKey("Revision", null=True, on_delete=models.PROTECT, related_name="+")
    canary_since = models.DateTimeField(null=True)
    canary_passed = models.BooleanField(default=False)
    least = models.PositiveSmallIntegerField(null=True)
    most = models.PositiveSmallIntegerField(null=True)
    stopped_at = models.DateTimeField(null=True)
    woken_at = models.DateTimeField(null=True)
    busy_at = models.DateTimeField(null=True)
    low_since = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)

    objects = ServiceQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("service"), _("services")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], condition=Q(deleted_at=None), name="one_service_per_name")
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"svc-{self.pk}"

    @property
    def newest(self) -> "Revision":
        """The revision that is to answer: the one that is rolled out, else the current one."""
        revision = self.rollout or self.current
        assert revision is not None  # from its creation on
        return revision

    @property
    def serving(self) -> Serving:
        """How it is to answer: as the newest file says, with as many replicas as a person set."""
        return self.scale(self.newest.serving)

    def scale(self, serving: Serving) -> Serving:
        """Return how a revision of it answers, with as many replicas as a person set."""
        if self.least is None or self.most is None:
            return serving
        return replace(serving, replicas=(self.least, self.most))

    @property
    def canary(self) -> "Revision | None":
        """The revision that is tried on a share of the requests: the rollout, while a good one answers the others."""
        if self.rollout is None or self.canary_passed or self.rollout.serving.canary is None:
            return None
        return self.rollout if self.current and self.current.failed_at is None else None


class Revision(models.Model):
    """A version of a service's file.

    spec: from jobs.jobfile.to_json. crashes: how many replicas in a row ended by themselves. retry_at: no replica is
    started before. failed_at: none is at all, until it is woken by hand. why: {"code", ...} of the last crash or
    refusal.
    """

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    job_file = models.TextField()
    spec = models.JSONField()
    created_by = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())
    crashes = models.PositiveSmallIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    why = models.JSONField(null=True)

    class Meta:
        verbose_name, verbose_name_plural = _("revision"), _("revisions")
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["service", "number"], name="one_revision_number")]

    def __str__(self) -> str:
        return f"{self.service} r{self.number}"

    @property
    def job_spec(self) -> JobSpec:
        return from_json(self.spec)

    @property
    def serving(self) -> Serving:
        serving = self.job_spec.serve
        assert serving is not None  # checked when it was made
        return serving


class Replica(models.Model):
    """A job that answers for a service; deleted once the job has ended, which keeps its history.

    ready_task, ready_at: the task that answered, and since when; another attempt has yet to. draining_at: since when it
    gets no new requests.
    """

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="replicas")
    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="replicas")
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="replica")
    ready_task = models.UUIDField(null=True)
    ready_at = models.DateTimeField(null=True)
    draining_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name, verbose_name_plural = _("replica"), _("replicas")
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.service} {self.job}"

    @property
    def task(self) -> Task | None:
        """The running task of its job's newest attempt."""
        if self.job.state != JobState.RUNNING:
            return None
        return self.job.newest_tasks.filter(state=TaskState.RUNNING).select_related("job", "node").first()

    @property
    def is_ready(self) -> bool:
        """Whether the program answered in the task that runs now."""
        return self.ready_task is not None and (task := self.task) is not None and task.uuid == self.ready_task

    def count_ready_s(self, now: datetime) -> float:
        return (now - self.ready_at).total_seconds() if self.ready_at else 0.0


class ColdStart(models.Model):
    """How long a replica took to answer, in seconds, from its queueing on: the parts follow each other.

    queue_s: until it had a machine. data_s: until its folders, code and data were there. image_s: while its image was
    fetched, 0 where the machine had it. program_s: until its program answered. at: when that was.
    """

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="cold_starts")
    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()
    queue_s = models.FloatField()
    data_s = models.FloatField()
    image_s = models.FloatField()
    program_s = models.FloatField()

    class Meta:
        verbose_name, verbose_name_plural = _("cold start"), _("cold starts")
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["service", "-at"], name="cold_starts_of_service")]

    def __str__(self) -> str:
        return f"{self.service} {self.job}"


class ServiceKeyQuerySet(CredentialQuerySet):
    def live(self) -> Self:
        """Filter to those that open something: not ended by time, nor with their person, service or maker."""
        by_person = Q(made_by__isnull=True)
        lasts = Q(made_by__expires_at__isnull=True) | Q(made_by__expires_at__gt=steady_now())
        maker_lives = Q(made_by__revoked_at__isnull=True) & lasts
        return super().live().filter(by_person | maker_lives, service__deleted_at__isnull=True)


class ServiceKey(Credential):
    """A key by which a program calls one service and nothing else. Shown once, stored as a digest.

    made_by: the API token that asked for it and whose end ends it. per_minute, in_flight: how many requests it may
    have, if there is a limit.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="keys")
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    made_by = models.ForeignKey(ApiToken, null=True, on_delete=models.CASCADE, related_name="+")
    per_minute = models.PositiveIntegerField(null=True)
    in_flight = models.PositiveIntegerField(null=True)

    objects = ServiceKeyQuerySet.as_manager()

    class Meta(Credential.Meta):
        verbose_name, verbose_name_plural = _("service key"), _("service keys")

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"


class CallCount(models.Model):
    """How many requests of a day came with one key, and how many got 400 or more. It outlives the key.

    key: its id, or BY_TOKEN or BY_BROWSER. name: the key's.
    """

    BY_TOKEN, BY_BROWSER = 0, -1

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="call_counts")
    day = models.DateField()
    key = models.BigIntegerField()
    name = models.CharField(max_length=64, blank=True)
    requests = models.PositiveBigIntegerField()
    errors = models.PositiveBigIntegerField()

    class Meta:
        verbose_name, verbose_name_plural = _("requests of a day"), _("requests of days")
        ordering = ["-day", "key"]
        constraints = [models.UniqueConstraint(fields=["service", "day", "key"], name="one_call_count")]

    def __str__(self) -> str:
        return f"{self.service} {self.day} {self.name}"
