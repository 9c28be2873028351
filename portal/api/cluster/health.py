"""API of the health checks of `doctor`."""

from typing import get_args

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from portal.api.http.fields import one_of
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from runtimes.contract import runtime
from scheduler.preview.preview import list_pool_faults

TONES = get_args(runtime.Tone)


@extend_schema_field(one_of(TONES))
class Tone(serializers.CharField):
    """Read only."""


class FindingShape(serializers.Serializer):
    """A health check. note: it works, and should be known. remedy: how to fix it, or "". In English, as logs are."""

    about = serializers.CharField()
    tone = Tone()
    words = serializers.CharField()
    remedy = serializers.CharField(allow_blank=True)


class FindingList(ApiView):
    scopes = {"GET": ("cluster:write",)}
    operations = {"GET": "list_findings"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(FindingShape, "FindingList"))
    def get(self, request: Request) -> Response:
        """Check database, loops, agents and engine, without starting anything. For admins."""
        require(request.user, "node.change")
        return all_of(list_pool_faults(), FindingShape, **read_query(request, FieldsQuery))
