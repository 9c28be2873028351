"""The metrics of a process in the text format of Prometheus, and the small server of processes that have no other."""

import hmac
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, REGISTRY, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from metrics.children import is_shared

log = logging.getLogger("tessera.metrics")

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
LABEL = re.compile(r'(\w+)="([^"]*)"')
BEARER = "bearer "


class Families(Collector):
    """Families that are computed at each scrape."""

    def __init__(self, build: Callable[[], Iterable[Metric]]):
        self._build = build

    def collect(self) -> Iterable[Metric]:
        return self._build()


def render_metrics(more: Callable[[], Iterable[Metric]] = lambda: ()) -> bytes:
    """Return what this process and its children counted, and `more`."""
    registry = CollectorRegistry()
    if is_shared():
        MultiProcessCollector(registry)
        ProcessCollector(registry=registry)
    else:
        registry.register(Families(REGISTRY.collect))
    registry.register(Families(more))
    return generate_latest(registry)


def build_families(measures: Mapping[str, float], help_texts: Mapping[str, str]) -> list[Metric]:
    """Return families of {`name{label="value"}`: value}. What ends with _total is a counter."""
    families: dict[str, Metric] = {}
    for told, value in sorted(measures.items()):
        name, _, rest = told.partition("{")
        labels = dict(LABEL.findall(rest))
        if name not in families:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            families[name] = kind(name, help_texts.get(name, "See the documentation."), labels=list(labels))
        families[name].add_metric(list(labels.values()), value)  # type: ignore[attr-defined]
    return list(families.values())


def is_scraper(authorization: str, token: str) -> bool:
    """Return whether a header of a request carries the token; without one nobody does."""
    sent = authorization[len(BEARER) :] if authorization.lower().startswith(BEARER) else ""
    return bool(token) and hmac.compare_digest(sent.strip().encode(), token.encode())


def split_address(text: str) -> tuple[str, int]:
    """Read `host:port`. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


def serve_where_told(address: str, token: str) -> ThreadingHTTPServer | None:
    """Serve at `host:port`, where there is such a wish. A process whose metrics cannot be served goes on without."""
    if not address:
        return None
    try:
        return serve_metrics(*split_address(address), token=token)
    except (OSError, ValueError) as wrong:
        log.warning("metrics are not told at %r: %s", address, wrong)
        return None


def serve_metrics(
    host: str,
    port: int,
    *,
    token: str = "",
    is_live: Callable[[], bool] = lambda: True,
    more: Callable[[], Iterable[Metric]] = lambda: (),
) -> ThreadingHTTPServer:
    """Serve /metrics and /livez (200 or 503) in a thread. token: /metrics asks for it, unless it is empty."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/livez":
                live = is_live()
                self._send(200 if live else 503, b"ok\n" if live else b"blind\n")
            elif path != "/metrics":
                self._send(404, b"not found\n")
            elif token and not is_scraper(self.headers.get("Authorization", ""), token):
                self._send(401, b"a token is needed\n")
            else:
                self._send(200, render_metrics(more), CONTENT_TYPE)

        def _send(self, status: int, text: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log no probes."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
