"""API of the audit log."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from portal.access.admin_lists import AUDITED, filter_audit
from portal.api.http.lists import PageQuery, SortField, list_of, page
from portal.api.view import ApiView, read_query
from portal.wording.events import describe_event


class AuditShape(serializers.Serializer):
    """via: how the actor's token begins; empty for the portal's session. params: {"from": {...}, "to": {...}} for what
    was changed, else values of the sentence `text`.
    """

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    via = serializers.CharField(allow_blank=True)
    address = serializers.CharField(allow_blank=True)
    request_id = serializers.CharField(allow_blank=True)
    kind = serializers.CharField()
    object = serializers.CharField(source="label")
    verb = serializers.CharField()
    text = serializers.SerializerMethodField()
    params = serializers.DictField()

    def get_text(self, row) -> str:
        return describe_event(row)


class AuditQuery(PageQuery):
    """since, until: from when on, and before when. kind: of the object. q: part of its name. work: people's own jobs
    and notebooks, too.
    """

    sort = SortField()
    actor = serializers.CharField(max_length=64, required=False)
    kind = serializers.ChoiceField(choices=AUDITED, required=False)
    q = serializers.CharField(max_length=80, required=False)
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)
    work = serializers.BooleanField(default=False)


class AuditLog(ApiView):
    scopes = {"GET": ("audit:read",)}
    operations = {"GET": "list_audit_log"}

    @extend_schema(parameters=[AuditQuery], responses=list_of(AuditShape, "AuditLog"))
    def get(self, request: Request) -> Response:
        """Tell who changed what from where, newest first. For administrators and auditors."""
        require(request.user, "platform.read")
        query = read_query(request, AuditQuery)
        given = {name: query[name] for name in ("actor", "kind", "since", "until", "work") if name in query}
        return page(filter_audit(words=query.get("q", ""), **given), query, AuditShape)
