"""Nodes, cards, pools and queue as JSON. Masked rows of portal.access.redacted_rows stay masked."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cluster.capacity import pool_total
from cluster.models import Arrangement, Gpu, HighPriority, Pool
from common.resources import show_cpu, show_gpu, show_memory
from portal.access.redacted_rows import QueueRow, RedactedRow
from portal.api.http.fields import (
    Amount,
    AmountField,
    JobStateField,
    NodeStateField,
    PlaceField,
    Reason,
    TaskStateField,
    amount,
    full_url,
    priority_word,
    show_reasons,
)


class WhoseShape(serializers.Serializer):
    """full: of the caller's teams; else job, name and all below them are null.

    team, owner: null if the installation does not name them outside of a team (TESSERA_VISIBILITY).
    """

    full = serializers.BooleanField()
    own = serializers.BooleanField()
    team = serializers.SerializerMethodField()
    job = serializers.SerializerMethodField()
    name = serializers.SerializerMethodField()
    owner = serializers.SerializerMethodField()
    expected_end_at = serializers.DateTimeField(allow_null=True)

    def get_team(self, row: RedactedRow) -> str | None:
        return row.team or None

    def get_job(self, row: RedactedRow) -> str | None:
        return row.job_id if row.full else None

    def get_name(self, row: RedactedRow) -> str | None:
        return row.name if row.full else None

    def get_owner(self, row: RedactedRow) -> str | None:
        return row.owner or None


class AskShape(serializers.Serializer):
    """A role's request, for each of `nodes` tasks."""

    gpu = serializers.CharField()
    nodes = serializers.IntegerField()


class QueueRowShape(WhoseShape):
    """gpu, cpu, memory: per task, of the first role with cards; nodes: started together. asks: by role. reasons: of
    one's teams. position: of `of` in `pool`, where it is to start first; pools: all where it waits.
    """

    state = JobStateField()
    pool = serializers.CharField()
    pools = serializers.ListField(child=serializers.CharField())
    gpu = serializers.CharField()
    nodes = serializers.IntegerField(source="tasks")
    asks = serializers.SerializerMethodField()
    cpu = AmountField(show_cpu, source="cpu_milli")
    memory = AmountField(show_memory, source="memory_mib")
    position = serializers.IntegerField(allow_null=True)
    of = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    reason_text = serializers.CharField(allow_blank=True)
    reasons = serializers.SerializerMethodField()
    priority = serializers.SerializerMethodField()
    submitted_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)
    link = serializers.SerializerMethodField()

    @extend_schema_field(Reason(many=True))
    def get_reasons(self, row: QueueRow) -> list[dict]:
        return show_reasons(row.reasons)

    @extend_schema_field(AskShape(many=True))
    def get_asks(self, row: QueueRow) -> list[dict]:
        return [{"gpu": gpu, "nodes": tasks} for gpu, tasks in row.asks]

    def get_priority(self, row: QueueRow) -> str | None:
        return None if row.priority is None else priority_word(row.priority)

    def get_link(self, row: QueueRow) -> str | None:
        return full_url("api-job", job_id=row.job_id) if row.full else None


class QueueShape(serializers.Serializer):
    """waiting: by pool, in starting order. active: starting, running or stopping."""

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
    """A task's share of a card. gpu: thousandths of the card, as quota counts. activity: percent of its share that it
    uses now; null if that is not known, or not one's teams'.
    """

    memory = AmountField(show_memory, source="memory_mib")
    compute_percent = serializers.IntegerField()
    gpu = AmountField(show_gpu, source="milli")
    activity = serializers.FloatField(allow_null=True)


class GpuUseShape(serializers.Serializer):
    """What a card does, whoever uses it. source: measured, estimated or simulated. null is not known, and never 0."""

    at = serializers.DateTimeField()
    source = serializers.CharField()  # type: ignore[assignment]
    busy_percent = serializers.FloatField(allow_null=True)
    used = AmountField(show_memory, source="used_mib")
    temperature_c = serializers.IntegerField(allow_null=True)
    power_w = serializers.IntegerField(allow_null=True)


