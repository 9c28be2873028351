"""API of changes of quotas and personal limits, for admins."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.directory import find_team
from accounts.models import Team
from accounts.permissions import require
from cluster.models import Pool
from cluster.services import find_pool
from common.errors import InvalidInput, NotFound
from common.resources import parse_cpu, parse_memory
from portal.api.cluster.quotas import SHOW, QuotaShape, quota_lines
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import Amount, PoolField, amount
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query
from quotas.amounts import parse_cards
from quotas.models import RESOURCES, Quota, UserLimit
from quotas.services import delete_quota, find_limit, get_default_limit, save_quota, save_quotas, save_user_limit
from quotas.until import Until

READ, WRITE = ("cluster:read",), ("quotas:write",)
PARSE: dict[str, Callable[[object, str], int]] = {"gpu": parse_cards, "cpu": parse_cpu, "memory": parse_memory}
STORED = dict(zip(("gpu", "cpu", "memory"), RESOURCES, strict=True))
MOST_CHANGES = 2000


@extend_schema_field({"oneOf": [{"type": "string", "maxLength": 32}, {"type": "number", "minimum": 0}]})
class AmountAsk(serializers.Field):
    """An amount as in a job file: cards as 1.5 or "1/4", cores, memory with its unit. Raises InvalidInput."""

    def __init__(self, parse: Callable[[object, str], int], **options: Any):
        super().__init__(**options)
        self.parse = parse

    def to_internal_value(self, data: Any) -> int:
        return 0 if str(data) == "0" else self.parse(data, self._pointer())

    def _pointer(self) -> str:
        names: list[str] = []
        field: serializers.Field = self
        while field.parent is not None:
            if field.field_name:
                names.append(field.field_name)
            field = field.parent  # type: ignore[assignment]
        return "".join(f"/{name}" for name in reversed(names))


def _share_of(resource: str) -> type[serializers.Serializer]:
    fields = {
        "guarantee": AmountAsk(PARSE[resource], required=False),
        "limit": AmountAsk(PARSE[resource], required=False, allow_null=True),
    }
    return type(f"{resource.title()}Share", (serializers.Serializer,), fields)


class QuotaChange(serializers.Serializer):
    """What is left out stays as it is; a team that has no quota in the pool gets one. limit: null is none.

    weight: share of what is spare. cell: the GPU guarantee counts in whole nodes of so many cards. until: what is
    changed here holds until then, and returns by itself to what it was; null: all that was to return lasts.
    """

    gpu = _share_of("gpu")(required=False)
    cpu = _share_of("cpu")(required=False)
    memory = _share_of("memory")(required=False)
    weight = serializers.IntegerField(min_value=1, max_value=1000, required=False)
    cell = serializers.IntegerField(min_value=1, max_value=1024, required=False)
    until = serializers.DateTimeField(required=False, allow_null=True)


class OneOfQuotas(QuotaChange):
    team = serializers.CharField(max_length=32)
    pool = PoolField()


class QuotasAsk(serializers.Serializer):
    """All are saved, or none: so one team may get what another gives."""

    quotas = serializers.ListField(child=OneOfQuotas(), max_length=MOST_CHANGES)


class LimitShape(serializers.Serializer):
    """null: as for everyone; of everyone: no limit. person: "everyone" for all without limits of their own."""

    person = serializers.CharField(source="public_id")
    gpu = serializers.SerializerMethodField()
    cpu = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    jobs_running = serializers.IntegerField(allow_null=True)
    jobs_waiting = serializers.IntegerField(allow_null=True)
    notebooks_running = serializers.IntegerField(allow_null=True)
    notebook_hours = serializers.IntegerField(allow_null=True)

    @extend_schema_field(Amount)
    def get_gpu(self, limit: UserLimit) -> dict[str, Any]:
        return amount(limit.gpu_milli, SHOW["gpu_milli"])

    @extend_schema_field(Amount)
    def get_cpu(self, limit: UserLimit) -> dict[str, Any]:
        return amount(limit.cpu_milli, SHOW["cpu_milli"])

    @extend_schema_field(Amount)
    def get_memory(self, limit: UserLimit) -> dict[str, Any]:
        return amount(limit.memory_mib, SHOW["memory_mib"])


class LimitChange(serializers.Serializer):
    """What is left out stays as it is. null: as for everyone; of everyone: no limit."""

    gpu = AmountAsk(parse_cards, required=False, allow_null=True)
    cpu = AmountAsk(parse_cpu, required=False, allow_null=True)
    memory = AmountAsk(parse_memory, required=False, allow_null=True)
    jobs_running = serializers.IntegerField(min_value=0, max_value=10**6, required=False, allow_null=True)
    jobs_waiting = serializers.IntegerField(min_value=0, max_value=10**6, required=False, allow_null=True)
    notebooks_running = serializers.IntegerField(min_value=0, max_value=10**6, required=False, allow_null=True)
    notebook_hours = serializers.IntegerField(min_value=1, max_value=10**6, required=False, allow_null=True)


class QuotaDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_quota", "PATCH": "change_quota", "DELETE": "delete_quota"}

    @extend_schema(responses=QuotaShape)
    def get(self, request: Request, name: str, pool: str) -> Response:
        return Response(_show(request, name, pool))

    @extend_schema(request={JSON: QuotaChange}, responses=QuotaShape)
    def patch(self, request: Request, name: str, pool: str) -> Response:
        """Set or change a team's quota in a pool, or until a moment. A lower limit, also one that returns, stops
        nothing that runs. For administrators.
        """
        require(request.user, "quota.change")
        asked = read_json(request, QuotaChange)
        quota = _changed(find_team(name), find_pool(pool), asked)
        with pointing_to_what_was_sent():
            save_quota(actor=request.user, quota=quota, until=_until(asked))
        return Response(_show(request, name, pool))

    @extend_schema(responses={204: OpenApiResponse(None, "The team can start nothing more in the pool.")})
    def delete(self, request: Request, name: str, pool: str) -> Response:
        """Take a team's quota away. What runs goes on. For administrators."""
        require(request.user, "quota.change")
        quota = Quota.objects.filter(team=find_team(name), pool=find_pool(pool)).first()
        if quota is None:
            raise NotFound(kind="quota", id=f"{name} in {pool}")
        delete_quota(actor=request.user, quota=quota)
        return Response(status=204)


