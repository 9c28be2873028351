"""Admin pages of idle rules."""

from copy import copy

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.models import User
from monitoring.idle.rules import delete_rule, save_rule
from monitoring.models import IdleRule
from portal.console.machines import KeptAdmin
from portal.console.people import rehearse

FIELDS = ("pool", "kind", *IdleRule.FIELDS)


class IdleRuleForm(forms.ModelForm):
    """Validated by the service that saves. The view sets `actor`."""

    actor: User

    class Meta:
        model = IdleRule
        fields = FIELDS

    def _post_clean(self) -> None:
        super()._post_clean()
        if not self.errors:
            rehearse(self, lambda: save_rule(actor=self.actor, rule=copy(self.instance)))


class IdleRuleAdmin(KeptAdmin):
    """A rule without a pool holds for all pools that have none of their own."""

    form = IdleRuleForm
    list_display = ("__str__", "note_min", "remind_min", "warn_min", "act_min", "then")

    def get_readonly_fields(self, request: HttpRequest, obj: IdleRule | None = None) -> tuple[str, ...]:
        return ("pool", "kind") if obj else ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[IdleRule]:
        return super().get_queryset(request).select_related("pool")

    def get_form(self, request: HttpRequest, obj: IdleRule | None = None, change: bool = False, **named):
        form = super().get_form(request, obj, change, **named)
        return type(form.__name__, (form,), {"actor": request.user})

    def save_model(self, request: HttpRequest, obj: IdleRule, form: IdleRuleForm, change: bool) -> None:
        save_rule(actor=request.user, rule=obj)

    def has_delete_permission(self, request: HttpRequest, obj: IdleRule | None = None) -> bool:
        return request.user.is_admin

    def delete_model(self, request: HttpRequest, obj: IdleRule) -> None:
        delete_rule(actor=request.user, rule=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[IdleRule]) -> None:
        for row in queryset:
            delete_rule(actor=request.user, rule=row)
