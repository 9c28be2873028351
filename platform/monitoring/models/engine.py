"""What was sent to a series engine beside PostgreSQL."""

from django.db import models


class RemoteWrite(models.Model):
    """How far samples were sent: one row, which exists once an engine is named.

    until: samples up to here are sent or dropped. sent_at: when the engine last took some. sent, dropped: values so
    far. error: why the newest try failed, "" if it did not: refused, or a reason of common.safe_http. status, words:
    the engine's own.
    """

    until = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    dropped_at = models.DateTimeField(null=True)
    sent = models.PositiveBigIntegerField(default=0)
    dropped = models.PositiveBigIntegerField(default=0)
    error = models.CharField(max_length=20, blank=True)
    status = models.PositiveSmallIntegerField(null=True)
    words = models.CharField(max_length=300, blank=True)

    def __str__(self) -> str:
        return f"sent until {self.until}"