class GpuShape(serializers.Serializer):
    """A card. sellable: memory for tasks. enforcement: what holds slices to their limit, found by probing.

    fault: why it is out of service; empty while healthy. use: as of the newest sample; null if it is older than two
    minutes, or there is none.
    """

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    place = PlaceField()
    node = serializers.CharField()
    pool = serializers.CharField()
    model = serializers.CharField()
    product = serializers.CharField(allow_blank=True)
    simulated = serializers.BooleanField()
    healthy = serializers.BooleanField()
    fault = serializers.CharField(allow_blank=True)
    shared = serializers.BooleanField()
    max_slices = serializers.IntegerField()
    numa = serializers.IntegerField(allow_null=True)
    memory = AmountField(show_memory, source="memory_mib")
    sellable = AmountField(show_memory, source="sellable_mib")
    free = AmountField(show_memory, source="free_mib")
    free_percent = serializers.IntegerField()
    enforcement = serializers.CharField()
    evidence = serializers.CharField(allow_blank=True)
    probed_at = serializers.DateTimeField(allow_null=True)
    use = GpuUseShape(allow_null=True)
    slices = SliceShape(many=True)


class DiskUseShape(serializers.Serializer):
    """The disk that a path lies on. size: without what is reserved for root. null is not known."""

    path = serializers.CharField()
    used = AmountField(show_memory, source="used_mib")
    size = AmountField(show_memory, source="all_mib")
    inodes = serializers.IntegerField(allow_null=True)
    all_inodes = serializers.IntegerField(allow_null=True)
    read_only = serializers.BooleanField(allow_null=True)  # type: ignore[assignment]


class NodeUseShape(serializers.Serializer):
    """What a machine itself uses, with all that runs there. null is not known, and never 0.

    cpu: busy cores, the mean of the last seconds. load: of the last minute. memory: without what the kernel can drop.
    agent_*: of the agent.
    """

    at = serializers.DateTimeField()
    cpu = AmountField(show_cpu, source="cpu_milli")
    cores = serializers.IntegerField(allow_null=True)
    load = serializers.FloatField(allow_null=True)
    memory = AmountField(show_memory, source="memory_mib")
    memory_all = AmountField(show_memory, source="memory_all_mib")
    swap = AmountField(show_memory, source="swap_mib")
    swap_all = AmountField(show_memory, source="swap_all_mib")
    net_rx_kib_s = serializers.IntegerField(allow_null=True)
    net_tx_kib_s = serializers.IntegerField(allow_null=True)
    agent_cpu = AmountField(show_cpu, source="agent_cpu_milli")
    agent_memory = AmountField(show_memory, source="agent_mib")
    disks = DiskUseShape(many=True)


class NodeTaskShape(HoldingTaskShape):
    """A task and what it holds on the node."""

    cpu = AmountField(show_cpu, source="cpu_milli")
    memory = AmountField(show_memory, source="memory_mib")
    gpu = AmountField(show_gpu, source="gpu_milli")


class PlannedShape(serializers.Serializer):
    """Planned maintenance. stops: preemptible jobs are requeued when it begins."""

    id = serializers.IntegerField(source="pk")
    why = serializers.CharField(allow_blank=True)
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    stops = serializers.BooleanField()


class NodeShape(serializers.Serializer):
    """A machine. cpu: overcommit included. numa, topology, facts: from its inventory. switch: the network switch
    that it is connected to, "" if nobody says.

    maintenance: current and planned; nothing starts here that would still run when it begins. use: as of the newest
    sample; null if it is older than two minutes, or there is none.
    """

    name = serializers.CharField(source="node.name")
    pool = serializers.CharField(source="node.pool.name")
    state = NodeStateField(source="node.state")
    address = serializers.CharField(source="node.address", allow_blank=True)
    cpu = AmountField(show_cpu, source="node.cpu_sellable_milli")
    cpu_held = AmountField(show_cpu, source="cpu_held_milli")
    memory = AmountField(show_memory, source="node.memory_mib")
    memory_held = AmountField(show_memory, source="memory_held_mib")
    switch = serializers.CharField(source="node.known_switch", allow_blank=True)
    numa = serializers.JSONField(source="node.numa")
    topology = serializers.JSONField(source="node.topology")
    facts = serializers.JSONField(source="node.facts")
    last_seen_at = serializers.DateTimeField(source="node.last_seen_at")
    maintenance = PlannedShape(many=True)
    use = NodeUseShape(allow_null=True)
    gpus = GpuShape(many=True, source="cards")
    tasks = NodeTaskShape(many=True)


@dataclass(frozen=True)
class PoolView:
    """A pool, with its capacity loaded once."""

    pool: Pool

    @cached_property
    def total(self) -> tuple[int, int, int]:
        return pool_total(self.pool)

    @cached_property
    def cards(self) -> list[Gpu]:
        return list(Gpu.objects.present().filter(pool=self.pool).only("model", "simulated"))


