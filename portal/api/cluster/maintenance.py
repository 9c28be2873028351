"""API of maintenance: everybody reads, admins change."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from cluster.maintenance import end_maintenance, find_maintenance, save_maintenance
from cluster.models import Maintenance, Node
from common.errors import FieldError, InvalidInput
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import PoolField, full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query

READ, WRITE = ("cluster:read",), ("cluster:write",)


class MaintenanceShape(serializers.Serializer):
    """nodes: by name; pool: also all with a card of it. stops: preemptible jobs are stopped and requeued when it
    begins.
    """

    id = serializers.IntegerField(source="pk")
    why = serializers.CharField(allow_blank=True)
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    has_begun = serializers.SerializerMethodField()
    nodes = serializers.SerializerMethodField()
    pool = serializers.CharField(source="pool.name", default=None, allow_null=True)
    stops = serializers.BooleanField()
    planned_by = serializers.CharField(allow_blank=True)

    def get_has_begun(self, row: Maintenance) -> bool:
        return row.begins_at <= timezone.now()

    def get_nodes(self, row: Maintenance) -> list[str]:
        return sorted(node.name for node in row.nodes.all())


class MaintenanceChange(serializers.Serializer):
    """What is left out stays as it is. nodes: names; pool: null removes it."""

    why = serializers.CharField(max_length=200, allow_blank=True, required=False)
    begins_at = serializers.DateTimeField(required=False)
    ends_at = serializers.DateTimeField(required=False)
    nodes = serializers.ListField(child=serializers.CharField(max_length=63), max_length=1000, required=False)
    pool = PoolField(allow_null=True, required=False)
    stops = serializers.BooleanField(required=False)


class MaintenanceAsk(MaintenanceChange):
    """nodes, pool: at least one. stops: stop and requeue preemptible jobs when it begins."""

    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class MaintenanceList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_maintenance", "POST": "plan_maintenance"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(MaintenanceShape, "MaintenanceList"))
    def get(self, request: Request) -> Response:
        """List current and planned maintenance, earliest first."""
        rows = Maintenance.objects.not_over(timezone.now()).select_related("pool")
        return all_of(rows, MaintenanceShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: MaintenanceAsk}, responses={201: OpenApiResponse(MaintenanceShape)})
    def post(self, request: Request) -> Response:
        """Plan one. Jobs that would still run when it begins are not started on its machines; what runs goes on, and
        nothing starts until it is over.
        """
        require(request.user, "node.change")
        row = _save(request, Maintenance(), read_json(request, MaintenanceAsk))
        return Response(
            MaintenanceShape(row).data,
            status=201,
            headers={"Location": full_url("api-maintenance", maintenance_id=row.pk)},
        )


class MaintenanceDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_maintenance", "PATCH": "change_maintenance", "DELETE": "end_maintenance"}

    @extend_schema(responses=MaintenanceShape)
    def get(self, request: Request, maintenance_id: int) -> Response:
        return Response(MaintenanceShape(find_maintenance(maintenance_id)).data)

    @extend_schema(request={JSON: MaintenanceChange}, responses=MaintenanceShape)
    def patch(self, request: Request, maintenance_id: int) -> Response:
        require(request.user, "node.change")
        row = _save(request, find_maintenance(maintenance_id), read_json(request, MaintenanceChange))
        return Response(MaintenanceShape(row).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It is called off, or over.")})
    def delete(self, request: Request, maintenance_id: int) -> Response:
        """Cancel it, or end it now."""
        require(request.user, "node.change")
        end_maintenance(actor=request.user.as_actor, maintenance=find_maintenance(maintenance_id))
        return Response(status=204)


def _save(request: Request, row: Maintenance, asked: dict[str, Any]) -> Maintenance:
    named = _find_nodes(asked.pop("nodes")) if "nodes" in asked else list(row.nodes.all()) if row.pk else []
    for name, value in asked.items():
        setattr(row, name, value)
    return save_maintenance(actor=request.user.as_actor, maintenance=row, nodes=named)


def _find_nodes(names: list[str]) -> list[Node]:
    known = {node.name: node for node in Node.objects.present()}
    errors = [
        FieldError(f"/nodes/{place}", "unknown_node", {"node": name, "known": sorted(known)})
        for place, name in enumerate(names)
        if name not in known
    ]
    if errors:
        raise InvalidInput(errors)
    return [known[name] for name in dict.fromkeys(names)]
