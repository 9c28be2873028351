"""API of alert rules: everybody reads, admins change."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from monitoring.alerts.backtest import backtest_rule
from monitoring.alerts.round import ship_rules
from monitoring.alerts.services import change_rule, delete_rule, find_rule, save_rule
from monitoring.models import Action, AlertRule, Audience, Comparison, Severity, Subject
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import PoolField, full_url
from portal.api.http.lists import PageQuery, list_of, page
from portal.api.view import ApiView, read_query
from portal.wording.monitoring.alerts import describe_condition

READ, WRITE = ("alerts:read",), ("alerts:write",)
MOST_S, MOST_GPUS, MOST_DAYS = 2**31 - 1, 32_767, 10_000


class AlertRuleShape(serializers.Serializer):
    """code: of a rule that ships, else empty. clear_threshold, clear_for_s: what ends it. text: when it fires."""

    id = serializers.IntegerField(source="pk")
    code = serializers.CharField(allow_blank=True)
    name = serializers.SerializerMethodField()
    text = serializers.SerializerMethodField()
    subject = serializers.CharField()
    metric = serializers.CharField()
    comparison = serializers.CharField()
    threshold = serializers.FloatField()
    for_s = serializers.IntegerField()
    clear_threshold = serializers.FloatField(allow_null=True)
    clear_for_s = serializers.IntegerField()
    pool = serializers.CharField(source="pool.name", default=None, allow_null=True)
    least_gpus = serializers.IntegerField(allow_null=True)
    severity = serializers.CharField()
    audience = serializers.ListField(child=serializers.CharField())
    action = serializers.CharField(allow_blank=True)
    runbook = serializers.CharField(allow_blank=True)
    enabled = serializers.BooleanField()

    def get_name(self, rule: AlertRule) -> str:
        return str(rule)

    def get_text(self, rule: AlertRule) -> str:
        return describe_condition(rule)


class AlertRuleChange(serializers.Serializer):
    """What is left out stays as it is. for_s, clear_for_s: in seconds. clear_threshold, pool, least_gpus: null removes
    it.
    """

    name = serializers.CharField(max_length=80, allow_blank=True, required=False)
    subject = serializers.ChoiceField(Subject.choices, required=False)
    metric = serializers.CharField(max_length=40, required=False)
    comparison = serializers.ChoiceField(Comparison.choices, required=False)
    threshold = serializers.FloatField(required=False)
    for_s = serializers.IntegerField(min_value=0, max_value=MOST_S, required=False)
    clear_threshold = serializers.FloatField(allow_null=True, required=False)
    clear_for_s = serializers.IntegerField(min_value=0, max_value=MOST_S, required=False)
    pool = PoolField(allow_null=True, required=False)
    least_gpus = serializers.IntegerField(min_value=1, max_value=MOST_GPUS, allow_null=True, required=False)
    severity = serializers.ChoiceField(Severity.choices, required=False)
    audience = serializers.ListField(child=serializers.ChoiceField(Audience.choices), max_length=3, required=False)
    action = serializers.ChoiceField(Action.choices, required=False, allow_blank=True)
    runbook = serializers.URLField(max_length=300, allow_blank=True, required=False)
    enabled = serializers.BooleanField(required=False)


class AlertRuleAsk(AlertRuleChange):
    name = serializers.CharField(max_length=80)
    subject = serializers.ChoiceField(Subject.choices)
    metric = serializers.CharField(max_length=40)
    comparison = serializers.ChoiceField(Comparison.choices)
    threshold = serializers.FloatField()
    audience = serializers.ListField(child=serializers.ChoiceField(Audience.choices), max_length=3)


class BacktestAsk(AlertRuleChange):
    """days: how far back. Other fields: as if the rule had them."""

    days = serializers.IntegerField(min_value=1, max_value=MOST_DAYS, default=7)


class FiringShape(serializers.Serializer):
    """end: null while it goes on."""

    label = serializers.CharField()  # type: ignore[assignment]
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True)


class BacktestShape(serializers.Serializer):
    """fired: how often; people: how many would have been told. subjects: of which something was known; left_out: more
    than are looked through. known: for which part of their time. firings: the newest.
    """

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    step_s = serializers.IntegerField()
    fired = serializers.IntegerField()
    people = serializers.IntegerField()
    subjects = serializers.IntegerField()
    left_out = serializers.IntegerField()
    known = serializers.FloatField()
    firings = FiringShape(many=True)


class AlertRuleList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_alert_rules", "POST": "create_alert_rule"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[PageQuery], responses=list_of(AlertRuleShape, "AlertRulePage"))
    def get(self, request: Request) -> Response:
        """List the rules, newest first."""
        ship_rules()
        return page(AlertRule.objects.select_related("pool"), read_query(request, PageQuery), AlertRuleShape)

    @extend_schema(request={JSON: AlertRuleAsk}, responses={201: OpenApiResponse(AlertRuleShape)})
    def post(self, request: Request) -> Response:
        """Add a rule. It holds from the next round on, which is within 15 seconds. For administrators."""
        require(request.user, "alert_rule.change")
        rule = save_rule(actor=request.user, rule=AlertRule(**read_json(request, AlertRuleAsk)))
        where = {"Location": full_url("api-alert-rule", rule_id=rule.pk)}
        return Response(AlertRuleShape(find_rule(rule.pk)).data, status=201, headers=where)


class AlertRuleDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_alert_rule", "PATCH": "change_alert_rule", "DELETE": "delete_alert_rule"}
    refusals = {"DELETE": ("409",)}

    @extend_schema(responses=AlertRuleShape)
    def get(self, request: Request, rule_id: int) -> Response:
        return Response(AlertRuleShape(find_rule(rule_id)).data)

    @extend_schema(request={JSON: AlertRuleChange}, responses=AlertRuleShape)
    def patch(self, request: Request, rule_id: int) -> Response:
        """Change a rule, or switch it on or off. For administrators."""
        require(request.user, "alert_rule.change")
        save_rule(actor=request.user, rule=change_rule(find_rule(rule_id), read_json(request, AlertRuleChange)))
        return Response(AlertRuleShape(find_rule(rule_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It is gone, with its alerts.")})
    def delete(self, request: Request, rule_id: int) -> Response:
        """Delete a rule; one that ships is switched off instead. For administrators."""
        require(request.user, "alert_rule.change")
        delete_rule(actor=request.user, rule=find_rule(rule_id))
        return Response(status=204)


class AlertRuleBacktest(ApiView):
    scopes = {"POST": READ}
    rates = {"POST": ("plans",)}
    operations = {"POST": "backtest_alert_rule"}

    @extend_schema(request={JSON: BacktestAsk}, responses=BacktestShape)
    def post(self, request: Request, rule_id: int) -> Response:
        """Tell how often the rule would have fired, by the series that are kept, and for how many people. For
        administrators and auditors.
        """
        require(request.user, "platform.read")
        asked: dict[str, Any] = read_json(request, BacktestAsk)
        days = asked.pop("days")
        return Response(BacktestShape(backtest_rule(change_rule(find_rule(rule_id), asked), days)).data)