class PoolShape(serializers.Serializer):
    """A pool and its policy. models: of its cards; simulated: any of them. allows_mps: slices may share compute by
    NVIDIA's MPS where possible; else they take turns.

    max_grace_s: longest checkpoint before a stop. ageing_s: waiting that raises a job by one class. reservations: so
    many first jobs keep a place in time. batch_is_preemptible: whether jobs are whose file has no `preemptible`.
    high_priority: what it costs; high_gpu_hours: each team's weekly budget, where that is the price. longest_s: where
    short jobs go first, longer ones and those without `time` count as this. stop_longer: a job stops preemptible ones
    of its class more than so many times as long; null: none. most_stops: stops until a job is exempt. weight_*: 0 to
    1000, to choose among machines.
    """

    name = serializers.CharField(source="pool.name")
    description = serializers.CharField(source="pool.description", allow_blank=True)
    shared = serializers.BooleanField(source="pool.shared")
    max_slices_per_gpu = serializers.IntegerField(source="pool.slices_per_gpu")
    cpu_overcommit_percent = serializers.IntegerField(source="pool.cpu_overcommit_percent")
    accepts_watched_only = serializers.BooleanField(source="pool.accepts_watched_only")
    allows_mps = serializers.BooleanField(source="pool.allows_mps")
    default_max_time_s = serializers.IntegerField(source="pool.default_max_time_s", allow_null=True)
    max_grace_s = serializers.IntegerField(source="pool.max_grace_s")
    ageing_s = serializers.IntegerField(source="pool.ageing_s")
    reservations = serializers.IntegerField(source="pool.reservations")
    batch_is_preemptible = serializers.BooleanField(source="pool.batch_is_preemptible")
    preempt = serializers.BooleanField(source="pool.preempt")
    high_priority = serializers.ChoiceField(HighPriority.choices, source="pool.high_priority")
    high_gpu_hours = serializers.IntegerField(source="pool.high_gpu_hours")
    short_first = serializers.BooleanField(source="pool.short_first")
    longest_s = serializers.IntegerField(source="pool.longest_s")
    stop_longer = serializers.IntegerField(source="pool.stop_longer", allow_null=True)
    most_stops = serializers.IntegerField(source="pool.most_stops")
    arrangement = serializers.ChoiceField(Arrangement.choices, source="pool.arrangement")
    weight_useful = serializers.IntegerField(source="pool.weight_useful")
    weight_data = serializers.IntegerField(source="pool.weight_data")
    weight_whole = serializers.IntegerField(source="pool.weight_whole")
    weight_full_cards = serializers.IntegerField(source="pool.weight_full_cards")
    weight_links = serializers.IntegerField(source="pool.weight_links")
    weight_full_nodes = serializers.IntegerField(source="pool.weight_full_nodes")
    gpus = serializers.SerializerMethodField()
    cpu = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    models = serializers.SerializerMethodField()
    simulated = serializers.SerializerMethodField()

    def get_gpus(self, view: PoolView) -> int:
        return len(view.cards)

    @extend_schema_field(Amount)
    def get_cpu(self, view: PoolView) -> dict[str, Any]:
        return amount(view.total[1], show_cpu)

    @extend_schema_field(Amount)
    def get_memory(self, view: PoolView) -> dict[str, Any]:
        return amount(view.total[2], show_memory)

    def get_models(self, view: PoolView) -> list[str]:
        return sorted({card.model for card in view.cards})

    def get_simulated(self, view: PoolView) -> bool:
        return any(card.simulated for card in view.cards)


class ClosedShape(serializers.Serializer):
    """Machines of the pool that take nothing then."""

    nodes = serializers.ListField(child=serializers.CharField())
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class RoomShape(serializers.Serializer):
    """What is free in a pool, of machines that take part. cards_free: whole ones. free, total: thousandths of cards.

    may: what one's own limits and one's teams' still allow, value null = no limit. largest_slice: on one card. starts:
    what of it would start now, if one asked for it: as so many whole cards, or as one slice.
    """

    pool = serializers.CharField()
    shared = serializers.BooleanField()
    models = serializers.ListField(child=serializers.CharField())
    simulated = serializers.BooleanField()
    cards_free = serializers.IntegerField()
    cards_total = serializers.IntegerField()
    free = AmountField(show_gpu, source="free_milli")
    total = AmountField(show_gpu, source="total_milli")
    largest_slice = AmountField(show_memory, source="largest_slice_mib")
    may = AmountField(show_gpu, source="may_milli")
    starts = AmountField(show_gpu, source="starts_milli")
    waiting = serializers.IntegerField()
    maintenance = ClosedShape(many=True)
