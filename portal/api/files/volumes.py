"""API of volumes: storage of the site that jobs may name."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from files.models import NAMED, Volume
from files.volumes import filter_visible_volumes, find_volume, save_volume
from jobs.used_data.volumes import delete_unused_volume
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.http.teams import find_team_where
from portal.api.view import ApiView, read_query

READ, WRITE = ("files:read",), ("cluster:write",)


class VolumeShape(serializers.Serializer):
    """Storage that jobs name as `volume:name/path` in `data`. source: a folder of the machines, or on a cluster the
    claim that each team's namespace has. team: null is everybody's.
    """

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    read_only = serializers.BooleanField()  # type: ignore[assignment]
    description = serializers.CharField(allow_blank=True)
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    created_at = serializers.DateTimeField()


class VolumeAsk(serializers.Serializer):
    """team: left out, it is everybody's."""

    name = serializers.CharField(max_length=40, validators=[NAMED])
    source = serializers.CharField(max_length=1000)  # type: ignore[assignment]
    read_only = serializers.BooleanField(default=True)  # type: ignore[assignment]
    description = serializers.CharField(max_length=200, allow_blank=True, default="")
    team = serializers.CharField(max_length=32, required=False, allow_null=True)


class VolumeChange(serializers.Serializer):
    """What is left out stays as it is."""

    source = serializers.CharField(max_length=1000, required=False)  # type: ignore[assignment]
    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]
    description = serializers.CharField(max_length=200, allow_blank=True, required=False)


class VolumeList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_volumes", "POST": "create_volume"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(VolumeShape, "VolumeList"))
    def get(self, request: Request) -> Response:
        """List everybody's volumes and those of one's teams, by name."""
        return all_of(filter_visible_volumes(request.user), VolumeShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: VolumeAsk}, responses={201: OpenApiResponse(VolumeShape)})
    def post(self, request: Request) -> Response:
        """Give storage of the site a name for jobs. For administrators."""
        require(request.user, "volume.change")
        asked = read_json(request, VolumeAsk)
        team = find_team_where(request.user, "volume.change", asked.pop("team", None))
        volume = save_volume(actor=request.user, volume=Volume(team=team, **asked))
        where = {"Location": full_url("api-volume", volume_id=volume.pk)}
        return Response(VolumeShape(find_volume(request.user, volume.pk)).data, status=201, headers=where)


class VolumeDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_volume", "PATCH": "change_volume", "DELETE": "delete_volume"}
    refusals = {"DELETE": ("409",)}

    @extend_schema(responses=VolumeShape)
    def get(self, request: Request, volume_id: int) -> Response:
        return Response(VolumeShape(find_volume(request.user, volume_id)).data)

    @extend_schema(request={JSON: VolumeChange}, responses=VolumeShape)
    def patch(self, request: Request, volume_id: int) -> Response:
        """Change a volume. Jobs have it as it is when they start. For administrators."""
        volume = find_volume(request.user, volume_id)
        require(request.user, "volume.change")
        for name, value in read_json(request, VolumeChange).items():
            setattr(volume, name, value)
        save_volume(actor=request.user, volume=volume)
        return Response(VolumeShape(find_volume(request.user, volume_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "No new job can name it. Its files stay.")})
    def delete(self, request: Request, volume_id: int) -> Response:
        """Forget a volume. 409 while a job that has yet to end names it. For administrators."""
        volume = find_volume(request.user, volume_id)
        require(request.user, "volume.change")
        delete_unused_volume(actor=request.user, volume=volume)
        return Response(status=204)
