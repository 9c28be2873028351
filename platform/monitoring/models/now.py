"""The newest samples of machines, cards and tasks. Each may be lost at any time: nothing is decided by them.

NULL is what is not known, never 0. `term` counts the runs of a machine's sampler: totals of two terms have nothing to
do with each other. `up_ms` is how long a run had lasted, by the sampler's own clock, when something was sampled.
"""

from django.db import models

from cluster.models import Gpu, Node
from jobs.models import Task


class Source(models.TextChoices):
    """How a figure came about."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    SIMULATED = "simulated"


class NodeNow(models.Model):
    """How far a machine's ticks were taken, and what the newest that told of the machine itself said.

    run_before: the run before this one, of which repeats may still arrive. at, up_ms: when `use` was told, of this run
    or an earlier one. use: values of wire.NODE_VALUES, means since the tick before, and disks.
    """

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="now")
    run = models.CharField(max_length=100, blank=True)
    run_before = models.CharField(max_length=100, blank=True)
    term = models.PositiveIntegerField(default=0)
    seq = models.PositiveBigIntegerField(default=0)
    at = models.DateTimeField(null=True)
    up_ms = models.PositiveBigIntegerField(null=True)
    use = models.JSONField(default=dict, db_default={})

    def __str__(self) -> str:
        return f"{self.node} now"


class CardNow(models.Model):
    """A card's newest sample. busy_percent: the mean since the one before. energy_mj: since its driver was loaded.

    counted: totals and means of card_counters.
    """

    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, primary_key=True, related_name="now")
    at = models.DateTimeField()
    term = models.PositiveIntegerField()
    up_ms = models.PositiveBigIntegerField()
    source = models.CharField(max_length=9, choices=Source.choices)
    busy_ms = models.PositiveBigIntegerField(null=True)
    busy_percent = models.FloatField(null=True)
    used_mib = models.PositiveIntegerField(null=True)
    temperature_c = models.PositiveSmallIntegerField(null=True)
    power_w = models.PositiveIntegerField(null=True)
    clock_mhz = models.PositiveIntegerField(null=True)
    energy_mj = models.PositiveBigIntegerField(null=True)
    counted = models.JSONField(default=dict, db_default={})

    def __str__(self) -> str:
        return f"{self.gpu} now"


class TaskNow(models.Model):
    """A task's newest sample. up_ms: when its counters were read. cpu_milli, *_kib_s: means since the look before.

    shares: of its cards, [{"uuid", "source", "busy_ms", "busy_percent", "used_mib", "up_ms"}].
    """

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="now")
    at = models.DateTimeField()
    term = models.PositiveIntegerField()
    up_ms = models.BigIntegerField()
    cpu_ms = models.PositiveBigIntegerField(null=True)
    cpu_milli = models.PositiveIntegerField(null=True)
    memory_mib = models.PositiveIntegerField(null=True)
    peak_mib = models.PositiveIntegerField(null=True)
    processes = models.PositiveIntegerField(null=True)
    read_kib = models.PositiveBigIntegerField(null=True)
    read_kib_s = models.PositiveIntegerField(null=True)
    write_kib = models.PositiveBigIntegerField(null=True)
    write_kib_s = models.PositiveIntegerField(null=True)
    net_rx_kib = models.PositiveBigIntegerField(null=True)
    net_rx_kib_s = models.PositiveIntegerField(null=True)
    net_tx_kib = models.PositiveBigIntegerField(null=True)
    net_tx_kib_s = models.PositiveIntegerField(null=True)
    shares = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.task} now"
