"""API of tries that ended before their time, and what was lost with them."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.reports.failures import GROUPS, FailureReport, FailureSums, Losses
from portal.access.usage_reports import load_failure_report
from portal.api.http.fields import Span
from portal.api.report_view import ReportQuery, ReportView, describe_report
from portal.wording.monitoring.failure_report import list_hours, name_group, write_failures_csv


class FailureQuery(ReportQuery):
    """from, to: moments or days, in UTC; the last 30 days if left out."""

    by = serializers.ChoiceField(choices=list(GROUPS), default="reason")


class LostHours(serializers.Serializer):
    """GPU-hours. lost: held since the last checkpoint, else since the start; unsaved: the part of it that had no
    checkpoint. kept: held before the last checkpoint.
    """

    lost = serializers.FloatField()
    unsaved = serializers.FloatField()
    kept = serializers.FloatField()


class LossesShape(serializers.Serializer):
    """tries, of so many jobs."""

    tries = serializers.IntegerField()
    jobs = serializers.IntegerField()
    gpu_hours = LostHours()


class FailureSumsShape(serializers.Serializer):
    """failed: by themselves or their machine. made_room: stopped for other jobs or maintenance, and queued again."""

    failed = LossesShape()
    made_room = LossesShape()


class FailureGroup(FailureSumsShape):
    """group: the code of the reason, or the name of the team, person, pool or machine. text: the same for people."""

    group = serializers.CharField(allow_blank=True)
    text = serializers.CharField(allow_blank=True)


class FailureReportAnswer(Span):
    """results: the most frequent first, 1,000 at most. left_out: further ones."""

    by = serializers.ChoiceField(choices=list(GROUPS))
    complete_to = serializers.DateTimeField()
    results = FailureGroup(many=True)
    left_out = serializers.IntegerField()
    total = FailureSumsShape()


class FailureReportView(ReportView):
    operations = {"GET": "get_failures"}
    query = FailureQuery
    load, write_csv = staticmethod(load_failure_report), staticmethod(write_failures_csv)

    @describe_report(FailureQuery, FailureReportAnswer)
    def get(self, request: Request) -> Response:
        """Tell which tries of one's teams' jobs ended before their time, why, and the GPU-hours lost with them."""
        return self.answer(request)

    def show(self, report: FailureReport) -> dict[str, Any]:
        told = super().show(report)
        results = [{**one, "text": name_group(report.by, one["group"])} for one in told["results"]]
        return {**told, "results": results, "left_out": report.left_out}

    def show_sums(self, sums: FailureSums) -> dict[str, Any]:
        return {"failed": _show_losses(sums.failed), "made_room": _show_losses(sums.made_room)}


def _show_losses(losses: Losses) -> dict[str, Any]:
    hours = {name: round(value, 6) for name, value in list_hours(losses).items()}
    return {"tries": losses.tries, "jobs": losses.jobs, "gpu_hours": hours}
