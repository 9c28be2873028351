"""Quotas, limits of people, and holdings. Usage is always the sum of live holdings."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce, Greatest, Now
from django.utils.translation import gettext_lazy as _

from accounts.models import Team, User
from cluster.models import Gpu, Node, Pool
from events.models import OfNoTeam

RESOURCES = ("gpu_milli", "cpu_milli", "memory_mib")
QUOTA_FIELDS = (*(f"{name}_{kind}" for name in RESOURCES for kind in ("guarantee", "limit")), "weight", "cell")
Amounts = tuple[int, int, int]
"""(GPU in thousandths of a card, CPU in thousandths of a core, memory in MiB), in the order of RESOURCES."""


class Quota(models.Model):
    """What a team may hold in a pool: without a row, nothing. A null limit is no limit.

    guarantee: reserved. weight: share of what is spare. cell: the GPU guarantee counts in whole nodes of so many cards.
    until: when it returns to the values in `then`, by field, or ends if that is null.
    """

    KIND = "quota"

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="quotas", verbose_name=_("team"))
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="quotas", verbose_name=_("pool"))
    gpu_milli_guarantee = models.PositiveIntegerField(_("GPU guarantee"), default=0)
    gpu_milli_limit = models.PositiveIntegerField(_("GPU limit"), null=True, blank=True)
    cpu_milli_guarantee = models.PositiveIntegerField(_("CPU guarantee"), default=0)
    cpu_milli_limit = models.PositiveIntegerField(_("CPU limit"), null=True, blank=True)
    memory_mib_guarantee = models.PositiveIntegerField(_("memory guarantee"), default=0)
    memory_mib_limit = models.PositiveIntegerField(_("memory limit"), null=True, blank=True)
    weight = models.PositiveSmallIntegerField(
        _("weight"), default=1, validators=[MinValueValidator(1), MaxValueValidator(1000)]
    )
    cell = models.PositiveSmallIntegerField(
        _("cards per whole node"),
        default=1,
        validators=[MinValueValidator(1)],
        help_text=_(
            "The GPU guarantee counts whole nodes with this many cards, so that a job of that size always finds "
            "one. 1: single cards on any node."
        ),
    )
    until = models.DateTimeField(_("until"), null=True, editable=False, db_index=True)
    then = models.JSONField(null=True, editable=False)

    class Meta:
        verbose_name, verbose_name_plural = _("quota"), _("quotas")
        constraints = [models.UniqueConstraint(fields=["team", "pool"], name="one_quota")]
        ordering = ["pool__name", "team__name"]

    def __str__(self) -> str:
        return f"{self.team} in {self.pool}"

    @property
    def public_id(self) -> str:
        return str(self)

    @property
    def whole_nodes(self) -> int:
        return self.gpu_milli_guarantee // (1000 * self.cell) if self.cell > 1 else 0

    def limits(self) -> tuple[int | None, int | None, int | None]:
        return self.gpu_milli_limit, self.cpu_milli_limit, self.memory_mib_limit

    def guarantees(self) -> Amounts:
        return self.gpu_milli_guarantee, self.cpu_milli_guarantee, self.memory_mib_guarantee


class UserLimit(OfNoTeam, models.Model):
    """What one person may hold in all pools. Null means as for everyone (the row without user)."""

    KIND = "user_limit"

    user = models.OneToOneField(User, null=True, blank=True, on_delete=models.CASCADE, related_name="limit")
    gpu_milli = models.PositiveIntegerField(_("GPU"), null=True, blank=True)
    cpu_milli = models.PositiveIntegerField(_("CPU"), null=True, blank=True)
    memory_mib = models.PositiveIntegerField(_("memory"), null=True, blank=True)
    jobs_running = models.PositiveIntegerField(_("jobs running"), null=True, blank=True)
    jobs_waiting = models.PositiveIntegerField(_("jobs waiting"), null=True, blank=True)
    notebooks_running = models.PositiveIntegerField(_("notebooks running"), null=True, blank=True)
    notebook_hours = models.PositiveIntegerField(_("notebook hours"), null=True, blank=True)

    FIELDS = (*RESOURCES, "jobs_running", "jobs_waiting", "notebooks_running", "notebook_hours")

    class Meta:
        verbose_name, verbose_name_plural = _("personal limit"), _("personal limits")
        constraints = [
            models.UniqueConstraint(Coalesce("user_id", 0), name="one_row_for_everyone"),
        ]

    def __str__(self) -> str:
        return str(self.user or _("everyone"))

    @property
    def public_id(self) -> str:
        return self.user.username if self.user else "everyone"

    def effective(self, everyone: "UserLimit") -> dict[str, int | None]:
        """Return {field: limit or None}, with nulls filled from `everyone`."""
        own = {name: getattr(self, name) for name in self.FIELDS}
        return {name: getattr(everyone, name) if value is None else value for name, value in own.items()}


class HoldingQuerySet(models.QuerySet["Holding"]):
    def live(self) -> "HoldingQuerySet":
        return self.filter(released_at__isnull=True)

    def held_at(self, at: datetime) -> "HoldingQuerySet":
        return self.filter(Q(released_at__isnull=True) | Q(released_at__gt=at), held_from__lte=at)

    def totals(self) -> Amounts:
        sums = self.aggregate(**{name: Coalesce(Sum(name), 0) for name in RESOURCES})
        return sums["gpu_milli"], sums["cpu_milli"], sums["memory_mib"]

    def totals_by(self, *keys: str) -> dict[tuple, Amounts]:
        """Return {(key values): Amounts}."""
        rows = self.order_by().values_list(*keys).annotate(**{f"sum_{name}": Sum(name) for name in RESOURCES})
        return {tuple(row[: len(keys)]): (row[-3], row[-2], row[-1]) for row in rows}

    def release(self) -> int:
        """End them now; not before they began, where the clock was set back since."""
        return self.live().update(released_at=Greatest(Now(), F("held_from")))


class Holding(models.Model):
    """What a task holds, from ASSIGNED on: one row per card, one for CPU and memory. Rows stay, for reports."""

    task = models.UUIDField(db_index=True)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="holdings")
    gpu = models.ForeignKey(Gpu, null=True, on_delete=models.PROTECT, related_name="holdings")
    gpu_memory_mib = models.PositiveIntegerField(default=0)
    gpu_compute_percent = models.PositiveSmallIntegerField(default=0)
    gpu_milli = models.PositiveIntegerField(default=0)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    numa = models.SmallIntegerField(null=True)
    priority = models.PositiveSmallIntegerField(
        default=1,
        db_default=1,  # the previous version still inserts rows during an upgrade
        help_text="of the job while it held this",
    )
    held_from = models.DateTimeField(db_default=Now())
    released_at = models.DateTimeField(null=True)

    objects = HoldingQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(gpu__isnull=True) | Q(cpu_milli=0, memory_mib=0), name="a_card_row_holds_a_card"
            ),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(released_at__gte=F("held_from")), name="ends_after_it_begins"
            ),
        ]
        indexes = [
            models.Index(fields=["team", "pool"], name="live_by_team", condition=Q(released_at__isnull=True)),
            models.Index(fields=["user"], name="live_by_user", condition=Q(released_at__isnull=True)),
            models.Index(fields=["node"], name="live_by_node", condition=Q(released_at__isnull=True)),
            models.Index(fields=["gpu"], name="live_by_gpu", condition=Q(released_at__isnull=True)),
            models.Index(fields=["released_at", "held_from"], name="held_at"),
            models.Index(fields=["team", "pool", "released_at"], name="high_by_team", condition=Q(priority__gte=2)),
        ]

    def __str__(self) -> str:
        return f"{self.task} on {self.gpu or self.node}"


def team_chain(team_id: int, parents: Mapping[int, int | None]) -> list[int]:
    """Return a team and its ancestors, leaf first."""
    chain: list[int] = []
    step: int | None = team_id
    while step is not None and step not in chain:
        chain.append(step)
        step = parents.get(step)
    return chain


def list_subtree(team_id: int, parents: Mapping[int, int | None]) -> list[int]:
    """Return a team and all teams below it."""
    return [other for other in parents if team_id in team_chain(other, parents)]


def load_parents() -> dict[int, int | None]:
    return dict(Team.objects.values_list("pk", "parent_id"))


def add_amounts(amounts: Iterable[Amounts]) -> Amounts:
    gpu = cpu = memory = 0
    for more in amounts:
        gpu, cpu, memory = gpu + more[0], cpu + more[1], memory + more[2]
    return gpu, cpu, memory
