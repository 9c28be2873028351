"""API of nodes, cards, queue and free capacity, masked by portal.access.redacted_rows."""

from collections.abc import Callable
from functools import partial

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from cluster.models import LONGEST_SWITCH
from cluster.nodes import (
    cordon_card,
    cordon_node,
    drain_node,
    find_card,
    find_node,
    set_switch,
    uncordon_card,
    uncordon_node,
)
from common.errors import NotFound
from monitoring.checks import list_changes, list_checks
from monitoring.models import CheckState
from portal.access.redacted_rows import list_active_rows, list_node_views, list_queue_rows, load_gpu_slices
from portal.api.cluster.shapes import GpuShape, NodeShape, QueueShape, RoomShape
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import one_of
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import list_capacity
from scheduler.preview.stored_forecasts import last_cycle

MOST_CHANGES = 100


@extend_schema_field(one_of(CheckState.values))
class CheckStateField(serializers.CharField):
    """Read only."""


class PoolQuery(serializers.Serializer):
    pool = serializers.CharField(max_length=64, required=False)


class NodesQuery(PoolQuery, FieldsQuery):
    """Adds `pool` and `fields`."""


class CardQuery(NodesQuery):
    node = serializers.CharField(max_length=64, required=False)


class ServiceAsk(serializers.Serializer):
    """why: kept in the machine's history, for everyone to read."""

    why = serializers.CharField(max_length=200, allow_blank=True, required=False)


class SwitchAsk(serializers.Serializer):
    """switch: its name, as of all machines on it; "" to go by what the cluster says."""

    switch = serializers.CharField(max_length=LONGEST_SWITCH, allow_blank=True)


class CardAsk(serializers.Serializer):
    """why: on the card's page and in its machine's history, for everyone to read."""

    why = serializers.CharField(max_length=200)


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


class NodeCheckShape(serializers.Serializer):
    """A check of a machine, or of one of its cards. state: ok, warn, fail, or unknown if it could not be made. since:
    when it began to say so. count: of what it counts. words: in English, as logs are.
    """

    name = serializers.CharField()
    card = serializers.CharField(allow_blank=True)
    state = CheckStateField()
    words = serializers.CharField(allow_blank=True)
    count = serializers.IntegerField()
    since = serializers.DateTimeField()


class NodeCheckChangeShape(serializers.Serializer):
    """A check that began to say something else."""

    name = serializers.CharField()
    card = serializers.CharField(allow_blank=True)
    state = CheckStateField()
    words = serializers.CharField(allow_blank=True)
    count = serializers.IntegerField()
    at = serializers.DateTimeField()


class NodeChecks(ClusterView):
    operations = {"GET": "list_node_checks"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(NodeCheckShape, "NodeCheckList"))
    def get(self, request: Request, name: str) -> Response:
        """List what the machine's agent checked, failing first; empty where nothing was heard lately."""
        return all_of(list_checks(find_node(name)), NodeCheckShape, **read_query(request, FieldsQuery))


class NodeCheckHistory(ClusterView):
    operations = {"GET": "list_node_check_changes"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(NodeCheckChangeShape, "NodeCheckChangeList"))
    def get(self, request: Request, name: str) -> Response:
        """List the newest 100 changes of the machine's checks."""
        changes = list_changes(find_node(name), MOST_CHANGES)
        return all_of(changes, NodeCheckChangeShape, **read_query(request, FieldsQuery))


class NodeCordon(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "cordon_node"}

    @extend_schema(request={JSON: ServiceAsk}, responses=NodeShape)
    def post(self, request: Request, name: str) -> Response:
        """Start nothing new on the machine until it is uncordoned. What runs goes on. For admins."""
        return _change_service(request, name, partial(cordon_node, **read_json(request, ServiceAsk)))


class NodeDrain(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "drain_node"}

    @extend_schema(request={JSON: ServiceAsk}, responses=NodeShape)
    def post(self, request: Request, name: str) -> Response:
        """Cordon the machine, and stop and requeue its preemptible jobs; they are asked for a checkpoint first. Other
        jobs run to their end. For admins.
        """
        return _change_service(request, name, partial(drain_node, **read_json(request, ServiceAsk)))


class NodeUncordon(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "uncordon_node"}

    @extend_schema(request=None, responses=NodeShape)
    def post(self, request: Request, name: str) -> Response:
        """Take a cordoned or draining machine back into service. For admins."""
        return _change_service(request, name, uncordon_node)


class NodeSwitch(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "set_node_switch"}

    @extend_schema(request={JSON: SwitchAsk}, responses=NodeShape)
    def post(self, request: Request, name: str) -> Response:
        """Say to which network switch the machine is connected, for jobs with `place`. For admins."""
        require(request.user, "node.change")
        return _change_service(request, name, partial(set_switch, **read_json(request, SwitchAsk)))


def _change_service(request: Request, name: str, act: Callable[..., None]) -> Response:
    require(request.user, "node.change")
    act(actor=request.user.as_actor, node=find_node(name))
    (view,) = list_node_views(request.user, name=name)
    return Response(NodeShape(view).data)


class GpuList(ClusterView):
    operations = {"GET": "list_gpus"}

    @extend_schema(parameters=[CardQuery], responses=list_of(GpuShape, "GpuList"))
    def get(self, request: Request) -> Response:
        """List cards with their slices. Those of other teams show only whose, size, state and expected end."""
        query = read_query(request, CardQuery)
        fields = query.pop("fields", None)
        return all_of(load_gpu_slices(request.user, **query), GpuShape, fields)


class GpuCordon(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "cordon_gpu"}

    @extend_schema(request={JSON: CardAsk}, responses=GpuShape)
    def post(self, request: Request, uuid: str) -> Response:
        """Start nothing new on one card until it is uncordoned. What runs goes on. For admins."""
        require(request.user, "node.change")  # before the body is judged
        return _change_service_of_card(request, uuid, partial(cordon_card, **read_json(request, CardAsk)))


class GpuUncordon(ApiView):
    scopes = {"POST": ("cluster:write",)}
    operations = {"POST": "uncordon_gpu"}

    @extend_schema(request=None, responses=GpuShape)
    def post(self, request: Request, uuid: str) -> Response:
        """Take a cordoned card back into service, also one that an alert rule took out of it. For admins."""
        require(request.user, "node.change")
        return _change_service_of_card(request, uuid, uncordon_card)


def _change_service_of_card(request: Request, uuid: str, act: Callable[..., None]) -> Response:
    gpu = find_card(uuid)
    act(actor=request.user.as_actor, gpu=gpu)
    cards = load_gpu_slices(request.user, node=gpu.node.name)
    return Response(GpuShape(next(card for card in cards if card.uuid == uuid)).data)


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
