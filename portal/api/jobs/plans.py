"""API of job plans and of what helps a waiting job. Nothing is stored."""

from dataclasses import replace
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import may, require
from jobs.arrays.estimate import plan_duration_s
from jobs.arrays.models import USUAL_AT_ONCE
from jobs.changing import read_change_value
from jobs.jobfile.load import load_jobfile, load_json
from jobs.jobfile.parse import parse_spec
from jobs.jobfile.spec import JobSpec
from jobs.states import JobState
from portal.api.http.bodies import JSON, MAX_JSON, MAX_YAML, YAML, media_type, read_body
from portal.api.http.fields import Reason, one_of, show_reasons
from portal.api.http.problems import problem
from portal.api.jobs.jobs import BODY, find_job
from portal.api.jobs.shapes import StartRange, show_start
from portal.api.schema import Problem
from portal.api.view import ApiView
from portal.chains.deciding_link import find_deciding_link
from portal.wording.plans import (
    describe_array,
    describe_borrowing,
    describe_change,
    describe_other_choice,
    describe_plan,
    describe_sooner_start,
)
from scheduler.preview.preview import JobForecast, PlanAnswer, PlannedPlacement, Suggestion, forecast_job, plan_job


@extend_schema_field(one_of(("starts", "waits", "never")))
class Outcome(serializers.CharField):
    pass


class Place(serializers.Serializer):
    """Where a task would go. gpus: indices of cards on the node; gpu_milli: thousandths of each. role: "" where all
    tasks are alike.
    """

    node = serializers.CharField()
    gpus = serializers.ListField(child=serializers.IntegerField())
    gpu_milli = serializers.IntegerField()
    role = serializers.CharField(allow_blank=True)


@extend_schema_field({})
class Anything(serializers.JSONField):
    """Any value of a job file's field, null if unset."""


class Lever(serializers.Serializer):
    """A change of one job-file field that lets the job start sooner: PATCH it to the job. value: to set; was: null if
    unset. now: it starts in the next cycle.
    """

    field = serializers.CharField()
    value = serializers.JSONField()
    was = Anything()
    text = serializers.CharField()
    now = serializers.BooleanField()
    start = StartRange(allow_null=True)
    start_text = serializers.CharField(allow_blank=True)


class LeversAnswer(serializers.Serializer):
    """start: of the job as it is, null if unknown. levers: soonest start first. whole: false if time ran out before all
    were tried.
    """

    start = StartRange(allow_null=True)
    levers = Lever(many=True)
    whole = serializers.BooleanField()


class JobLeversAnswer(LeversAnswer):
    """job: whose start these are about: the job's own, or that of the job before it that decides."""

    job = serializers.CharField()


class OtherChoiceShape(serializers.Serializer):
    """What the job would meet if `preemptible` said the other. start: of one that would wait instead of starting now,
    if known. text: in words.
    """

    preemptible = serializers.BooleanField()
    starts = serializers.BooleanField()
    start = StartRange(allow_null=True)
    text = serializers.CharField()


class PlannedArray(serializers.Serializer):
    """How many elements follow what is told of the first. lasts_s: from the first's start to the last's end at the
    soonest, null unless the file says at_once and time.
    """

    total = serializers.IntegerField()
    at_once = serializers.IntegerField()
    lasts_s = serializers.IntegerField(allow_null=True)
    text = serializers.CharField()


class PlanShape(LeversAnswer):
    """outcome: it starts in the next cycle (places), waits (position of `of`, reasons, start, levers), or can never run
    (refusal, as of a submit). text: in words. pool: where it starts or is to start first, null if it can never run.
    pools: all where it waits. preemptible: whether it may be stopped for other teams in `pool`, null if it can never
    run; preemptible_text: that, who says so, and what it means. other_choice: null of a job that is held or can never
    run. array: null of a file without; all else is told of its first element.
    """

    outcome = Outcome()
    text = serializers.CharField()
    pool = serializers.CharField(allow_null=True)
    pools = serializers.ListField(child=serializers.CharField())
    places = Place(many=True)
    position = serializers.IntegerField(allow_null=True)
    of = serializers.IntegerField(allow_null=True)
    reasons = Reason(many=True)
    preemptible = serializers.BooleanField(allow_null=True)
    preemptible_text = serializers.CharField(allow_blank=True)
    other_choice = OtherChoiceShape(allow_null=True)
    refusal = Problem(allow_null=True)
    array = PlannedArray(allow_null=True)


