"""Pools, machines, cards, agents and maintenance, as approved by an admin."""

import re
from datetime import date, datetime
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower, Now
from django.utils.translation import gettext_lazy as _

from common.resources import is_instance
from events.models import OfNoTeam

POOL_NAME = RegexValidator(
    r"^[a-z][a-z0-9-]{0,30}[a-z0-9]$|^[a-z]$", _("Use 1 to 32 lower-case letters, digits and hyphens.")
)

MACHINE_NAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z", _("Use 1 to 63 letters, digits, dots, underscores and hyphens.")
)

MINUTE, HOUR, DAY = 60, 3600, 86_400


class Arrangement(models.TextChoices):
    PACK = "pack", _("fill one machine after another")
    SPREAD = "spread", _("emptiest machine first")


class HighPriority(models.TextChoices):
    """What high and urgent priority cost in a pool."""

    FREE = "free", _("nothing")
    BUDGET = "budget", _("GPU hours of the team’s weekly budget")
    CONSENT = "consent", _("the consent of a lead of the team")


WEIGHT = [MaxValueValidator(1000)]


class Pool(OfNoTeam, models.Model):
    """A named set of GPUs with one policy. Each GPU is in one pool."""

    KIND = "pool"

    name = models.CharField(_("name"), max_length=32, validators=[POOL_NAME])
    description = models.CharField(_("description"), max_length=200, blank=True)
    shared = models.BooleanField(_("cards can be split into slices"), default=False)
    max_slices_per_gpu = models.PositiveSmallIntegerField(
        _("slices per card at most"), default=8, validators=[MinValueValidator(1), MaxValueValidator(64)]
    )
    cpu_overcommit_percent = models.PositiveSmallIntegerField(
        _("CPU overcommit in percent"),
        default=100,
        validators=[MinValueValidator(100), MaxValueValidator(1000)],
        help_text=_("100 promises each core once; 300 promises each core three times."),
    )
    accepts_watched_only = models.BooleanField(
        _("accept slices whose memory limit is watched, not enforced"), default=True
    )
    allows_mps = models.BooleanField(
        _("slices may share compute by MPS"),
        default=True,
        db_default=True,  # during an upgrade the previous version still inserts rows
        help_text=_(
            "Used where the machine supports MPS. Off: the slices of a card take turns, and a fault in one "
            "program does not end others."
        ),
    )
    default_max_time_s = models.PositiveIntegerField(
        _("default time limit of a job, in seconds"), null=True, blank=True
    )
    max_grace_s = models.PositiveIntegerField(
        _("longest grace period before a stop, in seconds"),
        default=5 * MINUTE,
        validators=[MinValueValidator(10), MaxValueValidator(60 * MINUTE)],
    )
    ageing_s = models.PositiveIntegerField(
        _("waiting time that raises a job by one priority class, in seconds"),
        default=DAY // 2,
        validators=[MinValueValidator(MINUTE), MaxValueValidator(365 * DAY)],
    )
    reservations = models.PositiveSmallIntegerField(
        _("reserved starts"),
        default=2,
        validators=[MaxValueValidator(16)],
        help_text=_(
            "How many jobs at the head of the queue for the same cards get a reserved start, which jobs behind "
            "them cannot delay. 0: none, so that large jobs may wait long beside small ones."
        ),
    )
    batch_is_preemptible = models.BooleanField(
        _("jobs may be stopped, unless they say otherwise"),
        default=True,
        db_default=False,  # pools from before it could be said
        help_text=_(
            "Jobs whose file has no `preemptible` may use cards that other teams are guaranteed and do not need, and "
            "are asked to leave and queued again when they do. Notebooks never are. Accepted jobs stay as they are."
        ),
    )
    preempt = models.BooleanField(
        _("higher priority preempts lower"),
        default=True,
        help_text=_("Only preemptible jobs are stopped. A team can always take back its guarantee."),
    )
    high_priority = models.CharField(
        _("price of high priority"),
        max_length=8,
        choices=HighPriority.choices,
        default=HighPriority.CONSENT,
        db_default=HighPriority.FREE,  # pools from before it had a price
        help_text=_("Asked for when a job is submitted or changed. Urgent priority always needs a lead, too."),
    )
    high_gpu_hours = models.PositiveIntegerField(
        _("weekly budget of high priority, in GPU hours"),
        default=168,
        db_default=168,
        validators=[MaxValueValidator(10_000_000)],
        help_text=_(
            "Of each team, where that is the price. A week begins on Monday, 00:00 UTC. "
            "Jobs that wait already keep their priority, and count."
        ),
    )
    short_first = models.BooleanField(
        _("short jobs go first"),
        default=False,
        help_text=_(
            "Orders the jobs of one person and priority class by `time` and cards. Long jobs move up as they wait."
        ),
    )
    longest_s = models.PositiveIntegerField(
        _("longest time by which jobs are ordered, in seconds"),
        default=7 * DAY,
        db_default=7 * DAY,
        validators=[MinValueValidator(HOUR), MaxValueValidator(1000 * DAY)],
        help_text=_("Where short jobs go first: longer jobs, and those without `time`, count as this."),
    )
    stop_longer = models.PositiveSmallIntegerField(
        _("short jobs preempt jobs that are this many times longer"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("Only preemptible jobs of the same or a lower class. Empty: no job is stopped for this reason."),
    )
    most_stops = models.PositiveSmallIntegerField(
        _("most stops of one job for shorter jobs"),
        default=10,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("A job that was stopped this often, for any reason, is no longer stopped for shorter jobs."),
    )
    arrangement = models.CharField(
        _("machine order"), max_length=8, choices=Arrangement.choices, default=Arrangement.PACK
    )
    weight_useful = models.PositiveSmallIntegerField(
        _("weight: usable remainder"),
        default=100,
        validators=WEIGHT,
        help_text=_("Prefer machines where the remaining resources still suit the usual jobs."),
    )
    weight_data = models.PositiveSmallIntegerField(
        _("weight: data"),
        default=20,
        validators=WEIGHT,
        help_text=_("Prefer machines that already hold the data a job reads, by the time it would take to fetch it."),
    )
    weight_whole = models.PositiveSmallIntegerField(
        _("weight: whole cards"),
        default=8,
        validators=WEIGHT,
        help_text=_("Prefer cards that already hold slices, so that other cards stay whole."),
    )
    weight_full_cards = models.PositiveSmallIntegerField(
        _("weight: full cards"),
        default=4,
        validators=WEIGHT,
        help_text=_("Prefer the fullest card that still has room for a slice."),
    )
    weight_links = models.PositiveSmallIntegerField(
        _("weight: links"),
        default=2,
        validators=WEIGHT,
        help_text=_("Prefer machines whose free cards have fast links to each other."),
    )
    weight_full_nodes = models.PositiveSmallIntegerField(
        _("weight: full machines"),
        default=1,
        validators=WEIGHT,
        help_text=_("Prefer the fullest machine. Applies only where machines are filled one after another."),
    )

    class Meta:
        verbose_name, verbose_name_plural = _("pool"), _("pools")
        constraints = [models.UniqueConstraint(Lower("name"), name="one_pool_name")]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def public_id(self) -> str:
        return self.name

    def clean(self) -> None:
        """Require short_first with stop_longer: else a stopped job takes its place back at once."""
        if self.stop_longer is not None and not self.short_first:
            words = _("Also let short jobs go first in this pool (short_first), or leave this empty.")
            raise ValidationError({"stop_longer": words})

    @property
    def slices_per_gpu(self) -> int:
        return self.max_slices_per_gpu if self.shared else 1


def check_zone(text: str) -> None:
    if text not in available_timezones():
        raise ValidationError(_("Enter a time zone, such as Asia/Shanghai or UTC."))


def parse_dates(text: str) -> list[date]:
    try:
        return [date.fromisoformat(word) for word in re.split(r"[\s,;]+", text) if word]
    except ValueError:
        raise ValidationError(_("Enter dates like 2027-01-01, separated by commas.")) from None


class Window(OfNoTeam, models.Model):
    """Hours in which a pool lends its cards to another."""

    KIND = "window"

    lender = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="lends", verbose_name=_("lender"))
    borrower = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="borrows", verbose_name=_("borrower"))
    weekdays = models.CharField(
        _("days"),
        max_length=7,
        blank=True,
        default="12345",
        validators=[RegexValidator(r"^[1-7]*$")],
        help_text=_("The days on which it begins."),
    )
    begins = models.TimeField(_("from"))
    ends = models.TimeField(_("until"), help_text=_("If not later than the beginning: on the next day."))
    zone = models.CharField(_("time zone"), max_length=64, default="UTC", validators=[check_zone])
    holidays = models.TextField(
        _("holidays"),
        blank=True,
        validators=[parse_dates],  # type: ignore[list-item]  # only asked whether it raises
        help_text=_("Dates on which it lends all day, such as 2027-01-01, 2027-05-01."),
    )

    class Meta:
        verbose_name, verbose_name_plural = _("lending window"), _("lending windows")
        constraints = [models.CheckConstraint(condition=~Q(lender=models.F("borrower")), name="lends_to_another")]
        ordering = ["lender", "begins", "pk"]

    def __str__(self) -> str:
        return f"{self.lender} → {self.borrower}"

    @property
    def public_id(self) -> str:
        return str(self)

    @property
    def lender_name(self) -> str:
        return self.lender.name

    @property
    def borrower_name(self) -> str:
        return self.borrower.name

    @property
    def opens(self) -> str:
        return f"{self.begins:%H:%M}"

    @property
    def closes(self) -> str:
        return f"{self.ends:%H:%M}"

    @property
    def holiday_dates(self) -> list[date]:
        return parse_dates(self.holidays)

    def clean(self) -> None:
        """A window opens on some day, and a pool lends to one other pool only."""
        if not self.weekdays and not self.holidays.strip():
            raise ValidationError({"weekdays": _("Choose at least one day, or name a holiday.")})
        if self.lender_id is None or self.borrower_id is None:
            return
        if self.lender_id == self.borrower_id:
            raise ValidationError({"borrower": _("A pool cannot lend to itself.")})
        others = Window.objects.filter(lender=self.lender_id).exclude(borrower=self.borrower_id).exclude(pk=self.pk)
        if other := others.select_related("borrower").first():
            words = _("%(pool)s already lends to %(other)s.") % {"pool": self.lender, "other": other.borrower}
            raise ValidationError({"borrower": words})


