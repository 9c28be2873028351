"""Curves of what PostgreSQL keeps no longer come from a series engine, and no fault of it breaks a chart."""

import json
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from cluster.models import Gpu
from monitoring.engine import reading
from monitoring.models import PackedUntil
from monitoring.series.charts import Ask, Chart, chart_cards, chart_node, chart_pool, chart_team
from monitoring.series.keys import COLUMNS, Key, Kind
from monitoring.series.store import Block, write_blocks
from monitoring.series.tiers import HOURS, floor_time
from scheduler.health.platform_parts import find_engine_faults, list_platform_parts
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


class Engine:
    """Answers each question about a card with `percent` at all times, or with `body`."""

    def __init__(self):
        self.percent, self.card, self.body, self.status = "40", "", None, 200
        self.asked, self.gate = [], threading.Event()
        self.gate.set()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                engine.asked.append((self.path, {name: value for name, (value,) in form.items()}, dict(self.headers)))
                engine.gate.wait(10)
                self.send_response(engine.status)
                self.end_headers()
                self.wfile.write(engine.answer(engine.asked[-1][1]) if engine.body is None else engine.body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, asked: dict[str, str]) -> bytes:
        times = range(int(asked["start"]), int(asked["end"]) + 1, int(asked["step"]))
        labels = {"gpu": self.card, "column": "busy_centi", "source": "estimated"}
        result = [{"metric": labels, "values": [[at, self.percent] for at in times]}]
        return json.dumps({"status": "success", "data": {"result": result if self.percent else []}}).encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def engine(settings, monkeypatch):
    engine = Engine()
    monkeypatch.setattr(reading, "_resting", {})
    settings.TESSERA_REMOTE_READ = {"url": f"{engine.url}/of/us/", "token": "let-me-in"}
    settings.TESSERA_PUBLIC_URL = "https://gpus.example.net"
    settings.TESSERA_KEEP_HOURS_D = 30
    yield engine
    engine.close()


