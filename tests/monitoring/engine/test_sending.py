"""Samples for a series engine: each is sent once, kept for a quarter of an hour while the engine is away, and what is
dropped is counted.
"""

import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db import connection
from django.utils import timezone

from monitoring.engine.endpoint import Endpoint
from monitoring.engine.sending import CAUGHT_UP, HELD_BACK, LONGEST, choose_span, judge_status, send_samples
from monitoring.models import RemoteWrite
from monitoring.series.keys import Kind
from monitoring.tasks import send
from tests import make
from tests.monitoring.engine.wire import read_body
from tests.monitoring.engine.world import S, card, keep, stand_at

pytestmark = pytest.mark.django_db


class Engine:
    """Answers `status`, and keeps what it was sent with good answers."""

    def __init__(self):
        self.status, self.asked, self.taken, self.headers, self.gate = 204, 0, [], {}, threading.Event()
        self.gate.set()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                engine.asked += 1
                engine.headers = dict(self.headers)
                engine.gate.wait(5)
                if engine.status < 300:
                    engine.taken += read_body(body)
                self.send_response(engine.status)
                self.end_headers()
                self.wfile.write(b"out of bounds" if engine.status >= 400 else b"")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = Endpoint(f"http://127.0.0.1:{self.server.server_port}/api/v1/write")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def list_points(self, name: str) -> list[float]:
        return [value for labels, points in self.taken if dict(labels)["__name__"] == name for _, value in points]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.close()


def test_what_cards_machines_and_pools_do_is_sent_under_bounded_labels(engine, settings):
    cast = make.cast()
    gpu = cast.gpus[0]
    keep(gpu.pk, 60)
    keep(cast.node.pk, 60, kind=Kind.NODE, values=(4000, 2048))
    keep(cast.dev.pk, 60, kind=Kind.POOL, values=(1000, 250, 0, 250, 0))
    keep(cast.nlp.pk, 60, kind=Kind.TEAM, values=(None, 250, 0, 250, 0))
    keep(12345, 60, kind=Kind.TASK, values=(1, 2, 3))
    settings.TESSERA_PUBLIC_URL = "https://gpus.example.net"
    send_samples(engine.endpoint)
    told = {labels[sorted(dict(labels)).index("__name__")][1]: dict(labels) for labels, _ in engine.taken}
    common = {"job": "tessera", "role": "web", "instance": "gpus.example.net"}
    of_card = {"gpu": gpu.uuid, "node": "n1", "index": str(gpu.index), "pool": "dev", "model": gpu.model}
    assert told["tessera_gpu_busy_percent"] == {
        "__name__": "tessera_gpu_busy_percent", **common, **of_card, "source": "measured"
    }  # fmt: skip
    assert told["tessera_gpu_idle_allocated"] == {"__name__": "tessera_gpu_idle_allocated", **common, "pool": "dev"}
    assert engine.list_points("tessera_gpu_busy_percent") == [50.0]
    assert engine.list_points("tessera_gpu_memory_bytes") == [1 << 30]
    assert engine.list_points("tessera_node_memory_bytes") == [2 << 30]
    assert engine.list_points("tessera_gpu_idle_allocated") == [0.25]
    assert "tessera_gpu_temperature_celsius" not in told, "what is not known is absent"
    assert len(engine.taken) == 3 + 2 + 5 and RemoteWrite.objects.get().sent == 10
    assert not {"team", "user", "task"} & {name for labels, _ in engine.taken for name, _ in labels}


def test_each_sample_is_sent_once_in_order_and_what_is_fresh_is_waited_for(engine):
    keep(card(), 1, 45, 100, 200)
    send_samples(engine.endpoint)
    send_samples(engine.endpoint)
    times = [at for labels, points in engine.taken if ("__name__", "tessera_gpu_busy_percent") in labels
             for at, _ in points]  # fmt: skip
    assert len(times) == 3 and times == sorted(times)
    row = RemoteWrite.objects.get()
    assert (row.sent, row.dropped, row.error) == (9, 0, "") and row.sent_at
    assert timezone.now() - row.until < HELD_BACK + 5 * S


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_an_engine_cannot_take_now_is_sent_later(engine, status):
    keep(card(), 60)
    engine.status = status
    send_samples(engine.endpoint)
    row = RemoteWrite.objects.get()
    assert (engine.asked, row.sent, row.dropped, row.error, row.status) == (1, 0, 0, "refused", status)
    engine.status = 204
    send_samples(engine.endpoint)
    assert len(engine.taken) == 3
    row = RemoteWrite.objects.get()
    assert (row.sent, row.dropped, row.error, row.words) == (3, 0, "", "")


