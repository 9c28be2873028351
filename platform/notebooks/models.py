"""Notebooks: named work environments, each start of which is a job."""

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
        """Filter to the user's own; all for admins and auditors, who cannot open them."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self.live() if user.sees_all else self.live().filter(user=user)

    def live(self) -> "NotebookQuerySet":
        """Filter to those not deleted."""
        return self.filter(deleted_at__isnull=True)

    def started(self) -> "NotebookQuerySet":
        """Filter to those with a newest start that is not final."""
        return self.filter(job__isnull=False).exclude(job__state__in=JOB_FINAL)

    def in_states(self, states: Iterable[str]) -> "NotebookQuerySet":
        """Filter by derived state."""
        wanted = Q(job__isnull=True) if derive_state(None, ready=False) in states else Q(pk__in=[])
        for state in JobState.values:
            for ready in (False, True):
                if derive_state(state, ready=ready) in states:
                    wanted |= Q(job__state=state, ready_at__isnull=not ready)
        return self.filter(wanted)

    def with_names(self) -> "NotebookQuerySet":
        return self.select_related("user", "team", "job", "job__pool")


class Notebook(models.Model):
    """A notebook's settings and its newest start.

    spec: from jobs.jobfile.to_json, without a command; its max_time limits each start. folder_name: kept on a rename.
    ready_at, opened_at, stops_at (None: no end), warned_at: of the newest start.
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
        return derive_state(self.job.state if self.job else None, ready=self.ready_at is not None)

    @property
    def is_started(self) -> bool:
        return self.state not in (NotebookState.STOPPED, NotebookState.FAILED)

    @property
    def task(self) -> Task | None:
        """The newest start's task."""
        return self.job.newest_tasks.select_related("job", "node").first() if self.job else None

    @property
    def folder(self) -> str:
        """The path of its files in its owner's home."""
        return f"notebooks/{self.folder_name}"

    @property
    def version(self) -> str:
        """A hash that changes with the name and the settings."""
        return hashlib.sha256(json.dumps([self.name, self.spec], sort_keys=True).encode()).hexdigest()[:16]