class NodeState(models.TextChoices):
    """CORDONED: nothing new starts; what runs goes on. DRAINING: also stop and requeue what can be queued again."""

    READY = "READY", _("Ready")
    CORDONED = "CORDONED", _("Cordoned")
    DRAINING = "DRAINING", _("Draining")
    SUSPECT = "SUSPECT", _("Suspect")
    NOT_READY = "NOT_READY", _("Not ready")


OUT_OF_SERVICE = (NodeState.CORDONED, NodeState.DRAINING)
"""Taken out of service by an admin, who alone takes the node back."""


class NodeQuerySet(models.QuerySet["Node"]):
    def present(self) -> "NodeQuerySet":
        return self.filter(removed_at__isnull=True)


LONGEST_SWITCH = 63
"""As the value of a label in Kubernetes."""


class Node(OfNoTeam, models.Model):
    """One machine. Its home pool owns its CPU."""

    KIND = "node"
    MOVES = {a: frozenset(b for b in NodeState.values if b != a) for a in NodeState.values}

    name = models.CharField(_("name"), max_length=63, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes", verbose_name=_("home pool"))
    state = models.CharField(_("state"), max_length=10, choices=NodeState.choices, default=NodeState.READY)
    address = models.CharField(_("address"), max_length=64, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    cpu_milli = models.PositiveIntegerField(_("CPU in thousandths of a core"))
    memory_mib = models.PositiveIntegerField(_("memory in MiB"))
    switch = models.CharField(
        _("switch"),
        max_length=LONGEST_SWITCH,
        blank=True,
        help_text=_("The network switch that it is connected to; empty to go by what the cluster says."),
    )
    numa = models.JSONField(default=list, help_text="[{id, cpus, memory_mib}]")
    topology = models.JSONField(default=dict, help_text='{"links": matrix as of nvidia-smi topo -m}')
    facts = models.JSONField(default=dict, help_text="what the node's probe found: limits, isolation, driver")
    last_seen_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = NodeQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("node"), _("nodes")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def public_id(self) -> str:
        return self.name

    @property
    def known_switch(self) -> str:
        """The switch that it is connected to: what an admin said, else what the cluster says; "" if nobody does."""
        return self.switch or self.facts.get("switch", "")

    @property
    def cpu_sellable_milli(self) -> int:
        return sellable_milli(self.cpu_milli, self.pool.cpu_overcommit_percent)


def sellable_mib(memory_mib: int, reserved_mib: int, margin_mib: int) -> int:
    return max(memory_mib - reserved_mib - margin_mib, 0)


def sellable_milli(cpu_milli: int, overcommit_percent: int) -> int:
    return cpu_milli * overcommit_percent // 100


class GpuQuerySet(models.QuerySet["Gpu"]):
    def present(self) -> "GpuQuerySet":
        return self.filter(removed_at__isnull=True, node__removed_at__isnull=True)


class Gpu(models.Model):
    """A physical card, or a MIG instance of one.

    healthy: new work may start on it, as it has no fault and is not closed. closed: why a person has to take it back.
    """

    uuid = models.CharField(max_length=64, unique=True)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="gpus")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="gpus", verbose_name=_("pool"))
    index = models.PositiveSmallIntegerField(_("index"))
    model = models.CharField(_("model"), max_length=64)
    product = models.CharField(max_length=100, blank=True)
    memory_mib = models.PositiveIntegerField(_("memory in MiB"))
    reserved_mib = models.PositiveIntegerField(_("reserved by the driver, in MiB"), default=0)
    margin_mib = models.PositiveIntegerField(_("margin, in MiB"), default=0)
    numa = models.SmallIntegerField(null=True, blank=True)
    bus = models.CharField(max_length=32, blank=True)
    simulated = models.BooleanField(_("simulated"), default=False)
    healthy = models.BooleanField(_("healthy"), default=True)
    fault = models.CharField(_("why it is out of service"), max_length=300, blank=True)
    closed = models.CharField(
        max_length=300,
        blank=True,
        editable=False,
        db_default="",  # the previous version still inserts rows during an upgrade
        default="",
    )
    enforcement = models.CharField(_("memory limit enforced by"), max_length=20, default="watchdog")
    probed_at = models.DateTimeField(null=True, blank=True)
    evidence = models.CharField(max_length=300, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = GpuQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("GPU"), _("GPUs")
        ordering = ["node_id", "index"]
        constraints = [
            models.UniqueConstraint(
                fields=["node", "index"], condition=Q(removed_at__isnull=True), name="one_gpu_index"
            )
        ]

    def __str__(self) -> str:
        return f"{self.node.name}:{self.index}"

    @property
    def why_out(self) -> str:
        return self.fault or self.closed

    @property
    def sellable_mib(self) -> int:
        return sellable_mib(self.memory_mib, self.reserved_mib, self.margin_mib)

    @property
    def shared(self) -> bool:
        """Whether it may be cut into slices. A MIG instance is given whole."""
        return self.pool.shared and not is_instance(self.product)

    @property
    def max_slices(self) -> int:
        return self.pool.slices_per_gpu if self.shared else 1


class Enrolment(OfNoTeam, models.Model):
    """A one-time token that enrols an agent, stored as a digest."""

    KIND = "enrolment"

    node_name = models.CharField(_("machine"), max_length=63, validators=[MACHINE_NAME])
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name, verbose_name_plural = _("agent enrolment"), _("agent enrolments")

    def __str__(self) -> str:
        return f"enrolment of {self.node_name}"

    @property
    def public_id(self) -> str:
        return self.node_name


class Agent(OfNoTeam, models.Model):
    """The agent of one machine and its last report.

    approved: {uuid: {model, product, memory_mib, reserved_mib}}, the most that reports may claim. logs_at: when it last
    sent task logs, some seconds late; None if never.
    """

    KIND = "agent"

    node_name = models.CharField(_("machine"), max_length=63, unique=True, validators=[MACHINE_NAME])
    digest = models.CharField(max_length=64, unique=True)
    enrolled_at = models.DateTimeField(_("enrolled at"), db_default=Now())
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)
    reported_at = models.DateTimeField(_("last report at"), null=True, blank=True)
    logs_at = models.DateTimeField(_("last log upload at"), null=True, blank=True)
    report = models.JSONField(default=dict)
    approved = models.JSONField(default=dict)

    class Meta:
        verbose_name, verbose_name_plural = _("agent"), _("agents")
        ordering = ["node_name"]

    def __str__(self) -> str:
        return self.node_name

    @property
    def public_id(self) -> str:
        return self.node_name


