"""API of pools, their policy and lending windows."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from cluster.models import Pool, Window, check_zone
from cluster.services import POLICY, delete_window, save_pool, save_window
from cluster.windows import open_until
from common.errors import NotFound
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
        for field, value in attrs.items():
            setattr(self.instance, field, value)
        self.instance.clean()
        return {"pool": self.instance}


@extend_schema_field({"type": "string", "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$"})
class ClockField(serializers.TimeField):
    """20:00. Without seconds and zone, so no RFC 3339 `time`."""

    def __init__(self) -> None:
        super().__init__(format="%H:%M", input_formats=["%H:%M"])


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
        """Raises ValidationError if the pools cannot lend so."""
        days = "".join(str(day) for day in sorted(set(attrs["weekdays"])))
        holidays = ", ".join(day.isoformat() for day in sorted(set(attrs["holidays"])))
        window = Window(**attrs | {"weekdays": days, "holidays": holidays})
        window.clean()
        return {"window": window}


class PoolList(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_pools"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(PoolShape, "PoolList"))
    def get(self, request: Request) -> Response:
        return all_of([PoolView(pool) for pool in Pool.objects.all()], PoolShape, **read_query(request, FieldsQuery))


class PoolDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE}
    operations = {"GET": "get_pool", "PATCH": "change_pool"}

    @extend_schema(responses=PoolShape)
    def get(self, request: Request, name: str) -> Response:
        return Response(PoolShape(PoolView(_find_pool(name))).data)

    @extend_schema(request={JSON: PoolChange}, responses=PoolShape)
    def patch(self, request: Request, name: str) -> Response:
        """Change its policy, at once for waiting jobs. What runs goes on."""
        require(request.user, "pool.change")
        pool = read_json(request, PoolChange, _find_pool(name))["pool"]
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
    scopes = {"GET": READ, "DELETE": WRITE}
    operations = {"GET": "get_window", "DELETE": "delete_window"}

    @extend_schema(responses=WindowShape)
    def get(self, request: Request, window_id: int) -> Response:
        return Response(WindowShape(_find_window(window_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It lends no more.")})
    def delete(self, request: Request, window_id: int) -> Response:
        """End the lending. Preemptible jobs leave the cards when the lender's own need them."""
        require(request.user, "pool.change")
        delete_window(actor=request.user.as_actor, window=_find_window(window_id))
        return Response(status=204)


def _find_pool(name: str) -> Pool:
    pool = Pool.objects.filter(name=name).first()
    if pool is None:
        raise NotFound(kind="pool", id=name)
    return pool


def _find_window(pk: int) -> Window:
    window = Window.objects.filter(pk=pk).select_related("lender", "borrower").first()
    if window is None:
        raise NotFound(kind="window", id=str(pk))
    return window
