"""Admin pages of pools, lending windows, nodes and cards."""

from typing import cast

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dates import WEEKDAYS as WEEKDAYS_OF_DJANGO
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from cluster.models import OUT_OF_SERVICE, Gpu, Node, NodeState, Pool, Window
from cluster.nodes import cordon_node, drain_node, uncordon_node
from cluster.services import PLACING, SHARING, WAITING, delete_window, save_pool, save_window
from cluster.windows import open_until
from common.locks import lock_rows
from common.resources import show_cpu, show_duration, show_memory
from events.record_and_publish import hint, publish_pool, record
from portal.console.fields import duration, memory

PRESENT = Q(removed_at__isnull=True)
MOVES = {NodeState.READY: uncordon_node, NodeState.CORDONED: cordon_node, NodeState.DRAINING: drain_node}
"""How an admin moves a node to a state; the platform sets the others."""


class KeptAdmin(admin.ModelAdmin):
    """Rows that are never deleted, because others refer to them."""

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


class FoundAdmin(KeptAdmin):
    """Rows that only the inventory creates."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


CLOCK = forms.TimeInput(format="%H:%M", attrs={"type": "time"})

WHAT_A_POOL_IS = ("name", "description", *SHARING)
SHOWN_AS = {"default_max_time_s": "max_time", "ageing_s": "ageing", "longest_s": "longest", "max_grace_s": "max_grace"}
"""What an auditor sees instead of a duration field."""


class PoolForm(forms.ModelForm):
    default_max_time_s = duration(
        label=gettext_lazy("default time limit of a job"),
        help_text=gettext_lazy("For example 90m, 18h or 3d. Empty: no limit."),
    )
    max_grace_s = duration(
        label=gettext_lazy("longest grace period before a stop"),
        none=Pool._meta.get_field("max_grace_s").default,
        help_text=gettext_lazy("The longest time a job may take for its checkpoint, for example 3m. Empty: 5m."),
    )
    ageing_s = duration(
        label=gettext_lazy("waiting time that raises a job by one class"),
        none=Pool._meta.get_field("ageing_s").default,
        help_text=gettext_lazy(
            "At the top, a job goes ahead of those who hold less, so that no job starves. Empty: 12h."
        ),
    )
    longest_s = duration(
        label=gettext_lazy("longest time by which jobs are ordered"),
        none=Pool._meta.get_field("longest_s").default,
        help_text=gettext_lazy(
            "Where short jobs go first: longer jobs, and those without `time`, count as this. Empty: 7d."
        ),
    )

    class Meta:
        model = Pool
        fields = (*WHAT_A_POOL_IS, *WAITING, *PLACING)


class PoolAdmin(KeptAdmin):
    form = PoolForm
    list_display = (
        "name",
        "description",
        "shared",
        "max_slices_per_gpu",
        "cpu_overcommit_percent",
        "cards",
        "machines",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pool]:
        cards = Count("gpus", filter=Q(gpus__removed_at__isnull=True), distinct=True)
        nodes = Count("nodes", filter=Q(nodes__removed_at__isnull=True), distinct=True)
        return super().get_queryset(request).annotate(card_count=cards, node_count=nodes)

    def get_fieldsets(self, request: HttpRequest, obj: Pool | None = None) -> list[tuple]:
        shown_as = SHOWN_AS if obj and not self.has_change_permission(request, obj) else {}
        parts = (
            (None, WHAT_A_POOL_IS, ""),
            (_("Queueing"), WAITING, ""),
            (
                _("Placement"),
                PLACING,
                _(
                    "Among the machines that fit, the one with the largest sum of weights is chosen. 0 turns a rule "
                    "off."
                ),
            ),
        )
        return [
            (name, {"fields": [shown_as.get(field, field) for field in fields], "description": words})
            for name, fields, words in parts
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Pool | None = None) -> tuple[str, ...]:
        return ("name", *SHOWN_AS.values()) if obj else ()

    def save_model(self, request: HttpRequest, obj: Pool, form: PoolForm, change: bool) -> None:
        save_pool(actor=request.user.as_actor, pool=obj)

    @admin.display(description=gettext_lazy("cards"), ordering="card_count")
    def cards(self, pool: Pool) -> int:
        return pool.card_count  # type: ignore[attr-defined]  # counted by get_queryset

    @admin.display(description=gettext_lazy("home machines"), ordering="node_count")
    def machines(self, pool: Pool) -> int:
        return pool.node_count  # type: ignore[attr-defined]  # counted by get_queryset

    @admin.display(description=gettext_lazy("default time limit of a job"))
    def max_time(self, pool: Pool) -> str:
        return show_duration(pool.default_max_time_s) if pool.default_max_time_s else _("none")

    @admin.display(description=gettext_lazy("waiting time that raises a job by one class"))
    def ageing(self, pool: Pool) -> str:
        return show_duration(pool.ageing_s)

    @admin.display(description=gettext_lazy("longest time by which jobs are ordered"))
    def longest(self, pool: Pool) -> str:
        return show_duration(pool.longest_s)

    @admin.display(description=gettext_lazy("longest grace period before a stop"))
    def max_grace(self, pool: Pool) -> str:
        return show_duration(pool.max_grace_s)


WEEKDAYS = tuple((str(number), WEEKDAYS_OF_DJANGO[number - 1]) for number in range(1, 8))
"""By their ISO 8601 numbers."""


class WindowForm(forms.ModelForm):
    weekdays = forms.MultipleChoiceField(
        label=gettext_lazy("days"),
        choices=WEEKDAYS,
        initial=list("12345"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("The days on which it begins."),
    )
    begins = forms.TimeField(label=gettext_lazy("from"), widget=CLOCK)
    ends = forms.TimeField(
        label=gettext_lazy("until"),
        widget=CLOCK,
        help_text=gettext_lazy("If not later than the beginning: on the next day."),
    )

    class Meta:
        model = Window
        fields = ("lender", "borrower", "weekdays", "begins", "ends", "zone", "holidays")

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        if "weekdays" in self.initial:
            self.initial["weekdays"] = list(self.initial["weekdays"])

    def clean_weekdays(self) -> str:
        return "".join(sorted(self.cleaned_data["weekdays"]))


class WindowAdmin(admin.ModelAdmin):
    form = WindowForm
    list_display = ("__str__", "days", "begins", "ends", "zone", "open_now")
    list_select_related = ("lender", "borrower")

    def save_model(self, request: HttpRequest, obj: Window, form: WindowForm, change: bool) -> None:
        save_window(actor=request.user.as_actor, window=obj)

    def delete_model(self, request: HttpRequest, obj: Window) -> None:
        delete_window(actor=request.user.as_actor, window=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Window]) -> None:
        for window in queryset:
            self.delete_model(request, window)

    @admin.display(description=gettext_lazy("days"))
    def days(self, window: Window) -> str:
        return ", ".join(str(name) for number, name in WEEKDAYS if number in window.weekdays)

    @admin.display(description=gettext_lazy("open now"), boolean=True)
    def open_now(self, window: Window) -> bool:
        return open_until([window], timezone.now()) is not None


class NodeForm(forms.ModelForm):
    """`wanted`: the state that saving moves the node to."""

    wanted = forms.ChoiceField(
        label=gettext_lazy("state"),
        show_hidden_initial=True,  # it may change while the form is open
        help_text=gettext_lazy(
            "A cordoned machine finishes what is running and gets no new work. A draining one also stops jobs that "
            "can be queued again."
        ),
    )

    class Meta:
        model = Node
        fields = ("pool",)

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        state = NodeState(self.instance.state)
        states = dict.fromkeys([state, *([NodeState.READY] if state in OUT_OF_SERVICE else []), *OUT_OF_SERVICE])
        wanted = cast(forms.ChoiceField, self.fields["wanted"])
        wanted.choices = [(state, state.label) for state in states]
        wanted.initial = self.instance.state


class NodeAdmin(FoundAdmin):
    form = NodeForm
    fields = ("name", "wanted", "pool", "address", "cpu", "memory", "gpus_words", "last_seen_at", "facts")
    readonly_fields = ("name", "state", "address", "cpu", "memory", "gpus_words", "last_seen_at", "facts")
    list_display = ("name", "state", "pool", "gpus_words", "cpu", "memory", "last_seen_at")
    list_filter = ("state", "pool")
    search_fields = ("name",)
    actions = ("cordon", "drain", "uncordon")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        return super().get_queryset(request).filter(PRESENT).select_related("pool").prefetch_related("gpus")

    def get_fields(self, request: HttpRequest, obj: Node | None = None) -> tuple[str, ...]:
        if not self.has_change_permission(request, obj):
            return tuple("state" if name == "wanted" else name for name in self.fields)
        return self.fields

    def save_model(self, request: HttpRequest, obj: Node, form: NodeForm, change: bool) -> None:
        if "pool" in form.changed_data:
            Node.objects.filter(pk=obj.pk).update(pool=obj.pool)
            note_change(obj, request, {"pool": (form.initial["pool"], obj.pool_id)})
        if "wanted" in form.changed_data:
            MOVES[NodeState(form.cleaned_data["wanted"])](actor=request.user.as_actor, node=obj)

    @admin.action(description=gettext_lazy("Cordon: no new work"), permissions=["change"])
    def cordon(self, request: HttpRequest, nodes: QuerySet[Node]) -> None:
        for node in nodes:
            cordon_node(actor=request.user.as_actor, node=node)

    @admin.action(
        description=gettext_lazy("Drain: no new work, and stop what can be queued again"), permissions=["change"]
    )
    def drain(self, request: HttpRequest, nodes: QuerySet[Node]) -> None:
        for node in nodes:
            drain_node(actor=request.user.as_actor, node=node)

    @admin.action(description=gettext_lazy("Uncordon: back into service"), permissions=["change"])
    def uncordon(self, request: HttpRequest, nodes: QuerySet[Node]) -> None:
        for node in nodes:
            uncordon_node(actor=request.user.as_actor, node=node)

    @admin.display(description=gettext_lazy("CPU cores"))
    def cpu(self, node: Node) -> str:
        return show_cpu(node.cpu_milli)

    @admin.display(description=gettext_lazy("memory"))
    def memory(self, node: Node) -> str:
        return show_memory(node.memory_mib)

    @admin.display(description=gettext_lazy("GPUs"))
    def gpus_words(self, node: Node) -> str:
        names = [gpu.model for gpu in node.gpus.all() if gpu.removed_at is None]
        return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names)) or "–"


class GpuForm(forms.ModelForm):
    margin_mib = memory(
        none=0,
        label=gettext_lazy("margin"),
        help_text=gettext_lazy(
            "GPU memory that is never allocated, such as 512MiB or 1GB. Running jobs keep what they hold."
        ),
    )

    class Meta:
        model = Gpu
        fields = ("pool", "margin_mib")

    def clean_margin_mib(self) -> int:
        margin, most = self.cleaned_data["margin_mib"], self.instance.memory_mib - self.instance.reserved_mib
        if margin >= most:
            raise forms.ValidationError(
                _("Nothing would be left to allocate. Use a margin below %(most)s."), params={"most": show_memory(most)}
            )
        return margin


class GpuAdmin(FoundAdmin):
    form = GpuForm
    fields = (
        "uuid",
        "node",
        "index",
        "product",
        "total",
        "sellable",
        "pool",
        "margin_mib",
        "simulated",
        "enforcement",
        "evidence",
    )
    readonly_fields = (*(name for name in fields if name not in GpuForm.Meta.fields), "kept_back")
    list_display = (
        "uuid",
        "node",
        "index",
        "model",
        "pool",
        "total",
        "kept_back",
        "sellable",
        "simulated",
        "enforcement",
        "healthy",
    )
    list_filter = ("pool", "model", "node")
    search_fields = ("uuid", "model", "node__name")
    ordering = ("node__name", "index")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Gpu]:
        return super().get_queryset(request).filter(PRESENT).select_related("node", "pool")

    def get_fields(self, request: HttpRequest, obj: Gpu | None = None) -> tuple[str, ...]:
        if not self.has_change_permission(request, obj):
            return tuple("kept_back" if name == "margin_mib" else name for name in self.fields)
        return self.fields

    @transaction.atomic
    def save_model(self, request: HttpRequest, obj: Gpu, form: GpuForm, change: bool) -> None:
        """Save pool and margin only: the inventory may have refreshed the rest."""
        lock_rows(Node.objects.filter(pk=obj.node_id))
        obj.save(update_fields=["pool", "margin_mib"])
        changes = {
            name: (form.initial.get(name), getattr(obj, obj._meta.get_field(name).attname))
            for name in form.changed_data
        }
        note_change(obj.node, request, changes, gpu=obj.uuid)
        publish_pool(obj.pool_id)

    @admin.display(description=gettext_lazy("memory"))
    def total(self, gpu: Gpu) -> str:
        return show_memory(gpu.memory_mib)

    @admin.display(description=gettext_lazy("allocatable"))
    def sellable(self, gpu: Gpu) -> str:
        return show_memory(gpu.sellable_mib)

    @admin.display(description=gettext_lazy("margin"))
    def kept_back(self, gpu: Gpu) -> str:
        return show_memory(gpu.margin_mib)


@transaction.atomic
def note_change(node: Node, request: HttpRequest, changes: dict[str, tuple], **about: str) -> None:
    """Record an admin's changes (from, to) in the node's history."""
    lock_rows(Node.objects.filter(pk=node.pk))
    params = {"from": {n: c[0] for n, c in changes.items()}, "to": {n: c[1] for n, c in changes.items()}, **about}
    record(node, "gpu.changed" if about else "node.changed", actor=request.user.as_actor, params=params)
    hint("cycle")
