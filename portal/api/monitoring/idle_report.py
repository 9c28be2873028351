"""API of what was held and idle, and of what the idle ladder did about it."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.reports.idle import IDLE_GROUPS, IdleReport, IdleSums
from portal.access.usage_reports import load_idle_report
from portal.api.http.fields import Span
from portal.api.report_view import ReportQuery, ReportView, describe_report
from portal.wording.monitoring.idle_report import list_idle_counts, list_idle_hours, write_idle_csv


class IdleReportQuery(ReportQuery):
    """from, to: moments or days, in UTC; the last 30 days if left out."""

    by = serializers.ChoiceField(choices=list(IDLE_GROUPS), default="team")


class IdleHours(serializers.Serializer):
    """GPU-hours: held, of it idle, and not seen; returned by releases in the period."""

    held = serializers.FloatField()
    idle = serializers.FloatField()
    unknown = serializers.FloatField()
    returned = serializers.FloatField()


class IdleSumsShape(serializers.Serializer):
    """notes, reminders, warnings: each once, however many people were told. acts: how often something was released;
    regretted: after which it was wanted back at once.
    """

    gpu_hours = IdleHours()
    notes = serializers.IntegerField()
    reminders = serializers.IntegerField()
    warnings = serializers.IntegerField()
    acts = serializers.IntegerField()
    regretted = serializers.IntegerField()


class IdleReportGroup(IdleSumsShape):
    """group: the name of the team, person or pool."""

    group = serializers.CharField()


class IdleReportAnswer(Span):
    """results: the most idle first, 1,000 at most. left_out: further ones."""

    by = serializers.ChoiceField(choices=list(IDLE_GROUPS))
    complete_to = serializers.DateTimeField()
    results = IdleReportGroup(many=True)
    left_out = serializers.IntegerField()
    total = IdleSumsShape()


class IdleReportView(ReportView):
    operations = {"GET": "get_idle_report"}
    query = IdleReportQuery
    load, write_csv = staticmethod(load_idle_report), staticmethod(write_idle_csv)

    @describe_report(IdleReportQuery, IdleReportAnswer)
    def get(self, request: Request) -> Response:
        """Tell what of one's teams was held and idle, how often they were told, and what was returned."""
        return self.answer(request)

    def show(self, report: IdleReport) -> dict[str, Any]:
        return {**super().show(report), "left_out": report.left_out}

    def show_sums(self, sums: IdleSums) -> dict[str, Any]:
        hours = {name: round(value, 6) for name, value in list_idle_hours(sums).items()}
        return {"gpu_hours": hours, **list_idle_counts(sums)}
