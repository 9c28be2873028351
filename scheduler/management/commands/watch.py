"""Reconcile with a runtime that reports changes. One process leads, others stand by."""

import signal
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string
from kombu.exceptions import OperationalError as BrokerAway

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
            server = serve_metrics(watch, options["host"], options["port"]) if options["port"] else None
            try:
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


def serve_metrics(watch: WatchLoop, host: str, port: int) -> ThreadingHTTPServer:
    """Serve /metrics (Prometheus) and /livez (200 or 503)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                lines = "".join(f"{name} {value:g}\n" for name, value in sorted(watch.measures().items()))
                self._send_status(200, lines)
            elif self.path == "/livez":
                live = watch.is_live()
                self._send_status(200 if live else 503, "ok\n" if live else "blind\n")
            else:
                self._send_status(404, "not found\n")

        def _send_status(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Log no probes."""

    server = ThreadingHTTPServer((host, port), Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
