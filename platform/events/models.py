"""Events, and notices to people. Objects and people are plain ids, not foreign keys."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class OfNoTeam:
    """What has events and belongs to no team."""

    @property
    def team_id(self) -> None:
        return None


class Event(models.Model):
    """One event in an object's history. `seq` has no gaps per object.

    verb: "state" for a move, else what was done ("submitted", "quota.changed"). owner_id: the person who owns the
    object. params: values of its sentence; for changed settings {"from": {...}, "to": {...}}. via: how the actor's
    token begins, empty for the portal's session; it, address and request_id are for the audit log only.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    kind = models.CharField(max_length=20)
    object_id = models.BigIntegerField()
    label = models.CharField(max_length=80)
    seq = models.PositiveIntegerField()
    verb = models.CharField(max_length=40)
    from_state = models.CharField(max_length=12, blank=True)
    to_state = models.CharField(max_length=12, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    actor = models.CharField(max_length=64)
    actor_id = models.BigIntegerField(null=True)
    via = models.CharField(max_length=16, db_default="")
    address = models.CharField(max_length=64, db_default="")
    request_id = models.CharField(max_length=64, db_default="")
    team_id = models.BigIntegerField(null=True)
    owner_id = models.BigIntegerField(null=True)
    params = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "object_id", "seq"], name="one_event_seq")]
        indexes = [
            models.Index(fields=["team_id", "id"], name="events_of_team"),
            models.Index(fields=["object_id"], name="releases_of_jobs", condition=Q(kind="job", verb="released")),
            models.Index(fields=["at"], name="events_of_machines", condition=Q(kind="node")),
            models.Index(fields=["kind", "id"], name="events_of_people", condition=Q(actor_id__isnull=False)),
        ]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.label} {self.seq}: {self.verb} {self.to_state}"

    @property
    def type(self) -> str:
        """The type that topics name: "job.failed"."""
        what = self.to_state.lower() if self.verb == "state" else self.verb.removeprefix(f"{self.kind}.")
        return f"{self.kind}.{what}"

    def as_json(self) -> dict:
        """Return the event as streams and webhooks send it."""
        return {
            "id": self.pk,
            "at": self.at.isoformat().replace("+00:00", "Z"),
            "type": self.type,
            "kind": self.kind,
            "object": self.label,
            "verb": self.verb,
            "from_state": self.from_state.lower(),
            "to_state": self.to_state.lower(),
            "reason": self.reason,
            "actor": self.actor,
            "params": self.params,
        }


class Outgoing(models.Model):
    """A row that is sent out of the platform at least once (events.outgoing).

    due_at: next try, null when done. claim_no: fences off a sender whose claim expired.
    """

    due_at = models.DateTimeField(null=True)
    claimed_until = models.DateTimeField(null=True)
    claim_no = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=40, blank=True)

    class Meta:
        abstract = True


class Notice(Outgoing):
    """A message to a person, in the portal and by mail; its text is made from kind and params.

    due_at: of its mail.
    """

    user_id = models.BigIntegerField()
    kind = models.CharField(max_length=30)
    object_kind = models.CharField(max_length=20)
    object_id = models.BigIntegerField()
    label = models.CharField(max_length=80)
    params = models.JSONField(default=dict)
    in_portal = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())
    read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["due_at"], name="due_mails", condition=Q(due_at__isnull=False)),
            models.Index(fields=["user_id", "-id"], name="notices_of_user"),
            models.Index(fields=["user_id"], name="unread_notices", condition=Q(read_at__isnull=True, in_portal=True)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.label}"


class NoticeChoice(models.Model):
    """A person's channels for one kind of notice."""

    user_id = models.BigIntegerField()
    kind = models.CharField(max_length=30)
    portal = models.BooleanField()
    mail = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user_id", "kind"], name="one_notice_choice")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.kind}"
