"""What machines say of their health, and the platform's own processes."""

from django.db import models
from django.db.models.functions import Now

from cluster.models import Node


class CheckState(models.TextChoices):
    """UNKNOWN: the check could not be made, which is no fault and no health."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class NodeCheck(models.Model):
    """What a check of a machine, or of one of its cards, says now. card: its uuid, "" for the machine.

    since: when it began to say so. seen_at: when it last said it. count: of what it counts, such as errors. words: in
    English, as logs are.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="checks")
    card = models.CharField(max_length=100, blank=True)
    name = models.CharField(max_length=40)
    state = models.CharField(max_length=7, choices=CheckState.choices)
    words = models.CharField(max_length=300, blank=True)
    count = models.PositiveBigIntegerField(default=0)
    since = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "card", "name"], name="one_check")]
        ordering = ["node", "name", "card"]

    def __str__(self) -> str:
        return f"{self.name} of {self.node}: {self.state}"


class NodeCheckChange(models.Model):
    """A check that began to say something else: the history of NodeCheck, kept for a year."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="check_changes")
    card = models.CharField(max_length=100, blank=True)
    name = models.CharField(max_length=40)
    state = models.CharField(max_length=7, choices=CheckState.choices)
    words = models.CharField(max_length=300, blank=True)
    count = models.PositiveBigIntegerField(default=0)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["node", "-at"], name="check_history"),
            models.Index(fields=["at"], name="old_checks"),
        ]
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} of {self.node} became {self.state}"


class ProcessNow(models.Model):
    """A process of the platform that said it is there. metrics: where Prometheus may ask it, "" nowhere but its own."""

    role = models.CharField(max_length=20)
    host = models.CharField(max_length=100)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=40)
    metrics = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["role", "host", "pid"], name="one_process")]
        ordering = ["role", "host", "pid"]

    def __str__(self) -> str:
        return f"{self.role} on {self.host}"
