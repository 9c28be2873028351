"""The leader's lease: one row, its epoch rises with each new leader, and the database refuses an old one."""

from django.db import models


class Lease(models.Model):
    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=100, blank=True)
    epoch = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField(null=True)
    wanted = models.BooleanField(default=False)
    last_ok_at = models.DateTimeField(null=True)
    last_ms = models.PositiveIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.name} epoch {self.epoch}"
