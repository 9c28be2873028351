"""What the doctor finds: whether all that the platform stands on is as it should be."""

from typing import get_args

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from portal.api.fields import one_of
from portal.api.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from runtimes import base
from scheduler.preview import find_faults

TONES = get_args(base.Tone)


@extend_schema_field(one_of(TONES))
class Tone(serializers.CharField):
    """Read only."""


class FindingShape(serializers.Serializer):
    """One thing that was looked at. note: it works, and should be known. remedy: what mends it, "" where nothing is to
    be mended. Both are in English, as logs are."""

    about = serializers.CharField()
    tone = Tone()
    words = serializers.CharField()
    remedy = serializers.CharField(allow_blank=True)


class FindingList(ApiView):
    scopes = {"GET": ("cluster:write",)}
    operations = {"GET": "list_findings"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(FindingShape, "FindingList"))
    def get(self, request: Request) -> Response:
        """Look at database, loops, agents of machines and the engine. For admins. Nothing is started for it."""
        require(request.user, "node.change")
        return all_of(find_faults(), FindingShape, **read_query(request, FieldsQuery))
