"""API of pools, their policy and lending windows."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from cluster.models import Pool, Window, check_zone
from cluster.services import POLICY, delete_window, find_pool, find_window, save_pool, save_window
from cluster.windows import open_until
from portal.api.cluster.shapes import PoolShape, PoolView
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import PoolField, full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query

READ, WRITE = ("cluster:read",), ("cluster:write",)


class PoolChange(serializers.ModelSerializer):
    """What is left out stays as it is. A null time limit is none."""

    class Meta:
        model = Pool
        fields = ("description", *POLICY)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Raises ValidationError if the pool's fields conflict."""
        pool = self.instance or Pool()
        for field, value in attrs.items():
            setattr(pool, field, value)
        pool.clean()
        return {"pool": pool}


class PoolAsk(PoolChange):
    """name: it never changes. What is left out has its default."""

    class Meta(PoolChange.Meta):
        fields = ("name", "description", *POLICY)  # type: ignore[assignment]


@extend_schema_field({"type": "string", "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$"})
class ClockField(serializers.TimeField):
    """20:00. Without seconds and zone, so no RFC 3339 `time`."""

    def __init__(self, **named: Any) -> None:
        super().__init__(format="%H:%M", input_formats=["%H:%M"], **named)


class WindowShape(serializers.Serializer):
    """weekdays: on which it begins, 1 is Monday. ends: the next day, if not after `begins`. holidays: dates on which it
    lends all day. open_until: null while closed.
    """

    id = serializers.IntegerField(source="pk")
    lender = serializers.CharField(source="lender.name")
    borrower = serializers.CharField(source="borrower.name")
    weekdays = serializers.SerializerMethodField()
    begins = ClockField()
    ends = ClockField()
    zone = serializers.CharField()
    holidays = serializers.ListField(child=serializers.DateField(), source="holiday_dates")
    open_until = serializers.SerializerMethodField()

    def get_weekdays(self, window: Window) -> list[int]:
        return [int(day) for day in window.weekdays]

    def get_open_until(self, window: Window) -> str | None:
        until = open_until([window], timezone.now())
        return until.isoformat().replace("+00:00", "Z") if until else None


class WindowAsk(serializers.Serializer):
    """lender, borrower: names of pools. weekdays: on which it begins, 1 is Monday; left out, Monday to Friday."""

    lender = PoolField()
    borrower = PoolField()
    weekdays = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=7), max_length=7, default=[1, 2, 3, 4, 5]
    )
    begins = ClockField()
    ends = ClockField()
    zone = serializers.CharField(max_length=64, default="UTC", validators=[check_zone])
    holidays = serializers.ListField(child=serializers.DateField(), max_length=400, default=[])

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {"window": _fill_window(Window(), attrs)}


class WindowChange(serializers.Serializer):
    """What is left out stays as it is."""

    lender = PoolField(required=False)
    borrower = PoolField(required=False)
    weekdays = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=7), max_length=7, required=False
    )
    begins = ClockField(required=False)
    ends = ClockField(required=False)
    zone = serializers.CharField(max_length=64, validators=[check_zone], required=False)
    holidays = serializers.ListField(child=serializers.DateField(), max_length=400, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {"window": _fill_window(self.instance, attrs)}


class PoolList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_pools", "POST": "create_pool"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(PoolShape, "PoolList"))
    def get(self, request: Request) -> Response:
        return all_of([PoolView(pool) for pool in Pool.objects.all()], PoolShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: PoolAsk}, responses={201: OpenApiResponse(PoolShape)})
    def post(self, request: Request) -> Response:
        """Create a pool without machines. For administrators."""
        require(request.user, "pool.change")
        pool = save_pool(actor=request.user.as_actor, pool=read_json(request, PoolAsk)["pool"])
        where = {"Location": full_url("api-pool", name=pool.name)}
        return Response(PoolShape(PoolView(pool)).data, status=201, headers=where)


class PoolDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE}
    operations = {"GET": "get_pool", "PATCH": "change_pool"}

    @extend_schema(responses=PoolShape)
    def get(self, request: Request, name: str) -> Response:
        return Response(PoolShape(PoolView(find_pool(name))).data)

    @extend_schema(request={JSON: PoolChange}, responses=PoolShape)
    def patch(self, request: Request, name: str) -> Response:
        """Change its policy, at once for waiting jobs. What runs goes on."""
        require(request.user, "pool.change")
        pool = read_json(request, PoolChange, find_pool(name))["pool"]
        save_pool(actor=request.user.as_actor, pool=pool)
        return Response(PoolShape(PoolView(pool)).data)


class WindowList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_windows", "POST": "create_window"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(WindowShape, "WindowList"))
    def get(self, request: Request) -> Response:
        """List the windows in which pools lend cards."""
        rows = Window.objects.select_related("lender", "borrower")
        return all_of(rows, WindowShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: WindowAsk}, responses={201: OpenApiResponse(WindowShape)})
    def post(self, request: Request) -> Response:
        """Lend a pool's cards on these days, to jobs that end before it closes or are preemptible."""
        require(request.user, "pool.change")
        window = read_json(request, WindowAsk)["window"]
        save_window(actor=request.user.as_actor, window=window)
        where = {"Location": full_url("api-window", window_id=window.pk)}
        return Response(WindowShape(window).data, status=201, headers=where)


class WindowDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_window", "PATCH": "change_window", "DELETE": "delete_window"}

    @extend_schema(responses=WindowShape)
    def get(self, request: Request, window_id: int) -> Response:
        return Response(WindowShape(find_window(window_id)).data)

    @extend_schema(request={JSON: WindowChange}, responses=WindowShape)
    def patch(self, request: Request, window_id: int) -> Response:
        """Change when and to whom the pool lends. For administrators."""
        require(request.user, "pool.change")
        window = read_json(request, WindowChange, find_window(window_id))["window"]
        save_window(actor=request.user.as_actor, window=window)
        return Response(WindowShape(window).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It lends no more.")})
    def delete(self, request: Request, window_id: int) -> Response:
        """End the lending. Preemptible jobs leave the cards when the lender's own need them."""
        require(request.user, "pool.change")
        delete_window(actor=request.user.as_actor, window=find_window(window_id))
        return Response(status=204)


def _fill_window(window: Window, attrs: dict[str, Any]) -> Window:
    """Raises ValidationError if the pools cannot lend so."""
    asked = dict(attrs)
    if "weekdays" in asked:
        asked["weekdays"] = "".join(str(day) for day in sorted(set(asked["weekdays"])))
    if "holidays" in asked:
        asked["holidays"] = ", ".join(day.isoformat() for day in sorted(set(asked["holidays"])))
    for name, value in asked.items():
        setattr(window, name, value)
    window.clean()
    return window
