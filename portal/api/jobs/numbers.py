"""API of the numbers that jobs report."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import FieldError, InvalidInput, NotFound
from common.text import shorten_text
from jobs.models import Job, read_job_id
from portal.api.jobs.jobs import find_job
from portal.api.view import ApiView, read_query
from reported_numbers.curves import Curve, Value, load_curves, load_untaken
from reported_numbers.thinning import AT, MOST_POINTS, STEP, VALUE, Points
from reported_numbers.untaken_messages import describe_untaken

MOST_JOBS = 10
MOST_DRAWN = 500
"""Curves of one answer that have points."""
MOST_TOGETHER = 100_000
"""Points of one answer."""


class NumbersQuery(serializers.Serializer):
    """name: one or more, with commas: their points come as well. jobs: ids of other jobs to compare with, with commas.
    points: the most of each curve, fewer where there are many curves.
    """

    name = serializers.CharField(max_length=7000, required=False)
    jobs = serializers.CharField(max_length=400, required=False)
    points = serializers.IntegerField(min_value=10, max_value=MOST_POINTS, default=MOST_POINTS)

    def validate_name(self, text: str) -> list[str]:
        return split_list(text)

    def validate_jobs(self, text: str) -> list[str]:
        ids = split_list(text)
        if len(ids) > MOST_JOBS:
            raise InvalidInput([FieldError("/jobs", "too_many", {"field": "jobs", "got": len(ids), "max": MOST_JOBS})])
        return ids


class ValueShape(serializers.Serializer):
    value = serializers.FloatField()
    step = serializers.FloatField()


class PointShape(ValueShape):
    at = serializers.DateTimeField()


class CurveShape(serializers.Serializer):
    """What one task reported by one name, over all attempts. count: of all numbers. points: thinned, with each peak;
    null unless the name is asked for.
    """

    job = serializers.CharField()
    task = serializers.CharField()
    name = serializers.CharField()
    count = serializers.IntegerField()
    last = PointShape()
    min = ValueShape()
    max = ValueShape()
    points = PointShape(many=True, allow_null=True)


class UntakenShape(serializers.Serializer):
    """What a task wrote and the platform did not take: lines and numbers, bytes, and why, in words."""

    task = serializers.CharField()
    refused = serializers.IntegerField()
    skipped_bytes = serializers.IntegerField()
    text = serializers.CharField()


class NumbersShape(serializers.Serializer):
    job = serializers.CharField()
    numbers = CurveShape(many=True)
    untaken = UntakenShape(many=True)


class JobNumbers(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_numbers"}

    @extend_schema(parameters=[NumbersQuery], responses=NumbersShape)
    def get(self, request: Request, job_id: str) -> Response:
        """Show the numbers that a job reports, such as its loss: the last, the smallest and the largest of each name,
        and curves of the names that are asked for.
        """
        job = find_job(request, job_id)
        query = read_query(request, NumbersQuery)
        jobs = [job, *(_find_other(request, other) for other in query.get("jobs", ()) if other != job_id)]
        return Response(show_numbers(jobs, query.get("name", []), query["points"]))


def show_numbers(jobs: list[Job], names: list[str], most: int) -> dict[str, Any]:
    """Return what is told of the first job, and of the others beside it."""
    curves = load_curves(jobs)
    wanted = sum(curve.name in names for curve in curves)
    if wanted > MOST_DRAWN:
        raise InvalidInput([FieldError("/name", "too_many", {"field": "name", "got": wanted, "max": MOST_DRAWN})])
    drawn = load_curves(jobs, names, most=min(most, MOST_TOGETHER // wanted)) if wanted else []
    points = {(curve.job, curve.task, curve.name): curve.points for curve in drawn}
    return {
        "job": jobs[0].public_id,
        "numbers": [show_curve(curve, points.get((curve.job, curve.task, curve.name))) for curve in curves],
        "untaken": [
            {
                "task": one.task,
                "refused": one.refused,
                "skipped_bytes": one.skipped,
                "text": describe_untaken(one),
            }
            for one in load_untaken(jobs[0])
        ],
    }


def show_curve(curve: Curve, points: Points | None) -> dict[str, Any]:
    return {
        "job": curve.job,
        "task": curve.task,
        "name": curve.name,
        "count": curve.count,
        "last": _show_value(curve.last) | {"at": curve.last_at},
        "min": _show_value(curve.smallest),
        "max": _show_value(curve.largest),
        "points": None if points is None else [_show_point(row) for row in points.tolist()],
    }


def split_list(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]


def _show_value(value: Value) -> dict[str, float]:
    return {"value": value.value, "step": value.step}


def _show_point(row: list[float]) -> dict[str, Any]:
    return {"value": row[VALUE], "step": row[STEP], "at": datetime.fromtimestamp(row[AT], UTC)}


def _find_other(request: Request, job_id: str) -> Job:
    if read_job_id(job_id) is None:
        raise NotFound(kind="job", id=shorten_text(job_id))
    return find_job(request, job_id)