class MaintenanceQuerySet(models.QuerySet["Maintenance"]):
    def not_over(self, now: datetime | Now) -> "MaintenanceQuerySet":
        """Filter present and future maintenance."""
        return self.filter(ends_at__gt=now).prefetch_related("nodes")


class Maintenance(models.Model):
    """A time in which machines start nothing."""

    why = models.CharField(_("reason"), max_length=200, blank=True, help_text=_("Everyone can read this."))
    begins_at = models.DateTimeField(_("from"), db_index=True)
    ends_at = models.DateTimeField(_("until"), db_index=True)
    nodes = models.ManyToManyField(Node, blank=True, related_name="maintenances", verbose_name=_("machines"))
    pool = models.ForeignKey(
        Pool,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="maintenances",
        verbose_name=_("all machines of the pool"),
    )
    stops = models.BooleanField(
        _("stop jobs that can be queued again"),
        default=False,
        help_text=_("When it begins, preemptible jobs are stopped and queued again. Other jobs run to their end."),
    )
    planned_by = models.CharField(max_length=150, blank=True, editable=False)

    objects = MaintenanceQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = _("maintenance"), _("maintenance")
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=models.F("begins_at")),
                name="maintenance_ends",
                violation_error_message=_("The maintenance does not end after its beginning. Choose a later end."),
            )
        ]
        ordering = ["begins_at", "pk"]

    def __str__(self) -> str:
        return self.why or str(self.begins_at)


class Cached(models.Model):
    """An image, dataset or archive on a node."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="cached")
    kind = models.CharField(max_length=20)
    key = models.CharField(max_length=200)
    bytes = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "kind", "key"], name="one_cached")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key} on {self.node}"
