"""API of how many cards were held and active over one day."""

from datetime import date
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from cluster.models import Pool
from common.errors import FieldError, InvalidInput
from monitoring.series.day_use import FIRST, LAST, STEPS_S, DayUse, load_day_use
from portal.api.http.fields import PoolField
from portal.api.report_view import ReportCsv, ReportJson
from portal.api.view import ApiView, read_query
from portal.wording.monitoring.day_use import write_day_csv


class DayQuery(serializers.Serializer):
    """day: in UTC, today if left out. pool: all together if left out. step_s: may come out larger."""

    day = serializers.DateField(required=False)
    pool = PoolField(required=False)
    step_s = serializers.ChoiceField(choices=list(STEPS_S), default=STEPS_S[0])

    def validate_day(self, day: date) -> date:
        if not FIRST <= day <= LAST:
            raise InvalidInput([FieldError("/day", "out_of_range", {"min": str(FIRST), "max": str(LAST)})])
        return day


class DaySlot(serializers.Serializer):
    """Mean numbers of cards; null is not known. held = active + idle + unknown."""

    begins = serializers.DateTimeField()
    capacity = serializers.FloatField(allow_null=True)
    held = serializers.FloatField(allow_null=True)
    active = serializers.FloatField(allow_null=True)
    idle = serializers.FloatField(allow_null=True)
    unknown = serializers.FloatField(allow_null=True)


class DayAnswer(serializers.Serializer):
    """slots: those that have begun. known_percent: of them. held_percent, active_percent: of the cards' time in slots
    that are known, null if none is.
    """

    day = serializers.DateField()
    step_s = serializers.IntegerField()
    simulated = serializers.BooleanField()
    known_percent = serializers.FloatField()
    held_percent = serializers.FloatField(allow_null=True)
    active_percent = serializers.FloatField(allow_null=True)
    slots = DaySlot(many=True)


class DayUseView(ApiView):
    scopes = {"GET": ("reports:read",)}
    operations = {"GET": "get_day"}
    renderer_classes = [ReportJson, ReportCsv]

    @extend_schema(
        parameters=[DayQuery],
        responses={
            (200, "application/json"): DayAnswer,
            (200, "text/csv"): OpenApiResponse({"type": "string"}, "A row for each step."),
        },
    )
    def get(self, request: Request) -> Response:
        """Tell how many cards of a pool, or of all, were held and active over a day."""
        query, now = read_query(request, DayQuery), timezone.now()
        pools = [query["pool"].pk] if "pool" in query else list(Pool.objects.values_list("pk", flat=True))
        return Response({"report": load_day_use(pools, query.get("day", now.date()), query["step_s"], now)})

    def show(self, use: DayUse) -> dict[str, Any]:
        named = {f"{name}_percent": use.percent(name) for name in ("held", "active")}
        return {
            "day": use.day,
            "step_s": use.step_s,
            "simulated": use.simulated,
            "known_percent": round(use.known_percent, 1),
            **{name: None if percent is None else round(percent, 1) for name, percent in named.items()},
            "slots": DaySlot(use.slots[: use.begun], many=True).data,
        }

    def write_csv(self, use: DayUse) -> str:
        return write_day_csv(use)