def test_what_an_engine_refuses_is_dropped_counted_and_not_sent_again(engine):
    keep(card(), 60)
    engine.status = 400
    send_samples(engine.endpoint)
    row = RemoteWrite.objects.get()
    assert (row.sent, row.dropped, row.status, row.words) == (0, 3, 400, "out of bounds") and row.dropped_at
    engine.status = 204
    send_samples(engine.endpoint)
    assert engine.taken == [] and RemoteWrite.objects.get().dropped == 3


def test_a_quarter_of_an_hour_is_caught_up_and_what_is_older_dropped_and_counted(engine):
    keep(card(), 3000, 2000, 1000, 800, 400, 60)
    stand_at(2500)
    engine.close()
    send_samples(engine.endpoint)
    row = RemoteWrite.objects.get()
    assert (row.error, row.status, row.dropped) == ("unreachable", None, 6), "two samples of three values"
    send_samples(engine.endpoint)
    assert RemoteWrite.objects.get().dropped == 6, "none is counted twice"
    again = Engine()
    send_samples(again.endpoint)
    assert again.list_points("tessera_gpu_busy_percent") == [50.0] * 3
    assert RemoteWrite.objects.get().sent == 9
    again.close()


def test_a_round_ends_after_its_time_and_the_next_goes_on(engine):
    keep(card(), 800, 400, 60)
    stand_at(890)
    ticks = iter(range(0, 1000, 2))
    send_samples(engine.endpoint, clock=lambda: next(ticks))
    assert len(engine.list_points("tessera_gpu_power_watts")) < 3
    send_samples(engine.endpoint)
    assert len(engine.list_points("tessera_gpu_power_watts")) == 3


@pytest.mark.django_db(transaction=True)
def test_two_processes_do_not_send_the_same(engine):
    keep(card(), 60)
    stand_at(120)
    engine.gate.clear()

    def work():
        send_samples(engine.endpoint)
        connection.close()

    first = threading.Thread(target=work)
    first.start()
    while not engine.asked:
        pass
    send_samples(engine.endpoint)
    assert engine.asked == 1
    engine.gate.set()
    first.join(10)
    assert len(engine.taken) == 3 and RemoteWrite.objects.get().sent == 3


def test_the_task_sends_with_the_credentials_of_the_settings(engine, settings):
    keep(card(), 60)
    settings.TESSERA_REMOTE_WRITE = {"url": ""}
    send()
    assert not RemoteWrite.objects.exists()
    settings.TESSERA_REMOTE_WRITE = {"url": engine.endpoint.url, "user": "ada", "password": "päss:word"}
    send()
    assert engine.headers["Authorization"] == "Basic YWRhOnDDpHNzOndvcmQ="
    assert engine.headers["Content-Encoding"] == "snappy"
    assert engine.headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"
    settings.TESSERA_REMOTE_WRITE = {"url": engine.endpoint.url, "token": "t0k"}
    keep(card("n2"), 45)
    stand_at(60)
    send()
    assert engine.headers["Authorization"] == "Bearer t0k"


def test_spans_and_answers():
    now = timezone.now()
    assert choose_span(now - HELD_BACK, now) is None
    assert choose_span(now - HELD_BACK - S, now).end == now - HELD_BACK
    late = choose_span(now - timedelta(hours=2), now)
    assert (late.start, late.end) == (now - CAUGHT_UP, now - CAUGHT_UP + LONGEST)
    assert [judge_status(status) for status in (200, 204, 301, 400, 404, 429, 500)] == [
        True, True, False, False, False, None, None
    ]  # fmt: skip
