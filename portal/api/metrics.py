"""`GET /metrics`: this process and the platform, in the text format of Prometheus."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import connection
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from cluster.agents import SILENT_AFTER
from cluster.models import Agent, Node
from common.errors import NotPermitted
from metrics.exposition import CONTENT_TYPE, is_scraper, render_metrics
from monitoring.models import ProcessNow
from monitoring.presence import MISSED_AFTER
from portal.api.authentication import SessionAuthentication, TokenAuthentication
from portal.api.view import ApiView
from scheduler.preview.platform_metrics import build_platform_families, build_task_families

SCRAPE, TASKS = "metrics:scrape", "metrics:tasks"


class Scraper:
    """`request.user` and `request.auth` of who sends TESSERA_METRICS_TOKEN."""

    is_authenticated = True
    pk = "scraper"
    scopes = (SCRAPE,)


class ScraperAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Scraper, Scraper] | None:
        if not is_scraper(request.headers.get("Authorization", ""), settings.TESSERA_METRICS_TOKEN):
            return None
        caller = Scraper()
        return caller, caller

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tessera"'


class TextRenderer(BaseRenderer):
    media_type, format, charset = "text/plain", "txt", "utf-8"

    def render(self, data: Any, *_: Any, **__: Any) -> bytes:
        return b""


class Metrics(ApiView):
    authentication_classes = [ScraperAuthentication, TokenAuthentication, SessionAuthentication]
    renderer_classes = [TextRenderer]
    scopes = {"GET": (SCRAPE,)}

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Tell metrics. ?tasks=1: also what running tasks use, with their jobs and teams."""
        if not isinstance(request.user, Scraper):
            require(request.user, "platform.read")
        with_tasks = request.query_params.get("tasks") == "1"
        if with_tasks and request.auth is not None and TASKS not in request.auth.scopes:
            raise NotPermitted("missing_scope", scope=TASKS)

        def more() -> Iterator[Metric]:
            yield from _measure_pool()
            yield from build_platform_families()
            yield from build_task_families() if with_tasks else ()

        return HttpResponse(render_metrics(more), content_type=CONTENT_TYPE)


class Target(serializers.Serializer):
    """Addresses that Prometheus is to ask, of one kind (http_sd_config)."""

    targets = serializers.ListField(child=serializers.CharField())
    labels = serializers.DictField(child=serializers.CharField())


class Targets(ApiView):
    authentication_classes = [ScraperAuthentication, TokenAuthentication, SessionAuthentication]
    scopes = {"GET": (SCRAPE,)}

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        """Name the processes and agents that tell metrics, for http_sd_configs of Prometheus."""
        if not isinstance(request.user, Scraper):
            require(request.user, "platform.read")
        found = [
            {"targets": [process.metrics], "labels": {"role": process.role, "host": process.host}}
            for process in ProcessNow.objects.exclude(metrics="").filter(seen_at__gt=timezone.now() - MISSED_AFTER)
        ]
        alone = list({str(each): each for each in found}.values())  # web processes behind one address are one target
        return Response(Target([*alone, *_list_agents()], many=True).data)


def _list_agents() -> Iterator[dict[str, Any]]:
    """Yield agents that others can ask, at the addresses of their machines."""
    addresses = dict(Node.objects.present().exclude(address="").values_list("name", "address"))
    rows = Agent.objects.filter(revoked_at=None, reported_at__gt=timezone.now() - SILENT_AFTER)
    for name, port in rows.order_by("node_name").values_list("node_name", "report__metrics_port"):
        if port and name in addresses:
            yield {"targets": [f"{addresses[name]}:{port}"], "labels": {"role": "agent", "host": name}}


def _measure_pool() -> Iterator[Metric]:
    """Tell how long this process's requests waited for a connection of its pool."""
    if (pool := getattr(connection, "pool", None)) is None:
        return
    told = pool.get_stats()
    waited = CounterMetricFamily("tessera_db_pool_wait_seconds_total", "Time that waited for a connection of the pool.")
    waited.add_metric([], told.get("requests_wait_ms", 0) / 1000)
    waiting = GaugeMetricFamily("tessera_db_pool_waiting", "Requests that wait for a connection of the pool now.")
    waiting.add_metric([], told.get("requests_waiting", 0))
    yield from (waited, waiting)
