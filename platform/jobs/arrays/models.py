"""Arrays: alike jobs of one file, each with values of its own, of which only some are open at a time."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import ApiToken, Team, User
from jobs.states import JOB_ACTIVE, JobState

ARRAY_ID = re.compile(r"arr-([1-9][0-9]{0,17})")
USUAL_AT_ONCE = 100
"""How many elements are open together if the file does not say: enough to fill a cluster, few enough for a cycle."""


PRUNED = "pruned"
"""Why a trial was stopped that was not among the best of its search. It counts as one that succeeded."""
IS_PRUNED = Q(state=JobState.CANCELLED, reason=PRUNED)


def read_array_id(text: str) -> int | None:
    """Return the number of "arr-9", or None for what is no id of an array."""
    named = ARRAY_ID.fullmatch(text)
    return int(named[1]) if named else None


def show_array_id(pk: int) -> str:
    return f"arr-{pk}"


def show_element_id(array: int, index: int | None) -> str:
    """Return the id of one element by its array: "arr-9.17"."""
    return f"{show_array_id(array)}.{index}"


class ElementCounts(NamedTuple):
    """How many of an array's elements are in which state, of those that have been made. Trials that a search stopped
    early count as succeeded: they told it what it wanted to know.
    """

    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def open(self) -> int:
        return self.waiting + self.running

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.cancelled


class ArrayQuerySet(models.QuerySet["JobArray"]):
    def visible_to(self, user: User) -> "ArrayQuerySet":
        """Filter to those of the user's teams, as jobs are seen; all for admins and auditors."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self if user.sees_all else self.filter(team__memberships__user=user)

    def with_names(self) -> "ArrayQuerySet":
        return self.select_related("user", "team")

    def open(self) -> "ArrayQuerySet":
        return self.filter(ended_at=None)


class JobArray(models.Model):
    """A job file with `array` or `search`, and how far its elements are. Each element, a trial in a search, is a job,
    made when there is room for it.

    spec: from jobs.jobfile.to_json, with resolved names. made_by: the token of its elements, as jobs have it.
    at_once: the most elements that are open together. made: elements 0 to made - 1 have been made. waiting to
    cancelled: of these, as they were counted last. retry_asked_at: elements that had ended by then, failed or with
    retry_all cancelled, too, are queued again. try_at, why: when it is tried again to make or retry one, and what
    refused it last: {"code", "params", "errors"}. halted_at: since when it is not tried again.
    """

    KIND = "array"

    name = models.CharField(max_length=64)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="arrays")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="arrays")
    made_by = models.ForeignKey(ApiToken, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    spec = models.JSONField()
    total = models.PositiveIntegerField()
    at_once = models.PositiveIntegerField(default=USUAL_AT_ONCE)
    made = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    running = models.PositiveIntegerField(default=0)
    succeeded = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    cancelled = models.PositiveIntegerField(default=0)
    submitted_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    stop_requested_at = models.DateTimeField(null=True)
    stop_requested_by = models.CharField(max_length=64, blank=True)
    retry_asked_at = models.DateTimeField(null=True)
    retry_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    retry_all = models.BooleanField(default=False)
    try_at = models.DateTimeField(null=True)
    halted_at = models.DateTimeField(null=True)
    why = models.JSONField(null=True)

    objects = ArrayQuerySet.as_manager()

    class Meta:
        app_label = "jobs"
        verbose_name, verbose_name_plural = _("array"), _("arrays")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["id"], name="open_arrays", condition=Q(ended_at=None)),
            models.Index(fields=["team", "-id"], name="arrays_of_team"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return show_array_id(self.pk)

    @property
    def counts(self) -> ElementCounts:
        return ElementCounts(*(getattr(self, name) for name in ElementCounts._fields))

    @counts.setter
    def counts(self, counts: ElementCounts) -> None:
        for name, value in counts._asdict().items():
            setattr(self, name, value)

    @property
    def reason(self) -> str:
        """Why it ended, as jobs have it: there is none of all elements together."""
        return ""

    @property
    def has_ended(self) -> bool:
        return self.ended_at is not None

    @property
    def makes_more(self) -> bool:
        """Whether elements are yet to be made."""
        return self.made < self.total and self.stop_requested_at is None and self.halted_at is None

    @property
    def state(self) -> str:
        """A state of jobs: what the elements come to together."""
        if self.ended_at is None:
            stops = self.stop_requested_at is not None and self.retry_asked_at is None
            return JobState.STOPPING if stops else JobState.RUNNING if self.running else JobState.QUEUED
        if self.failed or self.halted_at is not None:
            return JobState.FAILED
        return JobState.SUCCEEDED if self.succeeded == self.total else JobState.CANCELLED

    def get_state_display(self) -> str:
        return str(JobState(self.state).label)


def has_array_state(states: Iterable[str], prefix: str = "") -> Q:
    """Match arrays in any of these states of jobs, as their rows say. prefix: the way from another model to them."""

    def such(**conditions: Any) -> Q:
        return Q(**{f"{prefix}{name}": value for name, value in conditions.items()})

    wanted = set(states)
    ended, failed = such(ended_at__isnull=False), such(failed__gt=0) | such(halted_at__isnull=False)
    whole = such(succeeded=F(f"{prefix}total"))
    parts = {
        JobState.QUEUED: ~ended & such(running=0),
        JobState.RUNNING: ~ended & such(running__gt=0),
        JobState.FAILED: ended & failed,
        JobState.SUCCEEDED: ended & ~failed & whole,
        JobState.CANCELLED: ended & ~failed & ~whole,
    }
    if wanted & JOB_ACTIVE:
        wanted.add(JobState.RUNNING)
    found = such(pk__in=[])
    for state, matches in parts.items():
        if state in wanted:
            found |= matches
    return found