class QuotasSave(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "save_quotas"}

    @extend_schema(request={JSON: QuotasAsk}, responses=list_of(QuotaShape, "SavedQuotas"))
    def post(self, request: Request) -> Response:
        """Set or change several quotas, all or none. For administrators."""
        require(request.user, "quota.change")
        asked = read_json(request, QuotasAsk)["quotas"]
        quotas = [
            _changed(find_team(one["team"], f"/quotas/{place}/team"), one["pool"], one)
            for place, one in enumerate(asked)
        ]
        with pointing_to_what_was_sent("/quotas"):
            rows = save_quotas(actor=request.user, quotas=quotas, until=[_until(one) for one in asked])
        saved = {(row.team.name, row.pool.name) for row in rows}
        lines = [row for row in quota_lines(request.user) if (row["team"], row["pool"]) in saved]
        return Response({"results": lines, "next_cursor": None})


class LimitList(ApiView):
    scopes = {"GET": WRITE}
    operations = {"GET": "list_limits"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(LimitShape, "LimitList"))
    def get(self, request: Request) -> Response:
        """List personal limits, first those for everyone. For administrators and auditors."""
        require(request.user, "platform.read")
        get_default_limit()
        rows = UserLimit.objects.select_related("user").order_by("user__username")
        own = sorted(rows, key=lambda limit: limit.user_id is not None)
        return all_of(own, LimitShape, **read_query(request, FieldsQuery))


class LimitDetail(ApiView):
    scopes = {"GET": WRITE, "PATCH": WRITE}
    operations = {"GET": "get_limit", "PATCH": "change_limit"}

    @extend_schema(responses=LimitShape)
    def get(self, request: Request, name: str) -> Response:
        """Tell a person's own limits, or those of `everyone`. For administrators and auditors."""
        require(request.user, "platform.read")
        return Response(LimitShape(find_limit(name)).data)

    @extend_schema(request={JSON: LimitChange}, responses=LimitShape)
    def patch(self, request: Request, name: str) -> Response:
        """Change a person's own limits, or those of `everyone`. A lower one stops nothing. For administrators."""
        require(request.user, "quota.change")
        limit = find_limit(name)
        for field, value in read_json(request, LimitChange).items():
            setattr(limit, STORED.get(field, field), value)
        return Response(LimitShape(save_user_limit(actor=request.user, limit=limit)).data)


@contextmanager
def pointing_to_what_was_sent(before: str = "") -> Iterator[None]:
    """Name the fields of refusals as the API does: /gpu/limit for gpu_milli_limit. before: what stands before them."""
    try:
        yield
    except InvalidInput as refused:
        raise InvalidInput([replace(one, pointer=before + _as_sent(one.pointer)) for one in refused.errors]) from None


def _as_sent(pointer: str) -> str:
    for resource, stored in STORED.items():
        pointer = pointer.replace(f"/{stored}_", f"/{resource}/")
    return pointer


def _changed(team: Team, pool: Pool, asked: dict[str, Any]) -> Quota:
    """Return the team's quota in the pool with what was asked, not saved yet."""
    quota = Quota.objects.filter(team=team, pool=pool).first() or Quota(team=team, pool=pool)
    quota.team, quota.pool = team, pool
    for resource, stored in STORED.items():
        for kind, value in asked.get(resource, {}).items():
            setattr(quota, f"{stored}_{kind}", value)
    for name in ("weight", "cell"):
        setattr(quota, name, asked.get(name, getattr(quota, name)))
    return quota


def _until(asked: dict[str, Any]) -> Until:
    return (asked["until"] or "kept") if "until" in asked else None


def _show(request: Request, team: str, pool: str) -> dict[str, Any]:
    for row in quota_lines(request.user):
        if (row["team"], row["pool"]) == (team, pool):
            return row
    raise NotFound(kind="quota", id=f"{team} in {pool}")
