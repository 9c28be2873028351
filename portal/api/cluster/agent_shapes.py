"""Agents and their reports as JSON."""

import base64
import binascii

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cluster.agents import Judged
from cluster.report_approval import HeldBack
from common.resources import show_memory
from jobs.log_ingest import DONE, ENDED, OPEN, UNKNOWN, StoredLog
from jobs.models import BroughtLog
from portal.api.http.fields import AmountField, PlaceField, one_of
from portal.wording.agents import STATES, describe_held_back, faults_of, state_of
from runtimes.contract.node import BALLOONS, HCA_DISTANCES, STATIC
from runtimes.gpu_sharing import HAMI, NVFRACTION, PLUGIN, SLICE, TOOLKIT, WATCHDOG

MOST_GPUS, MOST_HCAS = 64, 64
MOST_CPUS = 4096
MOST_MOMENTS = 16384
MIB = {"min_value": 0, "max_value": 2**31 - 1}
SMALL = {"min_value": 0, "max_value": 2**15 - 1}


def _matrix() -> serializers.ListField:
    row = serializers.ListField(child=serializers.CharField(max_length=8), max_length=MOST_GPUS)
    return serializers.ListField(child=row, max_length=MOST_GPUS, default=list)


def _pair() -> serializers.ListField:
    number = serializers.IntegerField(min_value=0, max_value=2**53 - 1)
    return serializers.ListField(child=number, min_length=2, max_length=2)


class ReportedNuma(serializers.Serializer):
    """A NUMA node. cpus: the usable ones."""

    id = serializers.IntegerField(**SMALL)
    cpus = serializers.ListField(child=serializers.IntegerField(**SMALL), max_length=MOST_CPUS)
    memory_mib = serializers.IntegerField(**MIB)
    socket = serializers.IntegerField(**SMALL, allow_null=True, default=None)


class ReportedHost(serializers.Serializer):
    boot_id = serializers.CharField(max_length=64, allow_blank=True, default="")
    kernel = serializers.CharField(max_length=100, allow_blank=True, default="")
    cpu_milli = serializers.IntegerField(**MIB)
    memory_mib = serializers.IntegerField(**MIB)
    numa = serializers.ListField(child=ReportedNuma(), max_length=256, default=list)
    cpu_pinning = serializers.ChoiceField(["", BALLOONS, STATIC], default="")


class ReportedEnforcement(serializers.Serializer):
    """mode: what holds slices to their memory, found by probing; evidence: one sentence on how."""

    mode = serializers.ChoiceField([WATCHDOG, SLICE, HAMI, NVFRACTION])
    evidence = serializers.CharField(max_length=300)


class ReportedGpu(serializers.Serializer):
    """A card. index: the driver's, from 1000 on for instances. bus: as in /sys. mig: partitioned by MIG. fault: why
    nothing should run on it. part_of: uuid of the instance's card.
    """

    uuid = serializers.RegexField(r"^(GPU|MIG)-[0-9A-Za-z-]{1,60}\Z", max_length=64)
    index = serializers.IntegerField(**SMALL)
    model = serializers.CharField(max_length=64)
    product = serializers.CharField(max_length=100)
    memory_mib = serializers.IntegerField(**MIB)
    reserved_mib = serializers.IntegerField(**MIB)
    numa = serializers.IntegerField(**SMALL, allow_null=True, default=None)
    bus = serializers.CharField(max_length=32, allow_blank=True, default="")
    mig = serializers.BooleanField(default=False)
    fault = serializers.CharField(max_length=300, allow_blank=True, default="")
    part_of = serializers.CharField(max_length=64, allow_blank=True, default="")


class ReportedHca(serializers.Serializer):
    """An RDMA adapter. link: InfiniBand or Ethernet. active: a port of it has a link. devices: in
    /dev/infiniband. near: for each of gpus, PIX, PXB, PHB, NODE or SYS.
    """

    name = serializers.RegexField(r"^[A-Za-z0-9_.:-]{1,63}\Z", max_length=63)
    bus = serializers.CharField(max_length=32, allow_blank=True, default="")
    numa = serializers.IntegerField(**SMALL, allow_null=True, default=None)
    link = serializers.CharField(max_length=32, allow_blank=True, default="")
    rate_gbps = serializers.IntegerField(min_value=0, max_value=2**15 - 1, default=0)
    active = serializers.BooleanField(default=False)
    devices = serializers.ListField(child=serializers.CharField(max_length=32), max_length=8, default=list)
    near = serializers.ListField(child=serializers.ChoiceField(HCA_DISTANCES), max_length=MOST_GPUS)


class LostGpu(serializers.Serializer):
    """A slot whose card the driver cannot identify."""

    index = serializers.IntegerField(**SMALL)
    why = serializers.CharField(max_length=300)


