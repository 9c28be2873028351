"""API of what held cards drew, by team, person, pool, model or machine."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.usage.energy_report import ENERGY_GROUPS, Energy
from monitoring.usage.report import HOUR_MILLI_MS
from portal.access.usage_reports import EnergyReport, load_energy_report
from portal.api.http.fields import Span
from portal.api.report_view import ReportQuery, ReportView, describe_report
from portal.wording.monitoring.energy_report import write_energy_csv


class EnergyQuery(ReportQuery):
    """from, to: moments or days, in UTC; the last 30 days if left out."""

    by = serializers.ChoiceField(choices=list(ENERGY_GROUPS), default="team")


class EnergySums(serializers.Serializer):
    """kwh, mean_w (of a whole card): null is not known. unknown_gpu_hours: of held_gpu_hours, in no sum of energy.
    simulated: of cards that are not real.
    """

    kwh = serializers.FloatField(allow_null=True)
    mean_w = serializers.FloatField(allow_null=True)
    held_gpu_hours = serializers.FloatField()
    unknown_gpu_hours = serializers.FloatField()
    simulated = serializers.BooleanField()


class EnergyGroup(EnergySums):
    """group: the name of the team, person, pool, model or machine."""

    group = serializers.CharField()


class EnergyAnswer(Span):
    """results: the most first, 1,000 at most. rest: of further groups, null if there are none."""

    by = serializers.ChoiceField(choices=list(ENERGY_GROUPS))
    complete_to = serializers.DateTimeField()
    results = EnergyGroup(many=True)
    rest = EnergySums(allow_null=True)
    total = EnergySums()


class EnergyReportView(ReportView):
    operations = {"GET": "get_energy"}
    query = EnergyQuery
    load, write_csv = staticmethod(load_energy_report), staticmethod(write_energy_csv)

    @describe_report(EnergyQuery, EnergyAnswer)
    def get(self, request: Request) -> Response:
        """Tell what the cards drew that one's teams held. Simulated ones count only where there are no others."""
        return self.answer(request)

    def show(self, report: EnergyReport) -> dict[str, Any]:
        return {**super().show(report), "rest": None if report.rest is None else self.show_sums(report.rest)}

    def show_sums(self, sums: Energy) -> dict[str, Any]:
        return {
            "kwh": None if sums.kwh is None else round(sums.kwh, 6),
            "mean_w": None if sums.watts is None else round(sums.watts, 1),
            "held_gpu_hours": round(sums.held / HOUR_MILLI_MS, 6),
            "unknown_gpu_hours": round(sums.unmetered / HOUR_MILLI_MS, 6),
            "simulated": sums.simulated,
        }
