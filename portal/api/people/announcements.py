"""API of announcements: what admins tell everybody, or one team."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.announcements import end_announcement, find_announcement, list_announcements, save_announcement
from accounts.directory import find_team
from accounts.models import Announcement
from accounts.permissions import require
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.permissions import SIGNED_IN
from portal.api.view import ApiView, read_query

WRITE = ("cluster:write",)


class AnnouncementShape(serializers.Serializer):
    """team: null for everybody. tone: `idle` is a warning. ends_at: null until somebody ends it."""

    id = serializers.IntegerField(source="pk")
    text = serializers.CharField()
    tone = serializers.ChoiceField(Announcement.Tone.choices)
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True)
    made_by = serializers.CharField()


class AnnouncementChange(serializers.Serializer):
    """What is left out stays as it is. team: null for everybody."""

    text = serializers.CharField(max_length=300, required=False)
    tone = serializers.ChoiceField(Announcement.Tone.choices, required=False)
    team = serializers.CharField(max_length=32, allow_null=True, required=False)
    begins_at = serializers.DateTimeField(required=False)
    ends_at = serializers.DateTimeField(allow_null=True, required=False)


class AnnouncementAsk(AnnouncementChange):
    """begins_at: left out, now. ends_at: left out, when somebody ends it."""

    text = serializers.CharField(max_length=300)


class AnnouncementList(ApiView):
    scopes = {"GET": SIGNED_IN, "POST": WRITE}
    operations = {"GET": "list_announcements", "POST": "make_announcement"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(AnnouncementShape, "AnnouncementList"))
    def get(self, request: Request) -> Response:
        """List what one is told now; all that has not ended for administrators and auditors."""
        return all_of(list_announcements(request.user), AnnouncementShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: AnnouncementAsk}, responses={201: OpenApiResponse(AnnouncementShape)})
    def post(self, request: Request) -> Response:
        """Tell everybody, or a team, at the top of each page. For administrators."""
        require(request.user, "announcement.change")
        row = _save(request, Announcement(begins_at=timezone.now()), read_json(request, AnnouncementAsk))
        where = {"Location": full_url("api-announcement", announcement_id=row.pk)}
        return Response(AnnouncementShape(row).data, status=201, headers=where)


class AnnouncementDetail(ApiView):
    scopes = {"GET": SIGNED_IN, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_announcement", "PATCH": "change_announcement", "DELETE": "end_announcement"}

    @extend_schema(responses=AnnouncementShape)
    def get(self, request: Request, announcement_id: int) -> Response:
        return Response(AnnouncementShape(find_announcement(request.user, announcement_id)).data)

    @extend_schema(request={JSON: AnnouncementChange}, responses=AnnouncementShape)
    def patch(self, request: Request, announcement_id: int) -> Response:
        """For administrators."""
        require(request.user, "announcement.change")
        row = _save(request, find_announcement(request.user, announcement_id), read_json(request, AnnouncementChange))
        return Response(AnnouncementShape(row).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It is shown no more.")})
    def delete(self, request: Request, announcement_id: int) -> Response:
        """End it now. For administrators."""
        require(request.user, "announcement.change")
        end_announcement(actor=request.user, announcement=find_announcement(request.user, announcement_id))
        return Response(status=204)


def _save(request: Request, row: Announcement, asked: dict[str, Any]) -> Announcement:
    if "team" in asked:
        asked["team"] = find_team(asked["team"], "/team") if asked["team"] else None
    for name, value in asked.items():
        setattr(row, name, value)
    return save_announcement(actor=request.user, announcement=row)
