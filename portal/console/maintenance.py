"""Admin pages of maintenance windows."""

from copy import copy

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from cluster.maintenance import end_maintenance, save_maintenance
from cluster.models import Maintenance, Node
from events.record_and_publish import Actor
from portal.console.machines import KeptAdmin
from portal.console.people import rehearse

FIELDS = ("why", "begins_at", "ends_at", "nodes", "pool", "stops")


class MaintenanceForm(forms.ModelForm):
    """Validated by the service that saves. The view sets `actor`."""

    actor: Actor

    class Meta:
        model = Maintenance
        fields = FIELDS
        help_texts = {
            "begins_at": gettext_lazy(
                "As soon as this is saved, only jobs that end before the maintenance start there; jobs without a "
                "time do not."
            ),
        }

    def store(self, row: Maintenance) -> None:
        save_maintenance(actor=self.actor, maintenance=row, nodes=self.cleaned_data["nodes"])

    def _post_clean(self) -> None:
        super()._post_clean()
        if not self.errors:
            rehearse(self, lambda: self.store(copy(self.instance)))


class MaintenanceAdmin(KeptAdmin):
    """Ended, never deleted: it stays as history."""

    form = MaintenanceForm
    filter_horizontal = ("nodes",)
    list_display = ("__str__", "begins_at", "ends_at", "machines", "stops", "stage", "planned_by")
    ordering = ("-begins_at", "-pk")
    actions = ("end_now",)

    def get_fieldsets(self, request: HttpRequest, obj: Maintenance | None = None) -> list[tuple]:
        """Say which time zone the times are in."""
        words = _("Times are in the time zone %(zone)s.") % {"zone": timezone.get_current_timezone_name()}
        return [(None, {"fields": FIELDS, "description": words})]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Maintenance]:
        return super().get_queryset(request).select_related("pool").prefetch_related("nodes")

    def get_form(self, request: HttpRequest, obj: Maintenance | None = None, change: bool = False, **named):
        form = super().get_form(request, obj, change, **named)
        return type(form.__name__, (form,), {"actor": request.user.as_actor})

    def formfield_for_manytomany(self, db_field, request: HttpRequest, **named):
        return super().formfield_for_manytomany(db_field, request, queryset=Node.objects.present(), **named)

    def save_model(self, request: HttpRequest, obj: Maintenance, form: MaintenanceForm, change: bool) -> None:
        form.store(obj)

    @admin.action(description=gettext_lazy("Cancel, or end now"), permissions=["change"])
    def end_now(self, request: HttpRequest, rows: QuerySet[Maintenance]) -> None:
        for row in rows:
            end_maintenance(actor=request.user.as_actor, maintenance=row)

    @admin.display(description=gettext_lazy("machines"))
    def machines(self, row: Maintenance) -> str:
        names = [node.name for node in row.nodes.all()]
        if row.pool:
            names.append(_("all of pool %(pool)s") % {"pool": row.pool.name})
        return ", ".join(names)

    @admin.display(description=gettext_lazy("stage"))
    def stage(self, row: Maintenance) -> str:
        now = timezone.now()
        return _("ended") if row.ends_at <= now else _("in progress") if row.begins_at <= now else _("planned")
