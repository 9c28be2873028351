"""Debian's own Prometheus and VictoriaMetrics take what is sent, and tell it back by PromQL."""

import pytest

from cluster.models import Gpu
from monitoring.engine.endpoint import Endpoint
from monitoring.engine.sending import send_samples
from monitoring.models import RemoteWrite
from monitoring.series.keys import Kind
from tests.monitoring.engine.world import card, keep, stand_at
from tests.runtimes.worlds import wait_for
from tests.series_engines import Prometheus, VictoriaMetrics

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture(params=[Prometheus, VictoriaMetrics])
def engine(request, tmp_path):
    engine = request.param(tmp_path)
    engine.wait_until_it_answers()
    yield engine
    engine.stop()


def test_samples_are_read_back_by_promql(engine):
    gpu = Gpu.objects.get(pk=card())
    keep(gpu.pk, 70, 60, 50, values=(5000, 1024, 41, 250))
    keep(gpu.pool_id, 60, kind=Kind.POOL, values=(1000, 250, 0, 250, 0))
    send_samples(Endpoint(f"{engine.url}/api/v1/write"))
    row = RemoteWrite.objects.get()
    assert (row.error, row.words, row.sent, row.dropped) == ("", "", 17, 0)
    (busy,) = wait_for(lambda: engine.query("tessera_gpu_busy_percent"), 30)
    assert busy["value"][1] == "50"
    named = {"gpu": gpu.uuid, "node": "n1", "pool": "pool-n1", "model": gpu.model, "source": "measured"}
    assert busy["metric"].items() >= named.items()
    assert engine.query("sum by (pool) (tessera_gpu_memory_bytes)")[0]["value"][1] == str(1 << 30)
    assert engine.query("tessera_gpu_idle_allocated / tessera_gpus")[0]["value"][1] == "0.25"
    assert engine.query("count_over_time(tessera_gpu_power_watts[5m])")[0]["value"][1] == "3"


def test_what_was_sent_twice_is_there_once(engine):
    """As after a process was killed before it wrote down what it had sent."""
    keep(card(), 60)
    for _ in range(2):
        stand_at(120)
        send_samples(Endpoint(f"{engine.url}/api/v1/write"))
    row = RemoteWrite.objects.get()
    assert (row.error, row.sent) == ("", 6)
    count = "count_over_time(tessera_gpu_busy_percent[10m])"
    assert wait_for(lambda: engine.query(count), 30)[0]["value"][1] == "1"


def test_what_came_while_the_engine_was_away_is_there_afterwards(engine):
    endpoint, subject = Endpoint(f"{engine.url}/api/v1/write"), card()
    keep(subject, 400)
    send_samples(endpoint)
    engine.stop()
    keep(subject, 60, 200, 300)
    stand_at(350)
    send_samples(endpoint)
    assert RemoteWrite.objects.get().error == "unreachable"
    engine.start()
    engine.wait_until_it_answers()
    send_samples(endpoint)
    row = RemoteWrite.objects.get()
    assert (row.error, row.dropped) == ("", 0)
    count = "count_over_time(tessera_gpu_busy_percent[30m])"
    wait_for(lambda: [one["value"][1] for one in engine.query(count)] == ["4"], 30)
