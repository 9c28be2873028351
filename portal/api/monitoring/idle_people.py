"""API of people who are away and still hold something."""

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.access.idle_people import AwayRow, list_idle_people
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from portal.wording.monitoring.away import describe_held


class IdlePersonShape(serializers.Serializer):
    """A person of whom there was no sign for long. seen_at: the last sign-in, use of a token or SSH key, or job; null
    if there never was one. ran_at: when a job last began or ended. home_bytes, cpu_milli, memory_mib, gpu_milli: 0 for
    nothing; the latter three are guarantees of teams in which nobody else is. held: the same in words.
    """

    user = serializers.CharField(source="username")
    full_name = serializers.CharField(allow_blank=True)
    suspended = serializers.BooleanField()
    days = serializers.IntegerField()
    seen_at = serializers.DateTimeField(allow_null=True)
    ran_at = serializers.DateTimeField(allow_null=True)
    notebooks = serializers.IntegerField(source="held.notebooks")
    home_bytes = serializers.IntegerField(source="held.home_bytes")
    gpu_milli = serializers.IntegerField(source="held.gpu_milli")
    cpu_milli = serializers.IntegerField(source="held.cpu_milli")
    memory_mib = serializers.IntegerField(source="held.memory_mib")
    held = serializers.SerializerMethodField()
    reminded_at = serializers.DateTimeField(allow_null=True)

    def get_held(self, row: AwayRow) -> str:
        return describe_held(asdict(row.held))


class IdlePeople(ApiView):
    scopes = {"GET": ("reports:read",)}
    operations = {"GET": "list_idle_people"}
    refusals = {"GET": ("403",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(IdlePersonShape, "IdlePeople"))
    def get(self, request: Request) -> Response:
        """List who has been away for long and still holds something. For admins; leads see their teams' members."""
        return all_of(list_idle_people(request.user), IdlePersonShape, **read_query(request, FieldsQuery))
