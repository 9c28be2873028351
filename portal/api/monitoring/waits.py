"""API of how long jobs waited."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.reports.waits import GROUPS, WaitReport, WaitSums
from portal.access.usage_reports import load_wait_report
from portal.api.http.fields import Span
from portal.api.report_view import ReportQuery, ReportView, describe_report
from portal.wording.monitoring.wait_report import write_waits_csv


class WaitQuery(ReportQuery):
    """from, to: moments or days, in UTC; the last 30 days if left out."""

    by = serializers.ChoiceField(choices=list(GROUPS), default="size")


class WaitShape(serializers.Serializer):
    """Of so many jobs, half and nine of ten waited at most so many seconds; null where there are none."""

    jobs = serializers.IntegerField()
    p50_s = serializers.FloatField(allow_null=True)
    p90_s = serializers.FloatField(allow_null=True)
    longest_s = serializers.FloatField(allow_null=True)


class WaitSumsShape(serializers.Serializer):
    """started: first starts in the period. again: starts of later tries. waiting: so far, at the end of the period.
    gave_up: stopped before a start.
    """

    started = WaitShape()
    again = WaitShape()
    waiting = WaitShape()
    gave_up = WaitShape()


class WaitGroup(WaitSumsShape):
    """group: the name of the team, person or pool, the kind, or the GPUs of all tasks: none, part, 1, 2-4, 5-8, 9+."""

    group = serializers.CharField()


class WaitReportAnswer(Span):
    """results: those with the most starts first, sizes by size; 1,000 at most. left_out: further ones."""

    by = serializers.ChoiceField(choices=list(GROUPS))
    complete_to = serializers.DateTimeField()
    results = WaitGroup(many=True)
    left_out = serializers.IntegerField()
    total = WaitSumsShape()


class WaitReportView(ReportView):
    operations = {"GET": "get_waits"}
    query = WaitQuery
    load, write_csv = staticmethod(load_wait_report), staticmethod(write_waits_csv)

    @describe_report(WaitQuery, WaitReportAnswer)
    def get(self, request: Request) -> Response:
        """Tell how long jobs of one's teams waited for their start, and how long others have waited so far."""
        return self.answer(request)

    def show(self, report: WaitReport) -> dict[str, Any]:
        return {**super().show(report), "left_out": report.left_out}

    def show_sums(self, sums: WaitSums) -> dict[str, Any]:
        return asdict(sums)
