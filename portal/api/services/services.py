"""API of services, their revisions and their keys."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.http.bodies import JSON, read_json
from portal.api.http.headers import KEY, read_once
from portal.api.http.lists import FieldsQuery, PageQuery, SortField, all_of, list_of, page, read_moment, read_name
from portal.api.services.shapes import (
    CallCountShape,
    KeyLimitsAsk,
    NewServiceKeyShape,
    RevisionShape,
    RollbackAsk,
    ScaleAsk,
    ServiceFileAsk,
    ServiceKeyAsk,
    ServiceKeyShape,
    ServiceShape,
)
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers
from services.keys import create_service_key, end_service_key, limit_service_key
from services.models import Service
from services.services import (
    create_service,
    delete_service,
    find_service,
    promote_canary,
    put_to_sleep,
    revise_service,
    roll_back,
    scale_service,
    stop_service,
    wake_service,
)
from services.usage import KEPT_DAYS, list_usage

READ, WRITE = ("jobs:read",), ("jobs:write",)
KEYS = ("tokens:write",)


class ServicesQuery(PageQuery):
    """q: part of the name. team: by name. owner: a name, or "me"."""

    team = serializers.CharField(max_length=64, required=False)
    owner = serializers.CharField(max_length=64, required=False)
    q = serializers.CharField(max_length=100, required=False)
    sort = SortField({"name": read_name, "created_at": read_moment})


class Services(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_services", "POST": "create_service"}
    refusals = {"POST": ("409", "422", "507")}
    rates = {"POST": ("submits",)}

    @extend_schema(parameters=[ServicesQuery], responses=list_of(ServiceShape, "ServicePage"))
    def get(self, request: Request) -> Response:
        """List the services of one's teams, newest first."""
        query = read_query(request, ServicesQuery)
        if query.get("owner") == "me":
            query["owner"] = request.user.username
        named = {"team": "team__name__iexact", "owner": "user__username__iexact", "q": "name__icontains"}
        wanted = {column: query[name] for name, column in named.items() if name in query}
        return page(Service.objects.visible_to(request.user).with_names().filter(**wanted), query, ServiceShape)

    @extend_schema(
        parameters=[KEY],
        request={JSON: ServiceFileAsk},
        responses={201: OpenApiResponse(ServiceShape, "The service, and its address in Location.")},
    )
    def post(self, request: Request) -> Response:
        """Create a service, unless a replica could never run, and start one to try it. Its name is the team's only."""
        said = read_json(request, ServiceFileAsk)
        made = create_service(user=request.user, **_abilities(), **read_once(request, said), **said)
        shown = ServiceShape(find_service(request.user, made.public_id)).data
        return Response(shown, status=201, headers={"Location": shown["links"]["self"]})


class ServiceDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_service", "PATCH": "change_service", "DELETE": "delete_service"}
    refusals = {"PATCH": ("409", "422"), "DELETE": ("409",)}
    rates = {"PATCH": ("submits",)}

    @extend_schema(responses=ServiceShape)
    def get(self, request: Request, service_id: str) -> Response:
        """Show a service."""
        return _show(request, service_id)

    @extend_schema(request={JSON: ServiceFileAsk}, responses=ServiceShape)
    def patch(self, request: Request, service_id: str) -> Response:
        """Roll out a new file of a service of one's own. It answers once a replica of it is ready."""
        row, said = find_service(request.user, service_id), read_json(request, ServiceFileAsk)
        revise_service(actor=request.user, service=row, **_abilities(), **said)
        return _show(request, service_id)

    @extend_schema(responses={204: OpenApiResponse(None, "It is gone, with its keys. The jobs of its replicas stay.")})
    def delete(self, request: Request, service_id: str) -> Response:
        """Delete a service and stop its replicas at once, as its owner, a lead or an admin."""
        delete_service(actor=request.user, service=find_service(request.user, service_id))
        return Response(status=204)


class ServiceWake(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "wake_service"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=ServiceShape)
    def post(self, request: Request, service_id: str) -> Response:
        """Start a replica as if a request came, also of a service that is stopped or failing."""
        wake_service(actor=request.user, service=find_service(request.user, service_id))
        return _show(request, service_id)


class ServiceSleep(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "sleep_service"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=ServiceShape)
    def post(self, request: Request, service_id: str) -> Response:
        """End its replicas once they have answered, down to the least of its file. The next request wakes it."""
        put_to_sleep(actor=request.user, service=find_service(request.user, service_id))
        return _show(request, service_id)


