"""API of GPU time by team, person, pool, model or job."""

from typing import Any

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.costs.sums import Cost
from monitoring.usage.report import GROUPS, HOUR_MILLI_MS, Sums
from portal.access.usage_reports import UsageReport, load_usage_report
from portal.api.http.fields import Span
from portal.api.report_view import ReportQuery, ReportView, describe_report
from portal.wording.monitoring.usage_report import list_hours, write_usage_csv


class UsageQuery(ReportQuery):
    """from, to: moments or days, in UTC; the last 30 days if left out."""

    by = serializers.ChoiceField(choices=list(GROUPS), default="team")


class GpuHours(serializers.Serializer):
    """held = active + paused + idle + unknown. busy: in which cards computed, as far as it is known."""

    held = serializers.FloatField()
    active = serializers.FloatField()
    paused = serializers.FloatField()
    idle = serializers.FloatField()
    unknown = serializers.FloatField()
    busy = serializers.FloatField()


class CostShape(serializers.Serializer):
    """In thousandths. idle_milli, lost_milli (by faults of machines and the platform, since the last checkpoint): of
    held_milli. unpriced: GPU-hours that have no price and are in none of these.
    """

    held_milli = serializers.IntegerField()
    idle_milli = serializers.IntegerField()
    lost_milli = serializers.IntegerField()
    unpriced = serializers.FloatField()


class UsageSums(serializers.Serializer):
    """tasks: how many held cards. simulated: whether some of the cards are. cost: null where no price is set."""

    gpu_hours = GpuHours()
    cost = CostShape(allow_null=True)
    tasks = serializers.IntegerField()
    simulated = serializers.BooleanField()


class UsageGroup(UsageSums):
    """group: the name of the team, person, pool or model, or the id of the job."""

    group = serializers.CharField()


class UsageAnswer(Span):
    """results: the largest first, 1,000 at most. rest: of further groups, null if there are none. complete_to: holdings
    that go on count until then. currency: of costs, as the installation calls it.
    """

    by = serializers.ChoiceField(choices=list(GROUPS))
    complete_to = serializers.DateTimeField()
    currency = serializers.CharField(allow_blank=True)
    results = UsageGroup(many=True)
    rest = UsageSums(allow_null=True)
    total = UsageSums()


class Usage(ReportView):
    operations = {"GET": "get_usage"}
    query = UsageQuery
    load, write_csv = staticmethod(load_usage_report), staticmethod(write_usage_csv)

    @describe_report(UsageQuery, UsageAnswer)
    def get(self, request: Request) -> Response:
        """Tell the GPU-hours of one's teams: held, active, idle and unknown."""
        return self.answer(request)

    def show(self, report: UsageReport) -> dict[str, Any]:
        told, costs = super().show(report), report.costs
        return {
            **told,
            "currency": settings.TESSERA_CURRENCY,
            "results": [{**one, "cost": costs and _show_cost(costs.groups[one["group"]])} for one in told["results"]],
            "rest": report.rest and {**self.show_sums(report.rest), "cost": costs and _show_cost(costs.rest)},
            "total": {**told["total"], "cost": costs and _show_cost(costs.total)},
        }

    def show_sums(self, sums: Sums) -> dict[str, Any]:
        hours = {name: round(hours, 6) for name, hours in list_hours(sums).items()}
        return {"gpu_hours": hours, "tasks": sums.tasks, "simulated": sums.simulated}


def _show_cost(cost: Cost) -> dict[str, Any]:
    amounts = {f"{name}_milli": cost.count(name) for name in ("held", "idle", "lost")}
    return {**amounts, "unpriced": round(cost.unpriced / HOUR_MILLI_MS, 6)}
