"""Reconcile with a runtime that reports changes. One process leads, others stand by."""

import signal
import threading
from collections.abc import Sequence
from functools import partial
from http.server import ThreadingHTTPServer
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string
from kombu.exceptions import OperationalError as BrokerAway
from prometheus_client.core import Metric

from metrics.exposition import build_families, serve_metrics
from monitoring.presence import present
from runtimes.contract.errors import Unavailable
from scheduler import tasks
from scheduler.reconcile.actions import FencedAction, encode_action
from scheduler.reconcile.watch_loop import WatchLoop, WatchStale
from scheduler.runtime import get_runtime

EXPIRES_S = 10
LAST = 9
"""Lowest of Redis priorities (0 is highest): the loops' short-lived messages must not wait for the actions of a
thousand ending pods, which can keep all workers busy for minutes.
"""


HELP_TEXTS = {
    "tessera_loop_last_ok_age_seconds": "Time since the last round.",
    "tessera_watch_rounds_total": "Rounds that compared rows with what runs.",
    "tessera_watch_handed_out": "Starts and stops that workers were given and that are not seen yet.",
    "tessera_view_age_seconds": "Age of what is known of the cluster.",
    "tessera_watch_restarts_total": "Lists and watches that began anew.",
    "tessera_kube_requests_total": "Requests to the cluster, by answer.",
}


class Command(BaseCommand):
    help = "Follow the cluster and keep it in step with the queue. Ends with 1 where it has become blind."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=0, help="tell /metrics and /livez there; 0 = nowhere")
        parser.add_argument("--host", default="127.0.0.1", help="the address for --port")

    def handle(self, *args: Any, **options: Any) -> None:
        runtime = get_runtime()
        if not runtime.capabilities.view:
            raise CommandError(f"The runtime {runtime.capabilities.name} is asked by the workers: it needs no watch.")
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        with import_string(runtime.capabilities.view)(runtime) as view:
            watch = WatchLoop(view, send, ended)
            metrics = f"{options['host']}:{options['port']}" if options["port"] else ""
            server = serve_watch(watch, options["host"], options["port"]) if options["port"] else None
            try:
                with present("watch", metrics):
                    watch.run()
            except WatchStale as words:
                raise CommandError(str(words)) from words
            finally:
                if server is not None:
                    server.shutdown()
                    server.server_close()


def send(orders: Sequence[FencedAction]) -> None:
    """Send actions to Celery. Raise Unavailable if the broker is away."""
    try:
        messages = [encode_action(order) for order in orders]
        tasks.act.apply_async((messages,), queue="default", priority=LAST, expires=EXPIRES_S, retry=False)
    except BrokerAway as away:
        raise Unavailable(f"The broker does not answer: {away}") from away


def serve_watch(watch: WatchLoop, host: str, port: int) -> ThreadingHTTPServer:
    """Serve /metrics (Prometheus) and /livez (200 or 503)."""
    more = partial(_build_watch_families, watch)
    return serve_metrics(host, port, token=settings.TESSERA_METRICS_TOKEN, is_live=watch.is_live, more=more)


def _build_watch_families(watch: WatchLoop) -> list[Metric]:
    return build_families(watch.measures(), HELP_TEXTS)
