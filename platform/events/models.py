"""History: what happened to which object, in order, by whom and why. It knows its objects as values, never by key."""

from django.db import models
from django.db.models.functions import Now


class Event(models.Model):
    """One line of an object's history. `seq` is dense per object, so a gap would show.

    verb: "state" for a move, else what was done ("submitted", "held", "quota.changed").
    params: the values its sentence needs; for a change of settings {"from": {...}, "to": {...}}.
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
    team_id = models.BigIntegerField(null=True)
    params = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "object_id", "seq"], name="one_event_seq")]
        indexes = [models.Index(fields=["team_id", "id"], name="events_of_team")]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.label} {self.seq}: {self.verb} {self.to_state}"
