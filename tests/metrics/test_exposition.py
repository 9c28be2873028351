"""The text of a process's metrics, who gets it, and that a worker's children count in it."""

import http.client
import os
import subprocess
import sys

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from metrics.exposition import (
    build_families,
    is_scraper,
    render_metrics,
    serve_metrics,
    serve_where_told,
    split_address,
)
from metrics.process import SAMPLES_REFUSED

CHILD = """
import os
from metrics.exposition import render_metrics
from metrics.process import SAMPLES_TAKEN
SAMPLES_TAKEN.inc(2)
if os.fork() == 0:
    SAMPLES_TAKEN.inc(5)
    os._exit(0)
os.wait()
print(render_metrics().decode())
"""


def read(text: bytes) -> dict[str, float]:
    families = text_string_to_metric_families(text.decode())
    return {
        sample.name + "".join(sorted(map(str, sample.labels.values()))): sample.value
        for family in families
        for sample in family.samples
    }


def fetch(port: int, path: str, token: str = "") -> int:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    asked.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    return asked.getresponse().status


def test_what_was_counted_and_what_is_computed_stand_side_by_side():
    SAMPLES_REFUSED.labels("a test").inc(3)
    more = GaugeMetricFamily("tessera_of_a_test", "It.", labels=["pool"])
    more.add_metric(['a "quoted" pool'], 7)
    told = read(render_metrics(lambda: [more]))
    assert told["tessera_samples_refused_totala test"] >= 3
    assert told['tessera_of_a_testa "quoted" pool'] == 7


def test_a_worker_counts_what_its_children_did():
    env = {**os.environ, "TESSERA_ROLE": "worker", "TESSERA_METRICS_LISTEN": "127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, check=True)
    assert read(done.stdout)["tessera_samples_taken_total"] == 7


def test_measures_with_labels_become_families():
    found = build_families({'one_total{kind="a",code="200"}': 3, 'one_total{kind="b",code="404"}': 1, "two": 5}, {})
    told = read(render_metrics(lambda: found))
    assert (told["one_total200a"], told["one_total404b"], told["two"]) == (3, 1, 5)


@pytest.mark.parametrize(
    ("sent", "token", "known"),
    [
        ("Bearer secret", "secret", True),
        ("bearer  secret ", "secret", True),
        ("Bearer other", "secret", False),
        ("secret", "secret", False),
        ("Bearer ", "", False),
        ("", "", False),
    ],
)
def test_only_the_token_opens_it_and_no_token_opens_nothing(sent, token, known):
    assert is_scraper(sent, token) is known


def test_the_small_server_asks_for_the_token_and_answers_probes_without_it():
    server = serve_metrics("127.0.0.1", 0, token="secret", is_live=lambda: False)
    try:
        port = server.server_port
        assert (fetch(port, "/metrics"), fetch(port, "/metrics", "secret")) == (401, 200)
        assert (fetch(port, "/livez"), fetch(port, "/else")) == (503, 404)
        assert serve_where_told(f"127.0.0.1:{port}", "") is None  # it is taken: the process goes on
    finally:
        server.shutdown()
        server.server_close()


def test_where_to_listen():
    assert (split_address("0.0.0.0:9090"), split_address("[::1]:80")) == (("0.0.0.0", 9090), ("::1", 80))
    assert serve_where_told("", "") is None and serve_where_told("nonsense", "") is None
