"""API of the caller's notices."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from events.models import Notice
from events.notices import count_unread, mark_read, notices_of
from portal.api.http.bodies import JSON, read_json
from portal.api.http.lists import PageQuery, list_of, page
from portal.api.view import MAX_ID, ApiView, read_query
from portal.wording.notices import view_notice

MAX_IDS = 500


class NoticeShape(serializers.Serializer):
    """kind and params never change with the language; title and text are for people. url: of the object's page."""

    id = serializers.IntegerField(source="pk")
    kind = serializers.CharField()
    object = serializers.CharField(source="label")
    params = serializers.DictField()
    title = serializers.SerializerMethodField()
    text = serializers.SerializerMethodField()
    url = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)

    def get_title(self, notice: Notice) -> str:
        return view_notice(notice).title

    def get_text(self, notice: Notice) -> str:
        return view_notice(notice).text

    def get_url(self, notice: Notice) -> str:
        return view_notice(notice).url


class NoticesQuery(PageQuery):
    unread = serializers.BooleanField(default=False)


class ReadAsk(serializers.Serializer):
    """ids: left out, all."""

    ids = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=MAX_ID), max_length=MAX_IDS, required=False
    )


class Unread(serializers.Serializer):
    unread = serializers.IntegerField()


class Notices(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "list_notices"}

    @extend_schema(parameters=[NoticesQuery], responses=list_of(NoticeShape, "NoticePage"))
    def get(self, request: Request) -> Response:
        """List one's notices, newest first."""
        query, rows = read_query(request, NoticesQuery), notices_of(request.user.pk)
        if query["unread"]:
            rows = rows.filter(read_at__isnull=True)
        return page(rows, query, NoticeShape)


class ReadNotices(ApiView):
    scopes = {"POST": ("jobs:write",)}
    operations = {"POST": "read_notices"}

    @extend_schema(request={JSON: ReadAsk}, responses=Unread)
    def post(self, request: Request) -> Response:
        """Mark notices as read. The answer counts the unread."""
        mark_read(user_id=request.user.pk, ids=read_json(request, ReadAsk).get("ids"))
        return Response({"unread": count_unread(request.user.pk)})
