"""`--metrics HOST:PORT`: the cards and shares of this machine, in the text format of Prometheus."""

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agent.daemon.report import VERSION
from agent.gpu.dcgm_fields import FIELDS, PREFIX, PROFILED, PROFILED_PREFIX, XID_ERRORS, CardValues, Field

log = logging.getLogger("tessera.agent")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KEPT_S = 1.0
"""Several who ask at once are answered from one reading."""
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
Labels = Mapping[str, str]


class Exporter:
    """list_shares: tasks with their shares, as in a tick. read_xids: the last XID by card; None if none is heard."""

    def __init__(
        self,
        list_shares: Callable[[], list[dict[str, Any]]],
        read_xids: Callable[[], Mapping[str, int] | None],
        read: Callable[[], tuple[str, list[CardValues]]],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._list_shares, self._read_xids, self._read, self._clock = list_shares, read_xids, read, clock
        self._lock, self._read_at = threading.Lock(), float("-inf")
        self._text = ""
        self._busy: dict[tuple[str, str], tuple[float, int]] = {}
        self._percent: dict[tuple[str, str], float] = {}

    def render(self) -> str:
        with self._lock:
            if self._clock() - self._read_at >= KEPT_S:
                self._text = "".join(self._list_lines())
                self._read_at = self._clock()
            return self._text

    def _list_lines(self) -> Iterator[str]:
        driver, cards = self._read()
        yield from _render("tessera_agent_info", INFO, [({"version": VERSION}, 1.0)])
        common = {"Hostname": socket.gethostname()} | ({"DCGM_FI_DRIVER_VERSION": driver} if driver else {})
        for field in FIELDS:
            told = [(_label(card, common), card.values[field.name]) for card in cards if field.name in card.values]
            yield from _render(PREFIX + field.name, field, told)
        for field in PROFILED.values():
            told = [(_label(card, common), card.profiled[field.name]) for card in cards if field.name in card.profiled]
            yield from _render(PROFILED_PREFIX + field.name, field, told)
        if (xids := self._read_xids()) is not None:
            told = [(_label(card, common), float(xids.get(card.uuid, 0))) for card in cards]
            yield from _render(PREFIX + XID_ERRORS.name, XID_ERRORS, told)
        yield from self._list_share_lines({card.uuid: str(card.index) for card in cards})

    def _list_share_lines(self, places: Mapping[str, str]) -> Iterator[str]:
        percents, seconds, memory = [], [], []
        for task in self._list_shares():
            for share in task["shares"]:
                labels = {"task": task["task"], "gpu": places.get(share["uuid"], ""), "UUID": share["uuid"]}
                labels["source"] = share["source"]
                memory.append((labels, float(share["used_mib"] << 20)))
                if "busy_ms" in share:
                    seconds.append((labels, share["busy_ms"] / 1000))
                    percent = self._mean_percent((task["task"], share["uuid"]), share["busy_ms"])
                    percents.extend([(labels, percent)] if percent is not None else [])
        yield from _render("tessera_share_busy_percent", SHARE_PERCENT, percents)
        yield from _render("tessera_share_busy_seconds_total", SHARE_SECONDS, seconds)
        yield from _render("tessera_share_memory_bytes", SHARE_MEMORY, memory)

    def _mean_percent(self, key: tuple[str, str], busy_ms: int) -> float | None:
        """Return the mean since the reading before; None after the first."""
        now, before = self._clock(), self._busy.get(key)
        self._busy[key] = now, busy_ms
        if before is None or now <= before[0] or busy_ms < before[1]:
            return None
        return min((busy_ms - before[1]) / (now - before[0]) / 10, 100.0)


INFO = Field("", "The agent's version.")
SHARE_PERCENT = Field("", "Part of the card's time that a task took since the reading before, in percent.")
SHARE_SECONDS = Field("", "Time of the card that a task took.", counter=True)
SHARE_MEMORY = Field("", "GPU memory of a task on the card.")


def serve_metrics(host: str, port: int, render: Callable[[], str]) -> ThreadingHTTPServer:
    """Serve /metrics in a thread. Raises OSError, in words where the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            text = (render() if found else "metrics are at /metrics\n").encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log no scrapes."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise OSError(f"port {port} of --metrics is taken, as 9400 is by dcgm-exporter: name another") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    log.info("metrics are told at http://%s:%s/metrics", host, server.server_port)
    return server


def _label(card: CardValues, common: Labels) -> Labels:
    """Return the labels that dcgm-exporter gives a card."""
    own = {"gpu": str(card.index), "UUID": card.uuid, "pci_bus_id": card.bus, "device": f"nvidia{card.index}"}
    return {**own, "modelName": card.product, **common}


def _render(name: str, field: Field, told: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    """Yield a family's lines; none if nobody tells it."""
    lines = [
        f"{name}{{{','.join(f'{key}={chr(34)}{value.translate(ESCAPED)}{chr(34)}' for key, value in labels.items())}}}"
        f" {value:.15g}\n"
        for labels, value in told
    ]
    if lines:
        yield f"# HELP {name} {field.words}\n# TYPE {name} {'counter' if field.counter else 'gauge'}\n"
        yield from lines