@pytest.fixture
def gpu(engine) -> Gpu:
    """A card that PostgreSQL knows to be 80 % busy since 20 days."""
    gpu = make.cast().gpus[0]
    engine.card = gpu.uuid
    start = floor_time(timezone.now() - 20 * DAY, HOURS.span_s)
    values = np.full((len(COLUMNS[Kind.CARD]), HOURS.span_s // HOURS.step_s), np.nan)
    values[0, (timezone.now() - 20 * DAY - start) // timedelta(hours=1) :] = 8000
    write_blocks(HOURS, {Key(Kind.CARD, gpu.pk): Block(values, values, "measured")}, start)
    PackedUntil.objects.update_or_create(tier="hour", defaults={"until": start + timedelta(seconds=HOURS.span_s)})
    return gpu


def ask(days: float, to_days: float = 0, step_s: int = 3600) -> Ask:
    return Ask(timezone.now() - days * DAY, timezone.now() - to_days * DAY, step_s)


def busy(chart: Chart) -> dict[float, float]:
    """Percents by the days since when they are."""
    (line,) = [line for line in chart.lines if line.metric == "gpu_busy_percent"]
    ages = [(timezone.now() - chart.start) / DAY - slot * chart.step_s / 86_400 for slot in range(len(line.values))]
    return {age: value for age, value in zip(ages, line.values, strict=True) if not np.isnan(value)}


def test_what_is_older_than_is_kept_comes_from_the_engine_and_the_rest_does_not(engine, gpu):
    chart = chart_cards([gpu], ask(60))
    assert chart.older.fault == "" and abs(timezone.now() - 30 * DAY - chart.older.until) < timedelta(hours=1)
    told = busy(chart)
    assert {value for age, value in told.items() if age > 30.1} == {40.0}
    assert {value for age, value in told.items() if 19.9 > age > 1} == {80.0}
    assert not [age for age in told if 29.9 > age > 20.1]
    assert {line.source for line in chart.lines} == {"estimated"}
    ((path, asked, headers),) = engine.asked
    assert path == "/of/us/api/v1/query_range" and headers["Authorization"] == "Bearer let-me-in"
    assert (asked["step"], asked["timeout"]) == ("3600", "2s") and f'gpu=~"{gpu.uuid}' in asked["query"].replace(
        "\\", ""
    )
    assert 'instance="gpus.example.net"' in asked["query"] and int(asked["end"]) < time.time() - 29 * 86_400


def test_a_card_of_which_only_the_engine_knows_has_curves(engine, gpu):
    assert set(busy(chart_cards([gpu], ask(90, 60))).values()) == {40.0}


def test_what_postgresql_still_knows_of_older_times_counts(engine, gpu, settings):
    settings.TESSERA_KEEP_HOURS_D = 10
    told = busy(chart_cards([gpu], ask(60)))
    assert {value for age, value in told.items() if age < 19.9} == {80.0}
    assert {value for age, value in told.items() if age > 20.1} == {40.0}


def test_nothing_is_asked_for_what_is_kept_for_teams_or_without_an_engine(engine, gpu, settings):
    assert chart_cards([gpu], ask(29)).older is None
    settings.TESSERA_KEEP_HOURS_D = 1
    assert chart_cards([gpu], ask(2, step_s=60)).older is None  # minutes are kept for longer
    assert chart_team(make.team("t1").pk, "t1", ask(60)).older is None
    settings.TESSERA_REMOTE_READ = {"url": ""}
    assert chart_cards([gpu], ask(60)).older is None and engine.asked == []


def test_a_machine_asks_once_for_itself_and_all_of_its_cards(engine, gpu):
    chart_node(gpu.node, [gpu], ask(60))
    chart_pool(gpu.pool_id, gpu.pool.name, ask(60))
    (_, machine, _), (_, pool, _) = engine.asked
    assert "tessera_node_cpu_cores" in machine["query"] and "tessera_gpu_busy_percent" in machine["query"]
    assert "tessera_gpu_allocated" in pool["query"] and "tessera_gpu_busy" not in pool["query"]


@pytest.mark.parametrize("status, body, fault", [
    (200, b"<html>", "nonsense"),
    (200, b"x" * (9 << 20), "nonsense"),
    (422, b'{"status":"error"}', "refused"),
    (401, b"", "refused"),
    (302, b"", "refused"),
    (200, b'{"status": "success", "data": {"result": []}}', "nothing"),
])  # fmt: skip
def test_a_faulty_engine_leaves_our_own_curves(status, body, fault, engine, gpu):
    engine.status, engine.body = status, body
    chart = chart_cards([gpu], ask(60))
    assert chart.older.fault == fault and set(busy(chart).values()) == {80.0}


def test_one_that_hangs_is_waited_for_shortly_and_then_left_alone(engine, gpu, monkeypatch):
    monkeypatch.setattr(reading, "ASK_WITHIN_S", 0.3)
    engine.gate.clear()
    began = time.monotonic()
    for _ in range(5):
        chart = chart_cards([gpu], ask(60))
        assert chart.older.fault == "silent" and set(busy(chart).values()) == {80.0}
    assert time.monotonic() - began < 2 and len(engine.asked) == 1
    engine.gate.set()
    monkeypatch.setattr(reading, "_resting", {})
    assert chart_cards([gpu], ask(60)).older.fault == ""


def test_the_answer_of_the_api_says_where_curves_are_from(engine, gpu):
    api = Api(make.token(make.admin()))
    query = {"from": (timezone.now() - 60 * DAY).isoformat(), "step": 3600}
    older = api.get(f"gpus/{gpu.uuid}/metrics", query).json()["older"]
    assert older["is_known"] and older["says"].endswith("the curves are the series engine’s.")
    engine.close()
    answer = api.get(f"gpus/{gpu.uuid}/metrics", query)
    older = answer.json()["older"]
    assert answer.status_code == 200 and not older["is_known"] and older["says"].endswith("does not answer.")
    assert api.get(f"gpus/{gpu.uuid}/metrics").json()["older"] is None


def test_health_names_an_engine_that_does_not_answer(engine):
    engine.card = "of nobody"
    client = Client()
    client.force_login(make.admin())
    (finding,) = find_engine_faults()
    assert finding.tone == "ok" and engine.url.removeprefix("http://") in finding.words
    assert "It answers charts of what is older than is kept here." in client.get("/cluster/health/").content.decode()
    engine.status = 401
    (finding,) = find_engine_faults()
    assert finding.tone == "note" and "refused 401" in finding.words and "TESSERA_REMOTE_READ_URL" in finding.remedy
    assert "It answered with 401." in client.get("/cluster/health/").content.decode()
    engine.close()
    (part,) = [part for part in list_platform_parts() if part.name == "remote read"]
    assert part.tone == "note" and part.state.why == "unreachable"
    assert "let-me-in" not in client.get("/cluster/health/").content.decode()
