"""Series of values: raw samples of the last hours, and packs of three steps. Their tables are cut into partitions.

NULL is what is not known. A row may be lost at any time: nothing but curves is made of it.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitoring.models.now import Source
from monitoring.series.keys import Kind


class Sample(models.Model):
    """Values of one series (series/keys.py), as means of `span_ms` until `at`. Unlogged: a crash empties it."""

    pk = models.CompositePrimaryKey("kind", "subject", "card", "at")
    kind = models.PositiveSmallIntegerField(choices=Kind.choices)
    subject = models.BigIntegerField()
    card = models.BigIntegerField(default=0)
    at = models.DateTimeField()
    span_ms = models.PositiveIntegerField()
    source = models.CharField(max_length=9, choices=Source.choices)
    values = ArrayField(models.IntegerField(null=True))

    def __str__(self) -> str:
        return f"sample of {self.subject}"


class Pack(models.Model):
    """A span of one series in equal steps (series/packs.py, series/tiers.py): a row of means for each column, and in
    all but the finest step a row of maxima after them.
    """

    pk = models.CompositePrimaryKey("kind", "subject", "card", "start")
    kind = models.PositiveSmallIntegerField(choices=Kind.choices)
    subject = models.BigIntegerField()
    card = models.BigIntegerField(default=0)
    start = models.DateTimeField()
    source = models.CharField(max_length=9, choices=Source.choices)
    data = models.BinaryField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"pack of {self.subject}"


class FinePack(Pack):
    """An hour, each 10 seconds."""


class MinutePack(Pack):
    """A day, each minute."""


class HourPack(Pack):
    """Thirty days, each hour."""


class PackedUntil(models.Model):
    """How far the packs of a tier are made. kind, subject, card: the last series of the span that is being packed."""

    tier = models.CharField(max_length=10, primary_key=True)
    until = models.DateTimeField()
    kind = models.PositiveSmallIntegerField(default=0)
    subject = models.BigIntegerField(default=0)
    card = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.tier} packs until {self.until}"
