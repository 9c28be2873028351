"""API of what jobs, cards, machines, pools, teams and services did over a time."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Team
from cluster.models import Gpu, Pool
from cluster.nodes import find_node
from common.errors import FieldError, InvalidInput, NotFound
from common.steady_clock import steady_now
from monitoring.series.charts import (
    Ask,
    Chart,
    chart_cards,
    chart_job,
    chart_node,
    chart_pool,
    chart_service,
    chart_team,
    list_job_span,
)
from monitoring.series.metrics import NAMES
from monitoring.usage.report import Period
from portal.access.usage_reports import check_period
from portal.api.http.fields import Span, go_back
from portal.api.jobs.jobs import find_job
from portal.api.services.shapes import ColdStartsShape, FiguresShape, RevisionFiguresShape
from portal.api.view import ApiView, read_query
from portal.csv_text import write_csv
from portal.services.figures import WINDOW_S, load_figures
from portal.services.view_model import ServiceView
from portal.wording.usage import describe_gap, describe_older
from services.cold_starts import load_cold_starts
from services.services import find_service

STEP_FOR = 360
"""Values of a line, where no step is asked for."""


class MetricsQuery(Span):
    """from, to: the last hour if left out; of a job, all the time that it ran. step: seconds, 10 or more; the answer
    may have a larger one. metrics: wanted ones, with commas.
    """

    to = serializers.DateTimeField(required=False)
    step = serializers.IntegerField(min_value=1, max_value=30 * 86_400, required=False)
    metrics = serializers.CharField(max_length=500, required=False)

    def validate_metrics(self, text: str) -> frozenset[str]:
        names = frozenset(name.strip() for name in text.split(",") if name.strip())
        if unknown := sorted(names - NAMES):
            raise InvalidInput(
                [FieldError("/metrics", "unknown_metric", {"got": unknown[0], "known": ", ".join(sorted(NAMES))})]
            )
        return names


class LineShape(serializers.Serializer):
    """One line. limit: null if there is none. values: the mean of each step from `from` on, null where nothing is
    known.
    """

    key = serializers.CharField()
    name = serializers.CharField()
    metric = serializers.CharField()
    unit = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    limit = serializers.FloatField(allow_null=True)
    values = serializers.ListField(child=serializers.FloatField(allow_null=True))  # type: ignore[assignment]


class GapShape(Span):
    """When nothing was sampled of a running task, and why as far as it is known."""

    why = serializers.CharField()


class OlderShape(serializers.Serializer):
    """What is older than the platform keeps: until when, whether a series engine told of it, and that in words."""

    until = serializers.DateTimeField()
    is_known = serializers.BooleanField()
    says = serializers.CharField()


class ChartShape(Span):
    """Lines over equal steps of time. older: null where all of it is the platform's own."""

    of = serializers.CharField()
    step_s = serializers.IntegerField()
    series = LineShape(many=True)
    gaps = GapShape(many=True)
    older = OlderShape(allow_null=True)


class ServiceChartShape(ChartShape):
    """Lines over equal steps of time; what a service answered in the last window_s seconds, in all and by revision; and
    how its replicas started. in_flight, all: null where it is not known now.
    """

    window_s = serializers.IntegerField()
    in_flight = serializers.IntegerField(allow_null=True)
    all = FiguresShape(allow_null=True)
    revisions = RevisionFiguresShape(many=True)
    cold_starts = ColdStartsShape()


