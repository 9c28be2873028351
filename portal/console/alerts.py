"""Admin pages of alert rules, with a back-test on what is kept."""

from copy import copy
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.errors import InvalidInput, NotFound
from monitoring.alerts.backtest import Backtest, backtest_rule
from monitoring.alerts.catalogue import METRICS, find_metric
from monitoring.alerts.round import ship_rules
from monitoring.alerts.services import LOUD, change_rule, delete_rule, save_rule
from monitoring.models import AlertRound, AlertRule, Audience
from portal.console.machines import KeptAdmin
from portal.console.quotas import ServiceForm
from portal.wording.errors import describe_field_error
from portal.wording.monitoring.alerts import describe_condition

DAYS = (1, 7, 30)
USUAL_DAYS = 7


def list_metric_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the metrics of each kind of subject, and a way to name a health check."""
    return [
        (str(subject.label), [(f"{subject.value}.{name}", str(metric.words)) for name, metric in names.items()])
        for subject, names in METRICS.items()
    ]


class AlertRuleForm(ServiceForm):
    audience = forms.MultipleChoiceField(
        label=gettext_lazy("who is told"), choices=Audience.choices, widget=forms.CheckboxSelectMultiple
    )
    metric = forms.CharField(
        label=gettext_lazy("value"),
        max_length=40,
        widget=forms.TextInput(attrs={"list": "alert-metrics", "spellcheck": "false", "autocomplete": "off"}),
        help_text=gettext_lazy("Of cards and machines also check:NAME, a health check: 1 warns, 2 fails."),
    )

    class Meta:
        model = AlertRule
        fields = (
            "name", "subject", "metric", "comparison", "threshold", "for_s", "clear_threshold", "clear_for_s", "pool",
            "least_gpus", "severity", "audience", "action", "runbook", "enabled",
        )  # fmt: skip
        help_texts = {
            "name": gettext_lazy("Of a rule that ships: empty for the name that it has in each language."),
            "threshold": gettext_lazy("Of a value that is yes or no: 1 is yes."),
            "action": gettext_lazy(
                "After owners and administrators were told, on two machines and a tenth of a pool’s cards an hour at "
                "most; beyond that it asks."
            ),
        }

    def store(self, row: AlertRule) -> None:
        save_rule(actor=self.actor, rule=row)


class AlertRuleAdmin(KeptAdmin):
    """Rules that ship are switched off, not deleted."""

    form = AlertRuleForm
    change_form_template = "admin/alert_rule.html"
    list_display = ("title", "when", "severity", "told", "enabled", "fires", "seen", "tested")
    actions = ("switch_on", "switch_off")
    list_select_related = ("pool",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertRule]:
        ship_rules()
        return super().get_queryset(request)

    def get_form(self, request: HttpRequest, *args, **named):
        form = super().get_form(request, *args, **named)
        return type(form.__name__, (form,), {"actor": request.user})

    def get_fields(self, request: HttpRequest, obj: AlertRule | None = None) -> tuple[str, ...]:
        if self.has_change_permission(request, obj):
            return AlertRuleForm.Meta.fields
        return ("title", "when", "severity", "told", "runbook", "enabled")

    def get_readonly_fields(self, request: HttpRequest, obj: AlertRule | None = None) -> tuple[str, ...]:
        if not self.has_change_permission(request, obj):
            return ("title", "when", "severity", "told", "runbook", "enabled")
        return ("subject", "metric") if obj and obj.code else ()

    def has_delete_permission(self, request: HttpRequest, obj: AlertRule | None = None) -> bool:
        return obj is not None and not obj.code and request.user.is_admin

    def get_urls(self) -> list:
        test = path("<path:object_id>/backtest/", self.admin_site.admin_view(self.backtest), name="alert_rule_backtest")
        return [test, *super().get_urls()]

    def save_model(self, request: HttpRequest, obj: AlertRule, form: AlertRuleForm, change: bool) -> None:
        form.store(obj)

    def delete_model(self, request: HttpRequest, obj: AlertRule) -> None:
        delete_rule(actor=request.user, rule=obj)

    def changeform_view(self, request: HttpRequest, object_id=None, form_url: str = "", extra_context=None):
        names = [(name, str(metric.words)) for names in METRICS.values() for name, metric in names.items()]
        context = {"metric_names": sorted(set(names)), "days": DAYS, **(extra_context or {})}
        return super().changeform_view(request, object_id, form_url, context)

    def backtest(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show how often the rule would have fired, for ?days=7."""
        rule = self.get_object(request, unquote(object_id))
        if rule is None:
            raise NotFound(kind="alert_rule")
        if not self.has_view_permission(request, rule):
            raise PermissionDenied
        chosen = request.GET.get("days", "")
        days = int(chosen) if chosen.isascii() and chosen.isdecimal() and 0 < len(chosen) < 5 else USUAL_DAYS
        result, refused = _try(rule, max(days, 1))
        context: dict[str, Any] = {
            **self.admin_site.each_context(request),
            "title": _("Back-test of %(rule)s") % {"rule": rule},
            "rule": rule,
            "condition": describe_condition(rule),
            "result": result,
            "known_percent": round(100 * result.known) if result else 0,
            "refused": refused,
            "days": days,
            "choices": DAYS,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/alert_backtest.html", context)

    @admin.action(description=gettext_lazy("Switch on"), permissions=["change"])
    def switch_on(self, request: HttpRequest, rules: QuerySet[AlertRule]) -> None:
        self._switch(request, rules, enabled=True)

    @admin.action(description=gettext_lazy("Switch off: what fires by it ends"), permissions=["change"])
    def switch_off(self, request: HttpRequest, rules: QuerySet[AlertRule]) -> None:
        self._switch(request, rules, enabled=False)

    def _switch(self, request: HttpRequest, rules: QuerySet[AlertRule], *, enabled: bool) -> None:
        for rule in rules:
            save_rule(actor=request.user, rule=change_rule(copy(rule), {"enabled": enabled}))

    @admin.display(description=gettext_lazy("rule"))
    def title(self, rule: AlertRule) -> str:
        return str(rule)

    @admin.display(description=gettext_lazy("fires when"))
    def when(self, rule: AlertRule) -> str:
        return describe_condition(rule)

    @admin.display(description=gettext_lazy("who is told"))
    def told(self, rule: AlertRule) -> str:
        return ", ".join(str(Audience(one).label) for one in rule.audience)

    @admin.display(description=gettext_lazy("fires now"))
    def fires(self, rule: AlertRule) -> str:
        return str(rule.alerts.filter(state__in=LOUD).count() or "–")

    @admin.display(description=gettext_lazy("looked at, not known"))
    def seen(self, rule: AlertRule) -> str:
        counts = AlertRound.objects.filter(pk=1).values_list("counts", flat=True).first() or {}
        return " / ".join(str(number) for number in counts.get(str(rule.pk), ())) or "–"

    @admin.display(description=gettext_lazy("back-test"))
    def tested(self, rule: AlertRule) -> SafeString | str:
        metric = find_metric(rule.subject, rule.metric)
        if metric is None or (metric.series is None and rule.code != "low_activity"):
            return "–"
        return format_html(
            '<a href="{}">{}</a>', reverse("admin:alert_rule_backtest", args=[rule.pk]), _("last 7 days")
        )


def _try(rule: AlertRule, days: int) -> tuple[Backtest | None, str]:
    try:
        return backtest_rule(rule, days), ""
    except InvalidInput as error:
        return None, " ".join(describe_field_error(one) for one in error.errors)
