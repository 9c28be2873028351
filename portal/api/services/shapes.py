"""Services, their revisions and keys as JSON, and requests about them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.jobfile.load import MAX_BYTES
from portal.api.http.fields import Links, full_url, one_of
from portal.services.canary_view import CanaryView
from portal.services.view_model import ReplicaView, ServiceView
from portal.services.why_words import describe_why
from services.keys import MOST_REQUESTS
from services.models import CallCount, Revision, Service
from services.states import ServiceState


class ReplicaShape(serializers.Serializer):
    """A job that answers for a service. ready: its program answered. draining: it gets no new requests.

    in_flight: requests that it has now; null if no gateway says.
    """

    job = serializers.CharField()
    revision = serializers.IntegerField()
    state = serializers.CharField()
    ready = serializers.BooleanField()
    draining = serializers.BooleanField()
    gpu = serializers.CharField()
    node = serializers.CharField(allow_null=True)
    in_flight = serializers.IntegerField(allow_null=True)


class BackIfShape(serializers.Serializer):
    error_percent = serializers.FloatField()
    p95_factor = serializers.FloatField(allow_null=True)
    p95_ms = serializers.IntegerField(allow_null=True)


class FiguresShape(serializers.Serializer):
    """Requests of a span. error_percent: those that failed. Times until the first byte; null without requests."""

    requests = serializers.IntegerField()
    per_s = serializers.FloatField()
    error_percent = serializers.FloatField(allow_null=True)
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)


class RevisionFiguresShape(FiguresShape):
    revision = serializers.IntegerField()


class CanaryShape(serializers.Serializer):
    """A revision that is tried on a share of the requests. Shares in percent.

    since: when it was ready; until: when it takes over; null = not ready yet. so_far, good: what it and the current
    revision answered since then, within 15 minutes. back_if: it goes back once more than `error_percent` of its
    requests fail or its p95 is above `p95_ms`, which is `p95_factor` times that of the current revision; null = not
    asked for, or not known yet.
    """

    revision = serializers.IntegerField()
    share = serializers.IntegerField(source="wish.share")
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    so_far = FiguresShape(allow_null=True)
    good = FiguresShape(allow_null=True)
    back_if = serializers.SerializerMethodField()

    @extend_schema_field(BackIfShape)
    def get_back_if(self, view: CanaryView) -> dict[str, Any]:
        rule = view.wish.back_if
        return {"error_percent": rule.errors, "p95_factor": rule.p95, "p95_ms": view.p95_limit_ms}


class ServiceShape(serializers.Serializer):
    """A named program that answers requests, with as many replicas as they need.

    state: asleep without replicas; waking until one is ready; updating while a new revision is rolled out; failing once
    its replicas ended by themselves too often. revision: the one that answers. rollout: the one that takes its place
    once it is ready, or null. in_flight: requests of now, held ones too; null if no gateway says. wait: what a waking
    or updating one waits for. scale: how many replicas there may be, such as 0..4. canary: the rollout, while it is
    tried.
    """

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    team = serializers.CharField(source="team.name")
    owner = serializers.CharField(source="user.username")
    state = serializers.SerializerMethodField()
    wait = serializers.SerializerMethodField()
    revision = serializers.IntegerField(source="current.number")
    rollout = serializers.IntegerField(source="rollout.number", allow_null=True, default=None)
    canary = serializers.SerializerMethodField()
    scale = serializers.SerializerMethodField()
    job_file = serializers.CharField(source="newest.job_file")
    in_flight = serializers.SerializerMethodField()
    replicas = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    links = serializers.SerializerMethodField()

    @extend_schema_field(one_of(ServiceState.values))
    def get_state(self, row: Service) -> str:
        return _view(row).state

    def get_wait(self, row: Service) -> str:
        return _view(row).wait_words

    @extend_schema_field(CanaryShape(allow_null=True))
    def get_canary(self, row: Service) -> dict[str, Any] | None:
        canary = _view(row).canary
        return None if canary is None else dict(CanaryShape(canary).data)

    def get_scale(self, row: Service) -> str:
        return _view(row).scale

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_in_flight(self, row: Service) -> int | None:
        return _view(row).in_flight

    @extend_schema_field(ReplicaShape(many=True))
    def get_replicas(self, row: Service) -> list[dict[str, Any]]:
        return [_show_replica(one) for one in _view(row).replicas]

    @extend_schema_field(Links)
    def get_links(self, row: Service) -> dict[str, str]:
        own = full_url("api-service", service_id=row.public_id)
        return {"self": own, "html": full_url("service", service_id=row.public_id), "call": _view(row).address}


class StartPartsShape(serializers.Serializer):
    """How long a replica took until its program answered, in seconds; the parts follow each other.

    queue_s: until it had a machine. data_s: until its folders, code and data were there. image_s: while its image was
    fetched, 0 where the machine had it. program_s: until its program answered.
    """

    queue_s = serializers.FloatField()
    data_s = serializers.FloatField()
    image_s = serializers.FloatField()
    program_s = serializers.FloatField()


class ColdStartShape(StartPartsShape):
    """at: when the program answered."""

    job = serializers.CharField(source="job.public_id")
    revision = serializers.IntegerField(source="revision.number")
    at = serializers.DateTimeField()


class ColdStartsShape(serializers.Serializer):
    """The newest cold starts, newest first, and the median of each part over them, null where there was none."""

    median = StartPartsShape(allow_null=True)
    last = ColdStartShape(many=True)


class RevisionShape(serializers.Serializer):
    """A version of a service's file. failed: its replicas ended by themselves too often, or it went back as a canary.

    why: what happened last to its replicas or to it, or "".
    """

    number = serializers.IntegerField()
    job_file = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    failed = serializers.SerializerMethodField()
    why = serializers.SerializerMethodField()

    def get_why(self, row: Revision) -> str:
        return describe_why(row.why)

    def get_failed(self, row: Revision) -> bool:
        return row.failed_at is not None


class ServiceFileAsk(serializers.Serializer):
    """job_file: as YAML, with kind: service."""

    job_file = serializers.CharField(max_length=MAX_BYTES, trim_whitespace=False)


class ScaleAsk(serializers.Serializer):
    """replicas: how many, or the least and the most, such as 2 or 0..4; null = as its file says."""

    replicas = serializers.CharField(max_length=20, allow_null=True)


class RollbackAsk(serializers.Serializer):
    """revision: which one answers again.

    null or left out = the one that answers while another is rolled out, else the last before it that did not fail.
    """

    revision = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=2**31 - 1)


class CallCountShape(serializers.Serializer):
    """Requests of one day (UTC) by one key, by API tokens, or by browsers.

    by: which of the three. key: its id, which it keeps after its end; null without one. failed: those of them that were
    answered with 400 or more. A browser's request is counted once a replica answers it.
    """

    day = serializers.DateField()
    by = serializers.SerializerMethodField()
    key = serializers.SerializerMethodField()
    name = serializers.CharField()
    requests = serializers.IntegerField()
    failed = serializers.IntegerField(source="errors")

    @extend_schema_field(one_of(("key", "token", "browser")))
    def get_by(self, row: CallCount) -> str:
        return {CallCount.BY_TOKEN: "token", CallCount.BY_BROWSER: "browser"}.get(row.key, "key")

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_key(self, row: CallCount) -> int | None:
        return row.key if row.key > 0 else None


class ServiceKeyShape(serializers.Serializer):
    """A service's key without its secret. prefix: how the secret begins. expires_at: null = never by itself.

    per_minute, in_flight: how many requests it may have; null = as many as come.
    made_by: id of the API token that created it and whose end ends it, too; null if a person did.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    made_by = serializers.IntegerField(source="made_by_id", allow_null=True)
    per_minute = serializers.IntegerField(allow_null=True)
    in_flight = serializers.IntegerField(allow_null=True)


class NewServiceKeyShape(ServiceKeyShape):
    """secret: shown only in this answer."""

    secret = serializers.CharField()


class KeyLimitsAsk(serializers.Serializer):
    """per_minute, in_flight: the most requests of the key; null = as many as come. What is left out stays as it is."""

    per_minute = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=MOST_REQUESTS)
    in_flight = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=MOST_REQUESTS)


class ServiceKeyAsk(KeyLimitsAsk):
    """name: what uses it. days: until it expires; null or left out = until it is ended.

    per_minute, in_flight: the most requests of the key, at all its programs together; null or left out = as many as
    come.
    """

    name = serializers.CharField(max_length=64)
    days = serializers.IntegerField(required=False, allow_null=True)


def _view(row: Service) -> ServiceView:
    """Return the row's view, which all of its fields share."""
    view = getattr(row, "_shown", None)
    if view is None:
        view = row._shown = ServiceView(row)  # type: ignore[attr-defined]
    return view


def _show_replica(one: ReplicaView) -> dict[str, Any]:
    return dict(ReplicaShape(one).data)
