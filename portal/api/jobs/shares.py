"""API of the shares of jobs; a notebook's are those of the job of its start."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from portal.api.http.bodies import JSON, read_json
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.jobs.jobs import find_job
from portal.api.view import ApiView, read_query
from sharing.shares import end_share, share_job


class ShareShape(serializers.Serializer):
    """A colleague who may enter a job until it ends. visited_at: the last visit by browser that its events tell."""

    person = serializers.CharField(source="user.username")
    created_at = serializers.DateTimeField()
    visited_at = serializers.DateTimeField(allow_null=True)


class ShareAsk(serializers.Serializer):
    """person: the user name of a member or lead of the job's team."""

    person = serializers.CharField(max_length=64)


class JobShares(ApiView):
    scopes = {"GET": ("jobs:read",), "POST": ("jobs:write",)}
    operations = {"GET": "list_shares", "POST": "share_job"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(ShareShape, "ShareList"))
    def get(self, request: Request, job_id: str) -> Response:
        """List to whom a job, or the start of a notebook, is open. For its owner, leads and administrators."""
        job = find_job(request, job_id)
        require(request.user, "job.stop", job.team, job.user_id)
        shares = job.shares.select_related("user")
        return all_of(shares, ShareShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: ShareAsk}, responses={201: ShareShape})
    def post(self, request: Request, job_id: str) -> Response:
        """Let a colleague enter one's own job by terminal and SSH, a notebook's by JupyterLab too, until it ends."""
        share = share_job(actor=request.user, job=find_job(request, job_id), **read_json(request, ShareAsk))
        return Response(ShareShape(share).data, status=201)


class JobShare(ApiView):
    scopes = {"DELETE": ("jobs:write",)}
    operations = {"DELETE": "end_share"}

    @extend_schema(responses={204: OpenApiResponse(None, "They enter no more.")})
    def delete(self, request: Request, job_id: str, person: str) -> Response:
        """End a colleague's share; what they have open is closed."""
        end_share(actor=request.user, job=find_job(request, job_id), person=person)
        return Response(status=204)
