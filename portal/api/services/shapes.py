"""Services, their revisions and keys as JSON, and requests about them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.jobfile.load import MAX_BYTES
from portal.api.http.fields import Links, full_url, one_of
from portal.services.view_model import ReplicaView, ServiceView
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


class ServiceShape(serializers.Serializer):
    """A named program that answers requests, with as many replicas as they need.

    state: asleep without replicas; waking until one is ready; updating while a new revision is rolled out; failing once
    its replicas ended by themselves too often. revision: the one that answers. rollout: the one that takes its place
    once it is ready, or null. in_flight: requests of now, held ones too; null if no gateway says. wait: what a waking
    or updating one waits for.
    """

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    team = serializers.CharField(source="team.name")
    owner = serializers.CharField(source="user.username")
    state = serializers.SerializerMethodField()
    wait = serializers.SerializerMethodField()
    revision = serializers.IntegerField(source="current.number")
    rollout = serializers.IntegerField(source="rollout.number", allow_null=True, default=None)
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


class RevisionShape(serializers.Serializer):
    """A version of a service's file. failed: its replicas ended by themselves too often."""

    number = serializers.IntegerField()
    job_file = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    failed = serializers.SerializerMethodField()

    def get_failed(self, row: Revision) -> bool:
        return row.failed_at is not None


class ServiceFileAsk(serializers.Serializer):
    """job_file: as YAML, with kind: service."""

    job_file = serializers.CharField(max_length=MAX_BYTES, trim_whitespace=False)


class RollbackAsk(serializers.Serializer):
    """revision: which one answers again; null or left out = the one before the newest."""

    revision = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=2**31 - 1)


class CallCountShape(serializers.Serializer):
    """Requests of one day (UTC) by one key. key: its id, which it keeps after its end; null = by API tokens.

    failed: those of them that were answered with 400 or more.
    """

    day = serializers.DateField()
    key = serializers.SerializerMethodField()
    name = serializers.CharField()
    requests = serializers.IntegerField()
    failed = serializers.IntegerField(source="errors")

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_key(self, row: CallCount) -> int | None:
        return row.key or None


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
