"""API of alerts and silences."""

from collections.abc import Callable

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import FieldError, InvalidInput
from monitoring.alerts.actions import confirm_action, undo_action
from monitoring.alerts.catalogue import find_metric
from monitoring.alerts.services import (
    acknowledge_alert,
    alerts_visible_to,
    end_silence,
    find_alert,
    find_silence,
    judged_at,
    make_silence,
    silences_visible_to,
)
from monitoring.models import Alert, AlertRule, AlertState, Severity
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import PageQuery, StatesField, list_of, page
from portal.api.view import MAX_ID, ApiView, read_query
from portal.wording.monitoring.alerts import describe_condition

READ, WRITE = ("alerts:read",), ("alerts:write",)
MOST_LABEL, MOST_REASON = 120, 200


class AlertShape(serializers.Serializer):
    """subject: what kind of thing it is about; label: which one. value: the newest, null while it is not known. state:
    no_data if it fired and its value is not known any more. told: whether anybody was, and when last. acts: asks where
    the rule's action needs a word of an administrator, warned where a job is stopped at acts_at or a little later, done
    where it was carried out.
    """

    id = serializers.IntegerField(source="pk")
    rule = serializers.IntegerField(source="rule_id")
    code = serializers.CharField(source="rule.code")
    name = serializers.SerializerMethodField()
    severity = serializers.CharField(source="rule.severity")
    state = serializers.SerializerMethodField()
    subject = serializers.CharField(source="rule.subject")
    label = serializers.CharField()  # type: ignore[assignment]
    metric = serializers.CharField(source="rule.metric")
    unit = serializers.SerializerMethodField()
    value = serializers.FloatField(allow_null=True)
    text = serializers.SerializerMethodField()
    reason = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField()
    fired_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    told_at = serializers.DateTimeField(allow_null=True)
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    acknowledged_by = serializers.CharField(allow_blank=True)
    acts = serializers.CharField(allow_blank=True)
    acts_at = serializers.DateTimeField(allow_null=True)
    runbook = serializers.CharField(source="rule.runbook", allow_blank=True)

    def get_name(self, alert: Alert) -> str:
        return str(alert.rule)

    def get_state(self, alert: Alert) -> str:
        return alert.state.lower()

    def get_unit(self, alert: Alert) -> str:
        metric = find_metric(alert.rule.subject, alert.rule.metric)
        return metric.unit if metric else ""

    def get_text(self, alert: Alert) -> str:
        return describe_condition(alert.rule)


class SilenceShape(serializers.Serializer):
    """rule, severity, label: what it matches; null or empty for any. for_all: for everybody, or its maker alone."""

    id = serializers.IntegerField(source="pk")
    rule = serializers.IntegerField(source="rule_id", allow_null=True)
    severity = serializers.CharField(allow_blank=True)
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    reason = serializers.CharField()
    made_by = serializers.CharField()
    for_all = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    until = serializers.DateTimeField()


class SilenceAsk(serializers.Serializer):
    """At least one of rule, severity and label. label: a pattern, as a shell has them, such as `n1:*`."""

    rule = serializers.IntegerField(min_value=1, max_value=MAX_ID, required=False)
    severity = serializers.ChoiceField(Severity.choices, required=False)
    label = serializers.CharField(max_length=MOST_LABEL, allow_blank=True, required=False)  # type: ignore[assignment]
    until = serializers.DateTimeField()
    reason = serializers.CharField(max_length=MOST_REASON)


class AlertsQuery(PageQuery):
    """state: with commas; left out, all but those that ended."""

    state = StatesField(AlertState)


class AlertList(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_alerts"}

    @extend_schema(parameters=[AlertsQuery], responses=list_of(AlertShape, "AlertPage"))
    def get(self, request: Request) -> Response:
        """List the alerts that concern one, newest first; all for administrators and auditors. The header
        Tessera-Alerts-Judged-At says when the rules were judged last.
        """
        query = read_query(request, AlertsQuery)
        rows = alerts_visible_to(request.user)
        states = query.get("state")
        rows = rows.filter(state__in=states) if states else rows.exclude(state=AlertState.RESOLVED)
        answer, at = page(rows, query, AlertShape), judged_at()
        if at is not None:
            answer["Tessera-Alerts-Judged-At"] = at.isoformat()
        return answer


class AlertDetail(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "get_alert"}

    @extend_schema(responses=AlertShape)
    def get(self, request: Request, alert_id: int) -> Response:
        return Response(AlertShape(find_alert(request.user, alert_id)).data)


class AlertAcknowledge(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "acknowledge_alert"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=AlertShape)
    def post(self, request: Request, alert_id: int) -> Response:
        """Say that somebody is at it: nobody is told of it again. Of machines and the platform, for administrators."""
        return _do(request, alert_id, acknowledge_alert)


class AlertAct(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "confirm_alert_action"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=AlertShape)
    def post(self, request: Request, alert_id: int) -> Response:
        """Carry out the action for which the alert asks; a job is stopped after a warning. For administrators."""
        return _do(request, alert_id, confirm_action)


class AlertUndo(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "undo_alert_action"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=AlertShape)
    def post(self, request: Request, alert_id: int) -> Response:
        """Take the machine back that the alert took out of service, call off the stop of a job, or queue the job again
        that it stopped. For administrators.
        """
        return _do(request, alert_id, undo_action)


class SilenceList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_silences", "POST": "create_silence"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[PageQuery], responses=list_of(SilenceShape, "SilencePage"))
    def get(self, request: Request) -> Response:
        """List silences that have not ended: one's own; all for administrators and auditors."""
        return page(silences_visible_to(request.user), read_query(request, PageQuery), SilenceShape)

    @extend_schema(request={JSON: SilenceAsk}, responses={201: OpenApiResponse(SilenceShape)})
    def post(self, request: Request) -> Response:
        """Tell nothing of what matches until then. An administrator's is for everybody, another's for themselves."""
        asked = read_json(request, SilenceAsk)
        silence = make_silence(actor=request.user, **{**asked, "rule": find_rule_named(asked.get("rule"))})
        return Response(
            SilenceShape(silence).data,
            status=201,
            headers={"Location": full_url("api-silence", silence_id=silence.pk)},
        )


class SilenceDetail(ApiView):
    scopes = {"GET": READ, "DELETE": WRITE}
    operations = {"GET": "get_silence", "DELETE": "end_silence"}

    @extend_schema(responses=SilenceShape)
    def get(self, request: Request, silence_id: int) -> Response:
        return Response(SilenceShape(find_silence(request.user, silence_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It is over.")})
    def delete(self, request: Request, silence_id: int) -> Response:
        end_silence(actor=request.user, silence=find_silence(request.user, silence_id))
        return Response(status=204)


def find_rule_named(rule_id: int | None) -> AlertRule | None:
    """Return the rule of this number. Raises InvalidInput."""
    if rule_id is None:
        return None
    rule = AlertRule.objects.filter(pk=rule_id).first()
    if rule is None:
        raise InvalidInput([FieldError("/rule", "unknown_alert_rule", {"got": rule_id})])
    return rule


def _do(request: Request, alert_id: int, service: Callable[..., object]) -> Response:
    service(actor=request.user, alert=find_alert(request.user, alert_id))
    return Response(AlertShape(find_alert(request.user, alert_id)).data)
