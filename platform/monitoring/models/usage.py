"""What each holding was used for, as totals that go on exactly from the counters that they stood at.

TaskUse is what reports and verdicts are made of: written each quarter of an hour and at the end. TaskUseNow is the
same, moved on by every tick; after a crash it is empty, and the counters go on from TaskUse.
"""

from django.db import models
from django.db.models.functions import Now

from monitoring.models.now import Source
from quotas.models import Holding


class Use(models.Model):
    """A holding's use: of a card, or of CPU and memory. A column is NULL as long as it was never known.

    run, up_ms, at: the newest sample. *_at: the counters then. seen_ms: how long it was watched, tick upon tick.
    active_ms: seen at 5 % of its share or more. idle_ms: in spans below that of a quarter of an hour or more. low_ms:
    how long it has been below that, up to the newest sample. busy_ms: of the card's time. energy_mj: its part
    of what the card drew (usage/energy.py). sm_ms, throttle_ms: of a whole card, over *_of_ms (usage/whole_cards.py).
    memory_mib_ms: memory in use times how long, over memory_ms.
    """

    run = models.CharField(max_length=100)
    up_ms = models.BigIntegerField()
    at = models.DateTimeField()
    source = models.CharField(max_length=9, choices=Source.choices)
    of_card = models.BooleanField(default=False, help_text="its busy counter is that of the whole card, which it holds")
    busy_at = models.BigIntegerField(null=True)
    cpu_at = models.BigIntegerField(null=True)
    read_at = models.BigIntegerField(null=True)
    write_at = models.BigIntegerField(null=True)
    energy_at = models.BigIntegerField(null=True)
    sm_at = models.BigIntegerField(null=True)
    throttle_at = models.BigIntegerField(null=True)
    seen_ms = models.BigIntegerField(default=0)
    active_ms = models.BigIntegerField(default=0)
    idle_ms = models.BigIntegerField(default=0)
    low_ms = models.BigIntegerField(default=0)
    busy_ms = models.BigIntegerField(null=True)
    cpu_ms = models.BigIntegerField(null=True)
    read_kib = models.BigIntegerField(null=True)
    write_kib = models.BigIntegerField(null=True)
    energy_mj = models.BigIntegerField(null=True)
    sm_ms = models.BigIntegerField(null=True)
    sm_of_ms = models.BigIntegerField(default=0, db_default=0)
    throttle_ms = models.BigIntegerField(null=True)
    throttle_of_ms = models.BigIntegerField(default=0, db_default=0)
    memory_ms = models.BigIntegerField(default=0)
    memory_mib_ms = models.BigIntegerField(default=0)
    peak_mib = models.PositiveIntegerField(null=True)

    class Meta:
        abstract = True


class TaskUse(Use):
    holding = models.OneToOneField(Holding, on_delete=models.CASCADE, primary_key=True, related_name="use")

    def __str__(self) -> str:
        return f"use of {self.holding}"


class TaskUseNow(Use):
    """saved_at: when it was last written to TaskUse, or began."""

    holding = models.OneToOneField(Holding, on_delete=models.CASCADE, primary_key=True, related_name="use_now")
    saved_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"use of {self.holding} now"
