"""API of how right told starts were."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.access.usage_reports import load_accuracy_report
from portal.api.http.fields import Span
from portal.api.report_view import ReportQuery, ReportView, describe_report
from portal.wording.monitoring.eta_report import write_eta_csv
from scheduler.preview.forecast_accuracy import ACCURACY_GROUPS, Accuracy, AccuracyReport


class EtaQuery(ReportQuery):
    """from, to: moments or days, in UTC; the last 30 days if left out."""

    by = serializers.ChoiceField(choices=list(ACCURACY_GROUPS), default="pool")


class EtaSums(serializers.Serializer):
    """starts: of jobs that were told one before. within, sooner, later: numbers of those whose told range had an end.
    wrong_p50_s, wrong_p90_s: half, and nine of ten, were wrong by at most so many seconds; null where there are none.
    """

    starts = serializers.IntegerField()
    within = serializers.IntegerField()
    sooner = serializers.IntegerField()
    later = serializers.IntegerField()
    wrong_p50_s = serializers.FloatField(allow_null=True)
    wrong_p90_s = serializers.FloatField(allow_null=True)


class EtaGroup(EtaSums):
    """group: the name of the pool or team, or the GPUs of all tasks: none, part, 1, 2-4, 5-8, 9+."""

    group = serializers.CharField()


class EtaAnswer(Span):
    """results: those with the most starts first, sizes by size; 1,000 at most. left_out: further ones. since: of when
    the oldest told start is that is kept; null if there is none.
    """

    by = serializers.ChoiceField(choices=list(ACCURACY_GROUPS))
    complete_to = serializers.DateTimeField()
    since = serializers.DateTimeField(allow_null=True)
    results = EtaGroup(many=True)
    left_out = serializers.IntegerField()
    total = EtaSums()


class EtaReportView(ReportView):
    operations = {"GET": "get_eta"}
    query = EtaQuery
    load, write_csv = staticmethod(load_accuracy_report), staticmethod(write_eta_csv)

    @describe_report(EtaQuery, EtaAnswer)
    def get(self, request: Request) -> Response:
        """Tell how right the starts were that jobs of one's teams were told first."""
        return self.answer(request)

    def show(self, report: AccuracyReport) -> dict[str, Any]:
        return {**super().show(report), "since": report.since, "left_out": report.left_out}

    def show_sums(self, sums: Accuracy) -> dict[str, Any]:
        counts = {"starts": sums.starts, "within": sums.inside, "sooner": sums.early, "later": sums.late}
        return {**counts, "wrong_p50_s": sums.p50_s, "wrong_p90_s": sums.p90_s}