class GpuSample(serializers.Serializer):
    """Current readings of a card; null where the driver has none."""

    uuid = serializers.CharField(max_length=64)
    used_mib = serializers.IntegerField(**MIB, allow_null=True, default=None)
    busy_percent = serializers.IntegerField(min_value=0, max_value=100, allow_null=True, default=None)
    temperature_c = serializers.IntegerField(min_value=-273, max_value=2**15 - 1, allow_null=True, default=None)
    power_w = serializers.IntegerField(**SMALL, allow_null=True, default=None)


class ReportAsk(serializers.Serializer):
    """A machine's report. driver: NVIDIA's, or empty. links, pcie: square matrices over gpus as of `nvidia-smi topo
    -m`, or empty. hcas: RDMA adapters. enforcement: null if not probed. gpu_pin: whether the agent's device plugin or
    NVIDIA's toolkit gives containers cards. metrics_port: where the agent tells Prometheus of its cards, 0 nowhere but
    to itself.
    """

    agent = serializers.CharField(max_length=32)
    host = ReportedHost()
    driver = serializers.CharField(max_length=32, allow_blank=True, default="")
    simulated = serializers.BooleanField(default=False)
    gpus = serializers.ListField(child=ReportedGpu(), max_length=MOST_GPUS)
    links = _matrix()
    pcie = _matrix()
    hcas = serializers.ListField(child=ReportedHca(), max_length=MOST_HCAS, default=list)
    lost = serializers.ListField(child=LostGpu(), max_length=MOST_GPUS, default=list)
    samples = serializers.ListField(child=GpuSample(), max_length=MOST_GPUS, default=list)
    enforcement = ReportedEnforcement(allow_null=True, default=None)
    gpu_pin = serializers.ChoiceField(["", PLUGIN, TOOLKIT], default="")
    metrics_port = serializers.IntegerField(min_value=0, max_value=65535, default=0)


class HeldBackShape(serializers.Serializer):
    """A card whose report counts only in part, and why."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    code = serializers.CharField()
    params = serializers.DictField()
    text = serializers.SerializerMethodField()

    def get_text(self, held: HeldBack) -> str:
        return describe_held_back(held)


class ReportAnswer(serializers.Serializer):
    """held_back: what does not count as reported. next_in_s: until the next report."""

    held_back = HeldBackShape(many=True)
    next_in_s = serializers.IntegerField()


@extend_schema_field(OpenApiTypes.BYTE)
class Base64Field(serializers.Field):
    """Bytes. Not a CharField, which checks every one of a million characters."""

    def to_internal_value(self, data: object) -> bytes:
        try:
            return base64.b64decode(data, validate=True)  # type: ignore[arg-type]
        except (binascii.Error, TypeError, ValueError):
            raise serializers.ValidationError(_("This is not base64."), code="bad_base64") from None

    def to_representation(self, value: bytes) -> str:
        """Encode the default for the API's description."""
        return base64.b64encode(value).decode()


class LogPiece(serializers.Serializer):
    """A piece of a task's log. offset: of `content`, in bytes. behind_s: age of the oldest line not sent. end: set
    once nothing follows, whole or cut. moments: pairs of an offset and the Unix second in which the bytes from there on
    were written, 0 where that is not known.
    """

    task = serializers.RegexField(r"^[0-9a-f]{32}\Z", max_length=32)
    offset = serializers.IntegerField(min_value=0, max_value=2**53 - 1, default=0)
    content = Base64Field(default=b"")
    behind_s = serializers.FloatField(min_value=0, max_value=10**9, default=0)
    end = serializers.ChoiceField(choices=BroughtLog.End.choices, allow_blank=True, default="")
    moments = serializers.ListField(child=_pair(), max_length=MOST_MOMENTS, default=list)


class LogsAsk(serializers.Serializer):
    """logs: also those without news, to learn whether their task has ended."""

    logs = serializers.ListField(child=LogPiece(), max_length=512)


class LogKnown(serializers.Serializer):
    """A log's state: unknown (no task of this machine), open, ended (send the rest) or done. size: bytes stored; go on
    there.
    """

    task = serializers.CharField()
    state = serializers.SerializerMethodField()
    size = serializers.IntegerField()

    @extend_schema_field(one_of((UNKNOWN, OPEN, ENDED, DONE)))
    def get_state(self, known: StoredLog) -> str:
        return known.state


class LogsAnswer(serializers.Serializer):
    """most_bytes: kept of one log, without the middle. pause_s: before sending more. ask_every_s: for logs without
    news. moments: they may be sent.
    """

    logs = LogKnown(many=True)
    most_bytes = serializers.IntegerField()
    pause_s = serializers.FloatField()
    ask_every_s = serializers.FloatField()
    moments = serializers.BooleanField()