class Csv(BaseRenderer):
    """A column a line, a row a step."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, *_: object) -> str:
        lines, begin, step = data["series"], data["from"].timestamp(), data["step_s"]
        steps = enumerate(zip(*(line["values"] for line in lines), strict=True))
        rows = ([datetime.fromtimestamp(begin + slot * step, UTC).isoformat(), *values] for slot, values in steps)
        return write_csv(["time", *(f"{line['name']} {line['metric']}" for line in lines)], rows)


class MetricsView(ApiView):
    renderer_classes = [JSONRenderer, Csv]

    def answer(self, of: str, chart: Chart) -> Response:
        return Response(show_chart(of, chart))


CSV = OpenApiResponse({"type": "string"}, "A row for each step, a column for each line.")
described = extend_schema(
    parameters=[MetricsQuery], responses={(200, "application/json"): ChartShape, (200, "text/csv"): CSV}
)


class JobMetrics(MetricsView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_job_metrics"}

    @described
    def get(self, request: Request, job_id: str) -> Response:
        """Tell what the tasks of a job used: GPU, GPU memory, CPU, memory and disk."""
        job = find_job(request, job_id)
        return self.answer(
            job.public_id, chart_job(job, read_ask(read_query(request, MetricsQuery), *list_job_span(job)))
        )


class GpuMetrics(MetricsView):
    scopes = {"GET": ("cluster:read",)}
    operations = {"GET": "get_gpu_metrics"}

    @described
    def get(self, request: Request, uuid: str) -> Response:
        """Tell how busy a card was, its memory in use, temperature and power."""
        gpu = Gpu.objects.select_related("node").filter(uuid=uuid).first()
        if gpu is None:
            raise NotFound(kind="gpu", id=uuid)
        return self.answer(uuid, chart_cards([gpu], _read_last_hour(request)))


class NodeMetrics(MetricsView):
    scopes = {"GET": ("cluster:read",)}
    operations = {"GET": "get_node_metrics"}

    @described
    def get(self, request: Request, name: str) -> Response:
        """Tell what a machine used: CPU, memory, swap, load, network, its fullest disk; and what each card did."""
        node = find_node(name)
        cards = Gpu.objects.present().filter(node=node).select_related("node").order_by("index")
        return self.answer(name, chart_node(node, cards, _read_last_hour(request)))


class PoolMetrics(MetricsView):
    scopes = {"GET": ("cluster:read",)}
    operations = {"GET": "get_pool_metrics"}

    @described
    def get(self, request: Request, name: str) -> Response:
        """Tell how many GPUs a pool had, how many were held, and how many of these were active, idle or unknown."""
        pool = Pool.objects.filter(name=name).first()
        if pool is None:
            raise NotFound(kind="pool", id=name)
        return self.answer(name, chart_pool(pool.pk, pool.name, _read_last_hour(request)))


class TeamMetrics(MetricsView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_team_metrics"}

    @described
    def get(self, request: Request, name: str) -> Response:
        """Tell how many GPUs one of your teams held, and how many of these were active, idle or unknown."""
        teams = Team.objects.all() if request.user.sees_all else Team.objects.filter(memberships__user=request.user)
        team = teams.filter(name=name).first()
        if team is None:
            raise NotFound(kind="team", id=name)
        return self.answer(name, chart_team(team.pk, team.name, _read_last_hour(request)))


class ServiceMetrics(MetricsView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_service_metrics"}

    @extend_schema(
        parameters=[MetricsQuery], responses={(200, "application/json"): ServiceChartShape, (200, "text/csv"): CSV}
    )
    def get(self, request: Request, service_id: str) -> Response:
        """Tell what a service answered: how often, how fast, how much of it failed, by how many replicas."""
        row = find_service(request.user, service_id)
        chart = show_chart(row.public_id, chart_service(row.pk, row.name, _read_last_hour(request)))
        figures = load_figures(row, steady_now())
        revisions = figures.revisions.items() if figures else ()
        shown = {
            "window_s": WINDOW_S,
            "in_flight": ServiceView(row).in_flight,
            "all": figures and asdict(figures.all),
            "revisions": [{"revision": number, **asdict(one)} for number, one in revisions],
            "cold_starts": ColdStartsShape(load_cold_starts(row)).data,
        }
        return Response(chart | shown)


def read_ask(query: dict[str, Any], start: datetime, end: datetime) -> Ask:
    """Return what is asked for, start and end where the query says none. Raises InvalidInput."""
    end = min(query.get("to", end), timezone.now())
    start = query["from"] if "from" in query else min(start, go_back(end, timedelta(minutes=1)))
    check_period(Period(start, end))
    step_s = query.get("step", int((end - start).total_seconds() / STEP_FOR))
    return Ask(start, end, max(step_s, 1), query.get("metrics", frozenset()))


def show_chart(of: str, chart: Chart) -> dict[str, Any]:
    """Return a chart as pages and API send it; values have two decimals."""
    return {
        "of": of,
        "from": chart.start,
        "to": chart.end,
        "step_s": chart.step_s,
        "series": [
            {
                "key": line.key,
                "name": line.name,
                "metric": line.metric,
                "unit": line.unit,
                "source": line.source,
                "limit": line.limit,
                "values": [None if value != value else value for value in line.values.round(2).tolist()],
            }
            for line in chart.lines
        ],
        "gaps": [{"from": gap.start, "to": gap.end, "why": describe_gap(gap)} for gap in chart.gaps],
        "older": chart.older
        and {"until": chart.older.until, "is_known": not chart.older.fault, "says": describe_older(chart.older)},
    }


def _read_last_hour(request: Request) -> Ask:
    now = timezone.now()
    return read_ask(read_query(request, MetricsQuery), now - timedelta(hours=1), now)