class JobsPlan(ApiView):
    scopes = {"POST": ("jobs:read",)}
    operations = {"POST": "plan_job"}
    rates = {"POST": ("plans",)}
    refusals = {"POST": ("409",)}

    @extend_schema(
        request=BODY,
        responses=PlanShape,
    )
    def post(self, request: Request) -> Response:
        """Show what a submit of this job file would bring; refused where that is refused. `code: .`: not sent yet."""
        kind = media_type(request, JSON, *YAML)
        body = read_body(request, MAX_JSON if kind == JSON else MAX_YAML)
        spec = parse_spec(load_json(body) if kind == JSON else load_jobfile(body))
        code = None if spec.code == "." else spec.code
        answer = plan_job(request.user, replace(spec, code=code, array=None))
        return Response({**show_plan(answer, request), "array": show_planned_array(spec)})


class JobLevers(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_levers"}
    rates = {"GET": ("plans",)}

    @extend_schema(responses=JobLeversAnswer)
    def get(self, request: Request, job_id: str) -> Response:
        """Show when one's own waiting job will start, and what would help. Computed at each call.

        Of one that starts after others it is told of the job that decides, if that is one's own, too.
        """
        job = find_job(request, job_id)
        require(request.user, "job.levers", job.team, job.user_id)
        link = find_deciding_link(request.user, job)
        if link and may(request.user, "job.levers", link.job.team, link.job.user_id):
            job = link.job
        outlook = forecast_job(job) if job.state == JobState.QUEUED else JobForecast()
        return Response({"job": job.public_id, **show_outlook(outlook)})


def show_plan(answer: PlanAnswer, request: Request) -> dict[str, Any]:
    position, of = answer.place or (None, None)
    return {
        "outcome": answer.outcome,
        "text": describe_plan(answer),
        "pool": answer.draft.pool.name if answer.draft else None,
        "pools": [one.pool.name for one in answer.draft.in_pools] if answer.draft else [],
        "places": [show_seat(seat) for seat in answer.seats],
        "position": position,
        "of": of,
        "reasons": show_reasons(answer.reasons),
        "preemptible": answer.draft.preemptible if answer.draft else None,
        "preemptible_text": describe_borrowing(answer.draft) if answer.draft else "",
        "other_choice": show_other_choice(answer),
        "refusal": problem(answer.never, request) if answer.never else None,
        **show_outlook(answer.outlook),
    }


def show_planned_array(spec: JobSpec) -> dict[str, Any] | None:
    wish = spec.elements
    if wish is None:
        return None
    numbers = {"total": wish.count, "at_once": wish.at_once or USUAL_AT_ONCE}
    lasts_s = plan_duration_s(wish, spec.time_s)
    return {**numbers, "lasts_s": lasts_s, "text": describe_array(wish, spec.time_s)}


def show_other_choice(answer: PlanAnswer) -> dict[str, Any] | None:
    other = answer.other
    if other is None:
        return None
    told = {"preemptible": other.preemptible, "starts": other.starts, "start": show_start(other.start)}
    return {**told, "text": describe_other_choice(other, answer.outcome)}


def show_outlook(outlook: JobForecast) -> dict[str, Any]:
    return {
        "start": show_start(outlook.start),
        "levers": [show_lever(one) for one in outlook.sooner],
        "whole": outlook.whole,
    }


def show_lever(sooner: Suggestion) -> dict[str, Any]:
    change = sooner.change
    return {
        "field": change.field,
        "value": read_change_value(change.field, change.value),
        "was": read_change_value(change.field, change.was) if change.was else None,
        "text": describe_change(sooner),
        "now": sooner.now,
        "start": show_start(sooner.start),
        "start_text": describe_sooner_start(sooner),
    }


def show_seat(seat: PlannedPlacement) -> dict[str, Any]:
    return {"node": seat.node, "gpus": list(seat.gpus), "gpu_milli": seat.milli, "role": seat.role}
