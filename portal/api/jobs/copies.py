"""API of jobs that are made of earlier ones, and of what differs between two."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import NotFound
from common.text import shorten_text
from jobs.copying.copies import rerun_job
from jobs.copying.differences import compare_files
from jobs.models import read_job_id
from portal.api.http.bodies import JSON, read_json
from portal.api.http.headers import KEY, read_key
from portal.api.jobs.jobs import answer_new_job, find_job
from portal.api.jobs.shapes import JobDetailShape
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers


class RerunAsk(serializers.Serializer):
    """exact: its file as it was accepted, with the bytes of its image and its code; else what the image's name means
    now, and without code that is not one's own.
    """

    exact = serializers.BooleanField(default=False)


class DiffQuery(serializers.Serializer):
    """other: the id of another job."""

    other = serializers.CharField(max_length=40)


class DifferenceShape(serializers.Serializer):
    """field: such as env.LR. before, after: null where that file does not say."""

    field = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()


class DiffShape(serializers.Serializer):
    before = serializers.CharField()
    after = serializers.CharField()
    differences = DifferenceShape(many=True)


class JobRerun(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "rerun_job"}
    refusals = {"POST": ("409", "422", "507")}
    rates = {"POST": ("submits",)}

    @extend_schema(
        parameters=[KEY],
        request={JSON: RerunAsk},
        responses={201: OpenApiResponse(JobDetailShape, "The new job, and its address in Location.")},
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Submit a job's file once more, as a new job whose `parent` it is. It starts as soon as it can: `hold`,
        `start_at` and `after` are not copied.
        """
        parent = find_job(request, job_id)
        exact = read_json(request, RerunAsk)["exact"]
        job = rerun_job(
            user=request.user,
            parent=parent,
            exact=exact,
            check=check_possible,
            containers=runtime_has_containers(),
            key=read_key(request),
            body=f"{job_id}:rerun {exact}".encode(),
        )
        return answer_new_job(job)


class JobDiff(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "compare_jobs"}

    @extend_schema(parameters=[DiffQuery], responses=DiffShape)
    def get(self, request: Request, job_id: str) -> Response:
        """Compare its job file with that of another job, as both were accepted."""
        one = find_job(request, job_id)
        other_id = read_query(request, DiffQuery)["other"]
        if read_job_id(other_id) is None:
            raise NotFound(kind="job", id=shorten_text(other_id))
        differences = compare_files(one.spec, find_job(request, other_id).spec)
        return Response(DiffShape({"before": job_id, "after": other_id, "differences": differences}).data)