class ToldUse(serializers.Serializer):
    """A task's slice of one card. used_mib: the larger of the driver's figure and the library's. over: why the task
    must end, with figures.
    """

    uuid = serializers.CharField(max_length=64)
    limit_mib = serializers.IntegerField(**MIB)
    used_mib = serializers.IntegerField(**MIB)
    peak_mib = serializers.IntegerField(**MIB)
    refused = serializers.IntegerField(min_value=0, max_value=2**53 - 1)
    watched = serializers.BooleanField(default=True)
    over = serializers.CharField(max_length=300, allow_blank=True, default="")


class ToldSlice(serializers.Serializer):
    task = serializers.RegexField(r"^[0-9a-f]{32}\Z", max_length=32)
    cards = serializers.ListField(child=ToldUse(), max_length=16)


class SlicesAsk(serializers.Serializer):
    """slices: of tasks whose use has changed."""

    slices = serializers.ListField(child=ToldSlice(), max_length=512)


class SlicesAnswer(serializers.Serializer):
    """taken: tasks that hold something on this machine."""

    taken = serializers.IntegerField()


class SamplesAsk(serializers.Serializer):
    """run: changes when the sampler begins anew, and its totals with it. ticks: oldest first, each with seq, age_ms,
    up_ms, cards, tasks and node. At most 64 KiB, also of a body that gzip packed (Content-Encoding).
    """

    run = serializers.CharField()
    first = serializers.IntegerField(required=False)
    ticks = serializers.ListField(child=serializers.DictField())


class SamplesAnswer(serializers.Serializer):
    """taken: new ticks. next: the awaited seq. every_s: between two ticks."""

    taken = serializers.IntegerField()
    next = serializers.IntegerField()
    every_s = serializers.IntegerField()


class AgentGpuShape(serializers.Serializer):
    """As reported. sample: null if none came."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    place = PlaceField()
    model = serializers.CharField()
    product = serializers.CharField()
    memory = AmountField(show_memory, source="memory_mib")
    approved = serializers.BooleanField()
    mig = serializers.BooleanField()
    fault = serializers.CharField(allow_blank=True)
    sample = GpuSample(allow_null=True)


class AgentShape(serializers.Serializer):
    """A machine's agent. state: reporting, silent, new or revoked. held_back: waits for approval, or counts on another
    machine; seen: approves exactly that, empty if nothing waits.
    """

    node = serializers.CharField(source="agent.node_name")
    state = serializers.SerializerMethodField()
    enrolled_at = serializers.DateTimeField(source="agent.enrolled_at")
    reported_at = serializers.DateTimeField(source="agent.reported_at", allow_null=True)
    revoked_at = serializers.DateTimeField(source="agent.revoked_at", allow_null=True)
    version = serializers.SerializerMethodField()
    driver = serializers.SerializerMethodField()
    gpus = serializers.SerializerMethodField()
    faults = serializers.SerializerMethodField()
    held_back = HeldBackShape(many=True)
    seen = serializers.CharField(allow_blank=True)

    @extend_schema_field(one_of(STATES))
    def get_state(self, judged: Judged) -> str:
        return state_of(judged.agent)

    def get_version(self, judged: Judged) -> str:
        return judged.agent.report.get("agent", "")

    def get_driver(self, judged: Judged) -> str:
        return judged.agent.report.get("driver", "")

    @extend_schema_field(AgentGpuShape(many=True))
    def get_gpus(self, judged: Judged) -> list[dict]:
        agent = judged.agent
        samples = {sample["uuid"]: sample for sample in agent.report.get("samples", ())}
        rows = (
            {**gpu, "approved": gpu["uuid"] in agent.approved, "sample": samples.get(gpu["uuid"])}
            for gpu in agent.report.get("gpus", ())
        )
        return list(AgentGpuShape(rows, many=True).data)

    def get_faults(self, judged: Judged) -> list[str]:
        return faults_of(judged.agent)


class InviteAsk(serializers.Serializer):
    """node: the machine's name in the engine."""

    node = serializers.CharField(max_length=63)


class InvitationShape(serializers.Serializer):
    """token: shown only here; works once, until it expires. command: to run on the machine."""

    node = serializers.CharField()
    token = serializers.CharField()
    expires_at = serializers.DateTimeField()
    command = serializers.CharField()


class EnrolAsk(serializers.Serializer):
    """token: from an administrator. key: made and kept by the agent: tag_ and at least 43 random characters."""

    token = serializers.CharField(max_length=100)
    key = serializers.CharField(max_length=100)


class EnrolledShape(serializers.Serializer):
    """node: the machine of the key."""

    node = serializers.CharField(source="node_name")
    enrolled_at = serializers.DateTimeField()


class ApproveAsk(serializers.Serializer):
    """seen: of the agent as shown."""

    seen = serializers.CharField(max_length=64, allow_blank=True)
