"""API of nodes, cards, queue and free capacity, masked by portal.access.redacted_rows."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import NotFound
from portal.access.redacted_rows import list_active_rows, list_node_views, list_queue_rows, load_gpu_slices
from portal.api.cluster.shapes import GpuShape, NodeShape, QueueShape, RoomShape
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import list_capacity
from scheduler.preview.stored_forecasts import last_cycle


class PoolQuery(serializers.Serializer):
    pool = serializers.CharField(max_length=64, required=False)


class NodesQuery(PoolQuery, FieldsQuery):
    """Adds `pool` and `fields`."""


class CardQuery(NodesQuery):
    node = serializers.CharField(max_length=64, required=False)


class ClusterView(ApiView):
    scopes = {"GET": ("cluster:read",)}


class NodeList(ClusterView):
    operations = {"GET": "list_nodes"}

    @extend_schema(parameters=[NodesQuery], responses=list_of(NodeShape, "NodeList"))
    def get(self, request: Request) -> Response:
        """List machines with their cards and who holds what."""
        query = read_query(request, NodesQuery)
        fields = query.pop("fields", None)
        return all_of(list_node_views(request.user, **query), NodeShape, fields)


class NodeDetail(ClusterView):
    operations = {"GET": "get_node"}

    @extend_schema(responses=NodeShape)
    def get(self, request: Request, name: str) -> Response:
        views = list_node_views(request.user, name=name)
        if not views:
            raise NotFound(kind="node", id=name)
        return Response(NodeShape(views[0]).data)


class GpuList(ClusterView):
    operations = {"GET": "list_gpus"}

    @extend_schema(parameters=[CardQuery], responses=list_of(GpuShape, "GpuList"))
    def get(self, request: Request) -> Response:
        """List cards with their slices. Those of other teams show only team, size, state and expected end."""
        query = read_query(request, CardQuery)
        fields = query.pop("fields", None)
        return all_of(load_gpu_slices(request.user, **query), GpuShape, fields)


class QueueView(ClusterView):
    operations = {"GET": "get_queue"}

    @extend_schema(parameters=[PoolQuery], responses=QueueShape)
    def get(self, request: Request) -> Response:
        """List everybody's waiting jobs in starting order, and active ones."""
        pool, cycle = read_query(request, PoolQuery).get("pool"), last_cycle()
        rows = {"waiting": list_queue_rows(request.user, pool), "active": list_active_rows(request.user, pool)}
        return Response(QueueShape({**rows, "last_cycle_at": cycle.last_ok_at if cycle else None}).data)


class Capacity(ClusterView):
    operations = {"GET": "get_capacity"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(RoomShape, "RoomList"))
    def get(self, request: Request) -> Response:
        """Show what is free in each pool, and what one's teams' limits allow of it."""
        return all_of(list_capacity(request.user, starts=True), RoomShape, **read_query(request, FieldsQuery))
