"""Machines, cards, pools and the queue as JSON. Rows of others come masked from portal.sight and stay so."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cluster.capacity import pool_total
from cluster.models import Gpu, Pool
from common.resources import show_cpu, show_gpu, show_memory
from jobs.models import Priority
from jobs.words import wait_words
from portal.api.fields import (
    Amount,
    JobStateField,
    NodeStateField,
    Reason,
    TaskStateField,
    amount,
    full_url,
)
from portal.sight import CardView, NodeView, QueueRow, Whose
from scheduler.preview import PoolRoom


class WhoseShape(serializers.Serializer):
    """full: it is of the caller's teams; else job, name, owner and all that is below them are null.

    team: null where the installation does not name other teams.
    """

    full = serializers.BooleanField()
    own = serializers.BooleanField()
    team = serializers.SerializerMethodField()
    job = serializers.SerializerMethodField()
    name = serializers.SerializerMethodField()
    owner = serializers.SerializerMethodField()
    expected_end_at = serializers.DateTimeField(allow_null=True)

    def get_team(self, row: Whose) -> str | None:
        return row.team or None

    def get_job(self, row: Whose) -> str | None:
        return row.job_id if row.full else None

    def get_name(self, row: Whose) -> str | None:
        return row.name if row.full else None

    def get_owner(self, row: Whose) -> str | None:
        return row.owner if row.full else None


class QueueRowShape(WhoseShape):
    """gpu: what one task asks; nodes: how many start together; cpu, memory: per task. reasons: of one's own teams."""

    state = JobStateField()
    pool = serializers.CharField()
    gpu = serializers.CharField()
    nodes = serializers.IntegerField(source="tasks")
    cpu = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    position = serializers.IntegerField(allow_null=True)
    of = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    reason_text = serializers.CharField(source="reason_words", allow_blank=True)
    reasons = serializers.SerializerMethodField()
    priority = serializers.SerializerMethodField()
    submitted_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)
    link = serializers.SerializerMethodField()

    @extend_schema_field(Amount)
    def get_cpu(self, row: QueueRow) -> dict[str, Any]:
        return amount(row.cpu_milli, show_cpu)

    @extend_schema_field(Amount)
    def get_memory(self, row: QueueRow) -> dict[str, Any]:
        return amount(row.memory_mib, show_memory)

    @extend_schema_field(Reason(many=True))
    def get_reasons(self, row: QueueRow) -> list[dict]:
        return [{"code": r["code"], "params": r.get("params", {}), "text": wait_words(r)} for r in row.reasons]

    def get_priority(self, row: QueueRow) -> str | None:
        return None if row.priority is None else Priority(row.priority).name.lower()

    def get_link(self, row: QueueRow) -> str | None:
        return full_url("api-job", job_id=row.job_id) if row.full else None


class QueueShape(serializers.Serializer):
    """waiting: pool by pool, in the order in which they would start. active: those that start, run or stop."""

    waiting = QueueRowShape(many=True)
    active = QueueRowShape(many=True)
    last_cycle_at = serializers.DateTimeField(allow_null=True)


class HoldingTaskShape(WhoseShape):
    state = TaskStateField()
    task = serializers.SerializerMethodField()
    role = serializers.SerializerMethodField()
    rank = serializers.IntegerField(allow_null=True)

    def get_task(self, row: Any) -> str | None:
        return row.task or None

    def get_role(self, row: Any) -> str | None:
        return row.role or None


class SliceShape(HoldingTaskShape):
    """What one task holds of a card. gpu: thousandths of the card, as quota counts."""

    memory = serializers.SerializerMethodField()
    compute_percent = serializers.IntegerField()
    gpu = serializers.SerializerMethodField()

    @extend_schema_field(Amount)
    def get_memory(self, row: Any) -> dict[str, Any]:
        return amount(row.memory_mib, show_memory)

    @extend_schema_field(Amount)
    def get_gpu(self, row: Any) -> dict[str, Any]:
        return amount(row.milli, show_gpu)


