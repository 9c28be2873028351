"""The numbers that tasks report, thinned, and how far their files are read."""

from django.db import models

from jobs.models import Task


class Report(models.Model):
    """How far a task's file is read. Stored in one transaction with what was read, so that a number counts once.

    in_line: whether `offset` is within a line whose begin was left out. skipped: bytes that were left out. refused: how
    many lines and numbers were not taken; first_why, first_what: the first of them.
    """

    task = models.OneToOneField(Task, primary_key=True, on_delete=models.CASCADE, related_name="report")
    offset = models.PositiveBigIntegerField(default=0)
    in_line = models.BooleanField(default=False)
    skipped = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    first_why = models.CharField(max_length=20, blank=True)
    first_what = models.CharField(max_length=80, blank=True)


class Series(models.Model):
    """The numbers of one name that a task reported.

    count: of all, also of those that are kept no more. points, tail: packed by `thinning`. width: of a bucket.
    """

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="numbers")
    name = models.CharField(max_length=64)
    count = models.PositiveBigIntegerField()
    last = models.FloatField()
    last_step = models.FloatField()
    last_at = models.DateTimeField()
    smallest = models.FloatField()
    smallest_step = models.FloatField()
    largest = models.FloatField()
    largest_step = models.FloatField()
    width = models.PositiveBigIntegerField(default=1)
    points = models.BinaryField(default=b"")
    tail = models.BinaryField(default=b"")

    class Meta:
        verbose_name_plural = "series"
        constraints = [models.UniqueConstraint(fields=["task", "name"], name="one_series_of_a_name")]
