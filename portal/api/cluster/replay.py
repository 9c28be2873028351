"""API of the cluster at a past moment, masked by portal.access.past_rows."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.replay.span import check_moment, find_first
from monitoring.replay.waiting import find_waits
from portal.access.past_rows import PastWait, list_past_nodes, list_past_waits
from portal.api.cluster.nodes import ClusterView
from portal.api.cluster.shapes import AskShape, GpuShape, PlannedShape, WhoseShape
from portal.api.http.fields import NodeStateField, PoolField, priority_word
from portal.api.view import read_query


class ReplayQuery(serializers.Serializer):
    """at: now if left out. pool: all if left out."""

    at = serializers.DateTimeField(required=False)
    pool = PoolField(required=False)


class PastNodeShape(serializers.Serializer):
    """A machine in the state of that moment. maintenance: that had begun."""

    name = serializers.CharField(source="node.name")
    pool = serializers.CharField(source="node.pool.name")
    state = NodeStateField(source="node.state")
    maintenance = PlannedShape(many=True)


class PastWaitShape(WhoseShape):
    """A job that waited. held: by a person. since, priority: of one's teams; the priority is the job's last one."""

    pools = serializers.ListField(child=serializers.CharField())
    asks = serializers.SerializerMethodField()
    held = serializers.BooleanField()
    since = serializers.DateTimeField(allow_null=True)
    priority = serializers.SerializerMethodField()

    @extend_schema_field(AskShape(many=True))
    def get_asks(self, row: PastWait) -> list[dict]:
        return [{"gpu": gpu, "nodes": tasks} for gpu, tasks in row.asks]

    def get_priority(self, row: PastWait) -> str | None:
        return None if row.priority is None else priority_word(row.priority)


class ReplayShape(serializers.Serializer):
    """first: the earliest moment that can be asked for. gpus: as `GET /gpus` has them, with null for what is not kept:
    use, activity, expected_end_at. Sizes and pools of cards are the present ones. waiting: the longest wait first.
    """

    at = serializers.DateTimeField()
    first = serializers.DateTimeField()
    nodes = PastNodeShape(many=True)
    gpus = GpuShape(many=True)
    waiting = PastWaitShape(many=True)


class ReplayView(ClusterView):
    operations = {"GET": "get_replay"}

    @extend_schema(parameters=[ReplayQuery], responses=ReplayShape)
    def get(self, request: Request) -> Response:
        """Show who held which card, the states of machines, and who waited, at a moment of the last seven days."""
        query, now = read_query(request, ReplayQuery), timezone.now()
        first = find_first(now)
        at, pool = check_moment(query.get("at", now), first, now), query["pool"].name if "pool" in query else ""
        nodes, waits = list_past_nodes(request.user, at), list_past_waits(request.user, find_waits(at, pool))
        answer: dict[str, Any] = {
            "at": at,
            "first": first,
            "nodes": nodes,
            "gpus": [card for node in nodes for card in node.cards if pool in ("", card.pool)],
            "waiting": waits,
        }
        return Response(ReplayShape(answer).data)
