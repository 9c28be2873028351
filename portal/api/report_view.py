"""What all reports of the API have: a period, a grouping, and the same as JSON and as CSV."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from monitoring.usage.report import Period
from portal.api.http.fields import Span, go_back
from portal.api.view import ApiView, read_query

USUAL = timedelta(days=30)


class ReportQuery(Span):
    """from, to: moments or days, in UTC; the last 30 days if left out. Each report adds what it is summed by."""

    to = serializers.DateTimeField(required=False)


class ReportCsv(BaseRenderer):
    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, media_type: str | None = None, context: Any = None) -> str:
        return context["view"].write_csv(data["report"])


class ReportJson(JSONRenderer):
    def render(self, data: Any, media_type: str | None = None, context: Any = None) -> bytes:
        shown = context["view"].show(data["report"]) if "report" in data else data
        return super().render(shown, media_type, context)


class ReportView(ApiView):
    """query: a ReportQuery with the field `by`. Each report says how it is loaded and written, describes its GET by
    describe_report, and shows its sums, and what it has beside.
    """

    scopes = {"GET": ("reports:read",)}
    renderer_classes = [ReportJson, ReportCsv]
    query: ClassVar[type[ReportQuery]]

    @staticmethod
    def load(user: User, by: str, period: Period, now: datetime) -> Any:
        raise NotImplementedError

    @staticmethod
    def write_csv(report: Any) -> str:
        raise NotImplementedError

    def show_sums(self, sums: Any) -> dict[str, Any]:
        """Return the sums of a group, or of all, as the API has them."""
        raise NotImplementedError

    def show(self, report: Any) -> dict[str, Any]:
        return {
            "by": report.by,
            "from": report.period.begins,
            "to": report.period.ends,
            "complete_to": report.complete_to,
            "results": [{"group": name, **self.show_sums(sums)} for name, sums in report.groups.items()],
            "total": self.show_sums(report.total),
        }

    def answer(self, request: Request) -> Response:
        query, now = read_query(request, self.query), timezone.now()
        ends = query.get("to", now)
        begins = query["from"] if "from" in query else go_back(ends, USUAL)
        period = Period(begins, ends)
        return Response({"report": self.load(request.user, query["by"], period, now)})


def describe_report(query: type[ReportQuery], answer: type[serializers.Serializer]) -> Callable[..., Any]:
    responses = {
        (200, "application/json"): answer,
        (200, "text/csv"): OpenApiResponse({"type": "string"}, "A row for each group."),
    }
    return extend_schema(parameters=[query], responses=responses)
