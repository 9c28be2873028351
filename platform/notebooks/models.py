"""A notebook: a named place to work, kept between starts. Each start is a job, and its state is read from that job."""

import hashlib
import json
import uuid
from collections.abc import Iterable

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import Team, User
from jobs.models import Job, Task
from jobs.states import JOB_FINAL, JobState
from notebooks.states import NotebookState, derive_state


class NotebookQuerySet(models.QuerySet["Notebook"]):
    def visible_to(self, user: User) -> "NotebookQuerySet":
        """One's own. Admins and auditors see that others' exist, and never get in."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self.live() if user.sees_all else self.live().filter(user=user)

    def live(self) -> "NotebookQuerySet":
        """Not deleted, running or not."""
        return self.filter(deleted_at__isnull=True)

    def started(self) -> "NotebookQuerySet":
        """Those whose newest start is in the queue or holds something."""
        return self.filter(job__isnull=False).exclude(job__state__in=JOB_FINAL)

    def in_states(self, states: Iterable[str]) -> "NotebookQuerySet":
        """Those whose state is one of these, as derive_state has it."""
        wanted = Q(job__isnull=True) if derive_state(None, ready=False) in states else Q(pk__in=[])
        for state in JobState.values:
            for ready in (False, True):
                if derive_state(state, ready=ready) in states:
                    wanted |= Q(job__state=state, ready_at__isnull=not ready)
        return self.filter(wanted)

    def with_names(self) -> "NotebookQuerySet":
        return self.select_related("user", "team", "job", "job__pool")


class Notebook(models.Model):
    """What to start, and the newest start.

    spec: a canonical job spec (jobs.jobfile.to_json) without a command; its max_time is how long one start may last.
    job: the newest start, None before the first. ready_at, opened_at, stops_at, warned_at: of that start; JupyterLab
    answers, its owner opened it first, it is stopped then (None = never), its owner was told so.
    folder_name: chosen when it is made, by its first name. A new name moves no files: what runs there goes on.
    """

    KIND = "notebook"

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="notebooks")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="notebooks")
    name = models.CharField(max_length=40)
    folder_name = models.CharField(max_length=44)
    spec = models.JSONField()
    job = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    ready_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(null=True)
    stops_at = models.DateTimeField(null=True)
    warned_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)

    objects = NotebookQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("notebook"), _("notebooks")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "name"], condition=Q(deleted_at=None), name="one_name_per_owner"),
            models.UniqueConstraint(
                fields=["user", "folder_name"], condition=Q(deleted_at=None), name="one_folder_per_notebook"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"nb-{self.pk}"

    @property
    def state(self) -> str:
        """One of NotebookState."""
        return derive_state(self.job.state if self.job else None, ready=self.ready_at is not None)

    @property
    def is_started(self) -> bool:
        return self.state not in (NotebookState.STOPPED, NotebookState.FAILED)

    @property
    def task(self) -> Task | None:
        """The task of the newest start, whatever became of it."""
        return self.job.newest_tasks.select_related("job", "node").first() if self.job else None

    @property
    def folder(self) -> str:
        """Where its files lie, below its owner's home."""
        return f"notebooks/{self.folder_name}"

    @property
    def version(self) -> str:
        """Another one after each change of what may be changed; its state and its starts are no part of it."""
        return hashlib.sha256(json.dumps([self.name, self.spec], sort_keys=True).encode()).hexdigest()[:16]