class ServiceStop(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "stop_service"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=ServiceShape)
    def post(self, request: Request, service_id: str) -> Response:
        """End its replicas once they have answered, and refuse requests until somebody wakes it."""
        stop_service(actor=request.user, service=find_service(request.user, service_id))
        return _show(request, service_id)


class ServiceRollback(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "rollback_service"}
    refusals = {"POST": ("409",)}

    @extend_schema(request={JSON: RollbackAsk}, responses=ServiceShape)
    def post(self, request: Request, service_id: str) -> Response:
        """Roll out an earlier revision of a service of one's own once more."""
        row, said = find_service(request.user, service_id), read_json(request, RollbackAsk)
        roll_back(actor=request.user, service=row, number=said.get("revision"))
        return _show(request, service_id)


class ServicePromote(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "promote_service"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=ServiceShape)
    def post(self, request: Request, service_id: str) -> Response:
        """Let the canary of a service of one's own take over before the end of its time."""
        promote_canary(actor=request.user, service=find_service(request.user, service_id))
        return _show(request, service_id)


class ServiceScale(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "scale_service"}
    refusals = {"POST": ("409",)}

    @extend_schema(request={JSON: ScaleAsk}, responses=ServiceShape)
    def post(self, request: Request, service_id: str) -> Response:
        """Set how many replicas a service of one's own may have, without a new revision, until its next one."""
        row, said = find_service(request.user, service_id), read_json(request, ScaleAsk)
        scale_service(actor=request.user, service=row, **said)
        return _show(request, service_id)


class ServiceRevisions(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_service_revisions"}

    @extend_schema(parameters=[PageQuery], responses=list_of(RevisionShape, "ServiceRevisionPage"))
    def get(self, request: Request, service_id: str) -> Response:
        """List the versions of its file, newest first."""
        rows = find_service(request.user, service_id).revisions.all()
        return page(rows, read_query(request, PageQuery), RevisionShape)


class ServiceKeys(ApiView):
    scopes = {"GET": KEYS, "POST": KEYS}
    operations = {"GET": "list_service_keys", "POST": "create_service_key"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(ServiceKeyShape, "ServiceKeyList"))
    def get(self, request: Request, service_id: str) -> Response:
        """List a service's keys, newest first."""
        rows = find_service(request.user, service_id).keys.all()
        return all_of(rows, ServiceKeyShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: ServiceKeyAsk}, responses={201: OpenApiResponse(NewServiceKeyShape)})
    def post(self, request: Request, service_id: str) -> Response:
        """Create a key by which a program calls a service of one's own, and nothing else."""
        row, said = find_service(request.user, service_id), read_json(request, ServiceKeyAsk)
        made, secret = create_service_key(actor=request.user, service=row, made_by=request.auth, **said)
        return Response({**ServiceKeyShape(made).data, "secret": secret}, status=201)


class ServiceKeyDetail(ApiView):
    scopes = {"PATCH": KEYS, "DELETE": KEYS}
    operations = {"PATCH": "change_service_key", "DELETE": "end_service_key"}

    @extend_schema(request={JSON: KeyLimitsAsk}, responses=ServiceKeyShape)
    def patch(self, request: Request, service_id: str, service_key_id: int) -> Response:
        """Change how many requests a key of a service of one's own may have. It counts within seconds."""
        row, said = find_service(request.user, service_id), read_json(request, KeyLimitsAsk)
        changed = limit_service_key(actor=request.user, service=row, key_id=service_key_id, **said)
        return Response(ServiceKeyShape(changed).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It opens nothing any more, within seconds.")})
    def delete(self, request: Request, service_id: str, service_key_id: int) -> Response:
        """End a key, as the service's owner, a lead or an admin."""
        end_service_key(actor=request.user, service=find_service(request.user, service_id), key_id=service_key_id)
        return Response(status=204)


class UsageQuery(FieldsQuery):
    """days: how many until today."""

    days = serializers.IntegerField(min_value=1, max_value=KEPT_DAYS, default=30)


class ServiceUsage(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_service_usage"}

    @extend_schema(parameters=[UsageQuery], responses=list_of(CallCountShape, "ServiceUsageList"))
    def get(self, request: Request, service_id: str) -> Response:
        """List how many requests came, by day and key, newest first. The last seconds are added a little later."""
        row, query = find_service(request.user, service_id), read_query(request, UsageQuery)
        return all_of(list_usage(row, query.pop("days")), CallCountShape, **query)


def _show(request: Request, service_id: str) -> Response:
    return Response(ServiceShape(find_service(request.user, service_id)).data)


def _abilities() -> dict[str, Any]:
    """Return what jobs.submit must know of the cluster."""
    return {"check": check_possible, "containers": runtime_has_containers()}