class GpuShape(serializers.Serializer):
    """A card. sellable: 100 % of it for tasks. enforcement: what holds a slice's memory limit, found by probing."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    node = serializers.CharField()
    pool = serializers.CharField()
    model = serializers.CharField()
    product = serializers.CharField(allow_blank=True)
    simulated = serializers.BooleanField()
    healthy = serializers.BooleanField()
    shared = serializers.BooleanField()
    max_slices = serializers.IntegerField()
    numa = serializers.IntegerField(allow_null=True)
    memory = serializers.SerializerMethodField()
    sellable = serializers.SerializerMethodField()
    free = serializers.SerializerMethodField()
    free_percent = serializers.IntegerField()
    enforcement = serializers.CharField()
    evidence = serializers.CharField(allow_blank=True)
    probed_at = serializers.DateTimeField(allow_null=True)
    slices = SliceShape(many=True)

    @extend_schema_field(Amount)
    def get_memory(self, card: CardView) -> dict[str, Any]:
        return amount(card.memory_mib, show_memory)

    @extend_schema_field(Amount)
    def get_sellable(self, card: CardView) -> dict[str, Any]:
        return amount(card.sellable_mib, show_memory)

    @extend_schema_field(Amount)
    def get_free(self, card: CardView) -> dict[str, Any]:
        return amount(card.free_mib, show_memory)


class NodeTaskShape(HoldingTaskShape):
    """A task on a node and what it holds there."""

    cpu = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    gpu = serializers.SerializerMethodField()

    @extend_schema_field(Amount)
    def get_cpu(self, row: Any) -> dict[str, Any]:
        return amount(row.cpu_milli, show_cpu)

    @extend_schema_field(Amount)
    def get_memory(self, row: Any) -> dict[str, Any]:
        return amount(row.memory_mib, show_memory)

    @extend_schema_field(Amount)
    def get_gpu(self, row: Any) -> dict[str, Any]:
        return amount(row.gpu_milli, show_gpu)


class NodeShape(serializers.Serializer):
    """A machine. cpu: what it sells, overcommit included. numa, topology, facts: as its inventory found them."""

    name = serializers.CharField(source="node.name")
    pool = serializers.CharField(source="node.pool.name")
    state = NodeStateField(source="node.state")
    address = serializers.CharField(source="node.address", allow_blank=True)
    cpu = serializers.SerializerMethodField()
    cpu_held = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    memory_held = serializers.SerializerMethodField()
    numa = serializers.JSONField(source="node.numa")
    topology = serializers.JSONField(source="node.topology")
    facts = serializers.JSONField(source="node.facts")
    last_seen_at = serializers.DateTimeField(source="node.last_seen_at")
    gpus = GpuShape(many=True, source="cards")
    tasks = NodeTaskShape(many=True)

    @extend_schema_field(Amount)
    def get_cpu(self, view: NodeView) -> dict[str, Any]:
        return amount(view.node.cpu_sellable_milli, show_cpu)

    @extend_schema_field(Amount)
    def get_cpu_held(self, view: NodeView) -> dict[str, Any]:
        return amount(view.cpu_held_milli, show_cpu)

    @extend_schema_field(Amount)
    def get_memory(self, view: NodeView) -> dict[str, Any]:
        return amount(view.node.memory_mib, show_memory)

    @extend_schema_field(Amount)
    def get_memory_held(self, view: NodeView) -> dict[str, Any]:
        return amount(view.memory_held_mib, show_memory)


class PoolShape(serializers.Serializer):
    """A pool and its policy. models: of its cards; simulated: whether any of them is."""

    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    shared = serializers.BooleanField()
    max_slices_per_gpu = serializers.IntegerField(source="slices_per_gpu")
    cpu_overcommit_percent = serializers.IntegerField()
    accepts_watched_only = serializers.BooleanField()
    default_max_time_s = serializers.IntegerField(allow_null=True)
    gpus = serializers.SerializerMethodField()
    cpu = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    models = serializers.SerializerMethodField()
    simulated = serializers.SerializerMethodField()

    def get_gpus(self, pool: Pool) -> int:
        return pool_total(pool)[0] // 1000

    @extend_schema_field(Amount)
    def get_cpu(self, pool: Pool) -> dict[str, Any]:
        return amount(pool_total(pool)[1], show_cpu)

    @extend_schema_field(Amount)
    def get_memory(self, pool: Pool) -> dict[str, Any]:
        return amount(pool_total(pool)[2], show_memory)

    def get_models(self, pool: Pool) -> list[str]:
        return sorted(set(Gpu.objects.present().filter(pool=pool).values_list("model", flat=True)))

    def get_simulated(self, pool: Pool) -> bool:
        return Gpu.objects.present().filter(pool=pool, simulated=True).exists()


class RoomShape(serializers.Serializer):
    """What is free in a pool now. cards_free: whole ones. free, total: thousandths of cards, slices counted.

    may: what the limits of one's teams still allow there, value null = no limit. largest_slice: on one card.
    """

    pool = serializers.CharField()
    shared = serializers.BooleanField()
    models = serializers.ListField(child=serializers.CharField())
    simulated = serializers.BooleanField()
    cards_free = serializers.IntegerField()
    cards_total = serializers.IntegerField()
    free = serializers.SerializerMethodField()
    total = serializers.SerializerMethodField()
    largest_slice = serializers.SerializerMethodField()
    may = serializers.SerializerMethodField()
    waiting = serializers.IntegerField()

    @extend_schema_field(Amount)
    def get_free(self, room: PoolRoom) -> dict[str, Any]:
        return amount(room.free_milli, show_gpu)

    @extend_schema_field(Amount)
    def get_total(self, room: PoolRoom) -> dict[str, Any]:
        return amount(room.total_milli, show_gpu)

    @extend_schema_field(Amount)
    def get_largest_slice(self, room: PoolRoom) -> dict[str, Any]:
        return amount(room.largest_slice_mib, show_memory)

    @extend_schema_field(Amount)
    def get_may(self, room: PoolRoom) -> dict[str, Any]:
        return amount(room.may_milli, show_gpu)
