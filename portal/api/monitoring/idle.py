"""API of what is held and idle, of exemptions, and of the rules."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from monitoring.idle import requests
from monitoring.idle.preview import DAYS, preview_rule
from monitoring.idle.rules import delete_rule, find_saved_rule, list_rules, save_rule
from monitoring.idle.rungs import Then
from monitoring.models import Exemption, IdleRule
from portal.access.idle_rows import IdleRow, find_exemption, list_exemptions, list_idle_rows
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import PoolField, full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.jobs.jobs import find_job
from portal.api.view import ApiView, read_query

READ, WRITE = ("jobs:read",), ("idle:write",)
KINDS = [kind.value for kind in IdleRule.KINDS]


class IdleShape(serializers.Serializer):
    """Something held and idle. What belongs to another team has no job, evidence or times. finding: idle, or
    unknown while it cannot be seen. held: GPU memory is taken. rung: none, noted, reminded, warned or acted. next: what
    follows, in words. may: what the caller may do.
    """

    job = serializers.CharField(source="job_id", allow_blank=True)
    notebook = serializers.CharField(source="notebook_id", allow_blank=True)
    name = serializers.CharField(source="title", allow_blank=True)
    owner = serializers.CharField(allow_blank=True)
    team = serializers.CharField(allow_blank=True)
    pool = serializers.CharField()
    gpu_milli = serializers.IntegerField(source="milli")
    finding = serializers.CharField()
    idle_s = serializers.IntegerField()
    since = serializers.DateTimeField(allow_null=True)
    held = serializers.BooleanField()
    seen = serializers.CharField(allow_blank=True)
    evidence = serializers.DictField()
    rung = serializers.SerializerMethodField()
    next = serializers.CharField()
    next_at = serializers.DateTimeField(allow_null=True)
    acts_at = serializers.DateTimeField(allow_null=True)
    then = serializers.CharField(allow_blank=True)
    snoozed_until = serializers.DateTimeField(allow_null=True)
    exempt_until = serializers.DateTimeField(allow_null=True)
    may = serializers.SerializerMethodField()

    def get_rung(self, row: IdleRow) -> str:
        return row.rung.name.lower()

    def get_may(self, row: IdleRow) -> list[str]:
        return sorted(row.may)


class IdleList(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_idle"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(IdleShape, "IdleList"))
    def get(self, request: Request) -> Response:
        """List what is held and idle now, longest and largest first."""
        return all_of(list_idle_rows(request.user), IdleShape, **read_query(request, FieldsQuery))


class IdleAction(ApiView):
    """Base of what is done about an idle job."""

    scopes = {"POST": WRITE}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses={204: OpenApiResponse(None, "It is done.")})
    def post(self, request: Request, job_id: str) -> Response:
        type(self).service(actor=request.user, job=find_job(request, job_id))
        return Response(status=204)

    service: Any


class IdleSnooze(IdleAction):
    """Keeps it for another hour, twice a day at most."""

    operations = {"POST": "snooze_idle"}
    service = staticmethod(requests.snooze)


class IdleNudge(IdleAction):
    """Asks its owner whether it is still needed, once an hour at most."""

    operations = {"POST": "nudge_idle"}
    service = staticmethod(requests.nudge)


class IdleRelease(IdleAction):
    """Releases what it holds at once: a notebook goes on without its GPU, a job is stopped."""

    operations = {"POST": "release_idle"}
    service = staticmethod(requests.release_now)


class ExemptionShape(serializers.Serializer):
    """job, notebook: one of them; a notebook is exempt with all its starts."""

    id = serializers.IntegerField(source="pk")
    job = serializers.CharField(source="job.public_id", default="")
    notebook = serializers.CharField(source="notebook.public_id", default="")
    reason = serializers.CharField()
    by = serializers.CharField(source="by.username")
    made_at = serializers.DateTimeField()
    until = serializers.DateTimeField()


class ExemptionAsk(serializers.Serializer):
    """job: such as job-12; of a notebook's start the notebook is exempt. hours: 24 at most; 720 for admins. reason: the
    leads of its team see it.
    """

    job = serializers.RegexField(r"^job-[1-9][0-9]{0,17}$")
    hours = serializers.IntegerField()
    reason = serializers.CharField(max_length=1000, allow_blank=True)


class ExemptionList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_exemptions", "POST": "exempt_idle"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(ExemptionShape, "ExemptionList"))
    def get(self, request: Request) -> Response:
        """List the exemptions that hold."""
        return all_of(list_exemptions(request.user), ExemptionShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: ExemptionAsk}, responses={201: OpenApiResponse(ExemptionShape)})
    def post(self, request: Request) -> Response:
        """Keep the rules off a job for some hours. For leads and admins."""
        asked = read_json(request, ExemptionAsk)
        job = find_job(request, asked["job"])
        made = requests.exempt(actor=request.user, job=job, hours=asked["hours"], reason=asked["reason"])
        where = {"Location": full_url("api-exemption", exemption_id=made.pk)}
        return Response(ExemptionShape(made).data, status=201, headers=where)


class ExemptionDetail(ApiView):
    scopes = {"GET": READ, "DELETE": WRITE}
    operations = {"GET": "get_exemption", "DELETE": "end_exemption"}

    @extend_schema(responses=ExemptionShape)
    def get(self, request: Request, exemption_id: int) -> Response:
        return Response(ExemptionShape(find_exemption(request.user, exemption_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "The rules hold again.")})
    def delete(self, request: Request, exemption_id: int) -> Response:
        row: Exemption = find_exemption(request.user, exemption_id)
        requests.end_exemption(actor=request.user, exemption=row)
        return Response(status=204)


class RuleAsk(serializers.Serializer):
    """pool: null for all pools without a rule of their own. *_min: after so many idle minutes; null for never. then:
    what act_min does.
    """

    pool = PoolField(allow_null=True, default=None)
    kind = serializers.ChoiceField(choices=KINDS)
    note_min = serializers.IntegerField(default=30)
    remind_min = serializers.IntegerField(allow_null=True, default=None)
    warn_min = serializers.IntegerField(allow_null=True, default=None)
    act_min = serializers.IntegerField(allow_null=True, default=None)
    then = serializers.ChoiceField(choices=Then.values, default=Then.TELL.value)


class RuleShape(serializers.Serializer):
    """id: null for a default, which nobody set."""

    id = serializers.IntegerField(source="pk", allow_null=True)
    pool = serializers.CharField(source="pool.name", default=None, allow_null=True)
    kind = serializers.CharField()
    note_min = serializers.IntegerField()
    remind_min = serializers.IntegerField(allow_null=True)
    warn_min = serializers.IntegerField(allow_null=True)
    act_min = serializers.IntegerField(allow_null=True)
    then = serializers.CharField()


class RuleList(ApiView):
    scopes = {"GET": ("cluster:read",), "POST": ("cluster:write",)}
    operations = {"GET": "list_idle_rules", "POST": "save_idle_rule"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(RuleShape, "IdleRuleList"))
    def get(self, request: Request) -> Response:
        """List the rules: those of pools, and of all pools without one."""
        return all_of(list_rules(), RuleShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: RuleAsk}, responses={201: OpenApiResponse(RuleShape)})
    def post(self, request: Request) -> Response:
        """Set the rule of a pool, or of all without one. What runs begins a full ladder by it. For admins."""
        require(request.user, "idle.rule")
        rule = save_rule(actor=request.user, rule=IdleRule(**read_json(request, RuleAsk)))
        where = {"Location": full_url("api-idle-rule", idle_rule_id=rule.pk)}
        return Response(RuleShape(rule).data, status=201, headers=where)


class RuleDetail(ApiView):
    scopes = {"GET": ("cluster:read",), "DELETE": ("cluster:write",)}
    operations = {"GET": "get_idle_rule", "DELETE": "delete_idle_rule"}

    @extend_schema(responses=RuleShape)
    def get(self, request: Request, idle_rule_id: int) -> Response:
        return Response(RuleShape(find_saved_rule(idle_rule_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "The rule of all pools, or the default, holds again.")})
    def delete(self, request: Request, idle_rule_id: int) -> Response:
        require(request.user, "idle.rule")
        delete_rule(actor=request.user, rule=find_saved_rule(idle_rule_id))
        return Response(status=204)


class PreviewAsk(RuleAsk):
    """days: how far back, 7 at most."""

    days = serializers.IntegerField(min_value=1, max_value=DAYS, default=DAYS)


class PreviewShape(serializers.Serializer):
    """What the rule would have done since then. busy_again: acts after which the job worked within 15 minutes.
    complete: false where only the newest jobs were looked at.
    """

    since = serializers.DateTimeField()
    looked_at = serializers.IntegerField()
    told = serializers.IntegerField()
    acts = serializers.IntegerField()
    gpu_hours = serializers.FloatField()
    people = serializers.IntegerField()
    busy_again = serializers.IntegerField()
    complete = serializers.BooleanField()


class RulePreview(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "preview_idle_rule"}

    @extend_schema(request={JSON: PreviewAsk}, responses=PreviewShape)
    def post(self, request: Request) -> Response:
        """Tell what a rule would have done in the last days, without setting it. For admins."""
        require(request.user, "idle.rule")
        asked = read_json(request, PreviewAsk)
        days = asked.pop("days")
        found = preview_rule(IdleRule(**asked), days=days, now=timezone.now())
        return Response(PreviewShape(found).data)
