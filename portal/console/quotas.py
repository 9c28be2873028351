"""Admin pages of quotas and user limits, with usage and history."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import datetime

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from common.errors import NotFound
from common.resources import show_cpu, show_gpu, show_memory
from events.models import Event
from portal.console.fields import cards, cores, memory
from portal.console.machines import KeptAdmin
from portal.console.people import rehearse
from portal.wording.changes import describe_return, list_changes
from quotas.models import RESOURCES, Amounts, Holding, Quota, UserLimit, add_amounts, list_subtree, load_parents
from quotas.services import get_default_limit, save_quota, save_user_limit

NOTHING: Amounts = (0, 0, 0)
BAR_CELLS = 10
SHOWS: dict[str, Callable[[int], str]] = {"gpu_milli": show_gpu, "cpu_milli": show_cpu, "memory_mib": show_memory}
GUARANTEE_HELP = gettext_lazy("Always available to the team. Empty: no guarantee.")
LIMIT_HELP = gettext_lazy("The most it can ever hold. Empty: no limit.")
GPU_HELP = gettext_lazy("In cards, for example 1.5 or 1/4.")
CPU_HELP = gettext_lazy("In cores, for example 8 or 0.5.")
MEMORY_HELP = gettext_lazy("With a unit, for example 64GB.")


@dataclass(frozen=True)
class Change:
    at: datetime
    actor: str
    field: str
    before: str
    after: str


class ServiceForm(forms.ModelForm):
    """Validated by the service that saves. The view sets `actor`."""

    actor: User

    def store(self, row) -> None:
        raise NotImplementedError

    def _post_clean(self) -> None:
        super()._post_clean()
        if not self.errors:
            rehearse(self, lambda: self.store(copy(self.instance)))


class QuotaForm(ServiceForm):
    gpu_milli_guarantee = cards(label=gettext_lazy("GPU guarantee"), help_text=GPU_HELP, none=0)
    gpu_milli_limit = cards(label=gettext_lazy("GPU limit"), help_text=LIMIT_HELP)
    cpu_milli_guarantee = cores(label=gettext_lazy("CPU guarantee"), help_text=CPU_HELP, none=0)
    cpu_milli_limit = cores(label=gettext_lazy("CPU limit"), help_text=LIMIT_HELP)
    memory_mib_guarantee = memory(label=gettext_lazy("memory guarantee"), help_text=MEMORY_HELP, none=0)
    memory_mib_limit = memory(label=gettext_lazy("memory limit"), help_text=LIMIT_HELP)

    class Meta:
        model = Quota
        fields = (
            "team",
            "pool",
            *(f"{name}_{kind}" for name in RESOURCES for kind in ("guarantee", "limit")),
            "weight",
            "cell",
        )

    def store(self, row: Quota) -> None:
        save_quota(actor=self.actor, quota=row)


class UserLimitForm(ServiceForm):
    gpu_milli = cards(label=gettext_lazy("GPU"), help_text=GPU_HELP)
    cpu_milli = cores(label=gettext_lazy("CPU"), help_text=CPU_HELP)
    memory_mib = memory(label=gettext_lazy("memory"), help_text=MEMORY_HELP)

    class Meta:
        model = UserLimit
        fields = ("user", *UserLimit.FIELDS)

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        if "user" in self.fields:  # the default row exists already
            self.fields["user"].required = True

    def store(self, row: UserLimit) -> None:
        save_user_limit(actor=self.actor, limit=row)


class LedgerAdmin(KeptAdmin):
    """Base admin of quotas and limits: saves by services, shows history."""

    def get_form(self, request: HttpRequest, *args, **named):
        form = super().get_form(request, *args, **named)
        return type(form.__name__, (form,), {"actor": request.user})

    def save_model(self, request: HttpRequest, obj, form: ServiceForm, change: bool) -> None:
        form.store(obj)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict | None = None) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise NotFound(kind=self.model.KIND)
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": _("History of %(what)s") % {"what": row},
            "changes": changes_of(row),
            "object": row,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/ledger_history.html", context)


class QuotaAdmin(LedgerAdmin):
    form = QuotaForm
    list_display = ("team", "pool", "gpu", "whole", "cpu", "memory", "weight")
    list_filter = ("pool", "team")
    search_fields = ("team__name", "pool__name")
    list_select_related = ("team", "pool")
    fieldsets = (
        (None, {"fields": ("team", "pool", "returns"), "description": GUARANTEE_HELP}),
        (gettext_lazy("GPU"), {"fields": (("gpu_milli_guarantee", "gpu_milli_limit"),)}),
        (gettext_lazy("CPU"), {"fields": (("cpu_milli_guarantee", "cpu_milli_limit"),)}),
        (gettext_lazy("Memory"), {"fields": (("memory_mib_guarantee", "memory_mib_limit"),)}),
        (gettext_lazy("Sharing"), {"fields": ("weight", "cell")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Quota | None = None):
        if self.has_change_permission(request, obj):
            return self.fieldsets
        return ((None, {"fields": ("team", "pool", "returns", "gpu", "whole", "cpu", "memory", "weight")}),)

    def get_readonly_fields(self, request: HttpRequest, obj: Quota | None = None) -> tuple[str, ...]:
        shown = ("returns", "gpu", "whole", "cpu", "memory")
        return ("team", "pool", *shown) if obj else shown

    def get_queryset(self, request: HttpRequest) -> QuerySet[Quota]:
        return super().get_queryset(request).select_related("team", "pool")

    @admin.display(description=gettext_lazy("GPU: used of limit"))
    def gpu(self, quota: Quota) -> str:
        return quota_bar(quota, "gpu_milli")

    @admin.display(description=gettext_lazy("until"))
    def returns(self, quota: Quota) -> str:
        return describe_return(quota) or "–"

    @admin.display(description=gettext_lazy("whole nodes"))
    def whole(self, quota: Quota) -> str:
        return f"{quota.whole_nodes} × {quota.cell}" if quota.whole_nodes else "–"

    @admin.display(description=gettext_lazy("CPU: used of limit"))
    def cpu(self, quota: Quota) -> str:
        return quota_bar(quota, "cpu_milli")

    @admin.display(description=gettext_lazy("memory: used of limit"))
    def memory(self, quota: Quota) -> str:
        return quota_bar(quota, "memory_mib")


class UserLimitAdmin(LedgerAdmin):
    form = UserLimitForm
    list_display = (
        "whose",
        "gpu",
        "cpu",
        "memory",
        "jobs_running",
        "jobs_waiting",
        "notebooks_running",
        "notebook_hours",
    )
    search_fields = ("user__username",)
    list_select_related = ("user",)
    autocomplete_fields = ("user",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[UserLimit]:
        get_default_limit()  # creates the row to edit
        return super().get_queryset(request).select_related("user").order_by("user__username")

    def get_fields(self, request: HttpRequest, obj: UserLimit | None = None) -> tuple[str, ...]:
        if self.has_change_permission(request, obj):
            return UserLimitForm.Meta.fields
        return ("whose", "gpu", "cpu", "memory", *UserLimit.FIELDS[3:])

    def get_readonly_fields(self, request: HttpRequest, obj: UserLimit | None = None) -> tuple[str, ...]:
        shown = ("whose", "gpu", "cpu", "memory")
        return ("user", *shown) if obj else shown

    @admin.display(description=gettext_lazy("person"), ordering="user__username")
    def whose(self, limit: UserLimit) -> str:
        return limit.user.username if limit.user else _("everyone without a personal limit")

    @admin.display(description=gettext_lazy("GPU: used of limit"))
    def gpu(self, limit: UserLimit) -> str:
        return limit_bar(limit, "gpu_milli")

    @admin.display(description=gettext_lazy("CPU: used of limit"))
    def cpu(self, limit: UserLimit) -> str:
        return limit_bar(limit, "cpu_milli")

    @admin.display(description=gettext_lazy("memory: used of limit"))
    def memory(self, limit: UserLimit) -> str:
        return limit_bar(limit, "memory_mib")


def quota_bar(quota: Quota, resource: str) -> str:
    """Render usage of team and subteams against guarantee and limit."""
    below = list_subtree(quota.team_id, load_parents())
    used = Holding.objects.live().filter(team__in=below, pool=quota.pool_id).totals()[RESOURCES.index(resource)]
    guarantee, limit = getattr(quota, f"{resource}_guarantee"), getattr(quota, f"{resource}_limit")
    words = _("%(used)s, no limit") if limit is None else _("%(used)s of %(limit)s")
    show = SHOWS[resource]
    words = words % {"used": show(used), "limit": "" if limit is None else show(limit)}
    if guarantee:
        words = _("%(words)s (guaranteed %(guarantee)s)") % {"words": words, "guarantee": show(guarantee)}
    return format_html('<span class="text-bar" aria-hidden="true">{}</span> {}', text_bar(used, limit), words)


def limit_bar(limit: UserLimit, resource: str) -> str:
    """Render the user's usage over all pools."""
    most, show = getattr(limit, resource), SHOWS[resource]
    if limit.user_id is None:
        return _("no limit") if most is None else show(most)
    held = Holding.objects.live().filter(user=limit.user_id).totals_by("pool").values()
    used = add_amounts(held)[RESOURCES.index(resource)]
    if most is None:
        return _("%(used)s, default limit") % {"used": show(used)}
    words = _("%(used)s of %(limit)s") % {"used": show(used), "limit": show(most)}
    return format_html('<span class="text-bar" aria-hidden="true">{}</span> {}', text_bar(used, most), words)


def text_bar(used: int, limit: int | None) -> str:
    """Return ▰▰▰▱▱, "" without limit. Only a full limit fills all."""
    if limit is None:
        return ""
    cells = BAR_CELLS if used >= limit else min(-(-used * BAR_CELLS // limit), BAR_CELLS - 1)
    return "▰" * cells + "▱" * (BAR_CELLS - cells)


def changes_of(row: Quota | UserLimit) -> list[Change]:
    events = Event.objects.filter(kind=row.KIND, object_id=row.pk).order_by("-seq")
    return [Change(event.at, event.actor, *change) for event in events for change in list_changes(event)]
