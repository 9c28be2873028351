"""Debian's own Prometheus and VictoriaMetrics take what is sent, and tell it back by PromQL."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Gpu
from monitoring.engine.endpoint import Endpoint
from monitoring.engine.reading import ask_engine
from monitoring.engine.sending import send_samples
from monitoring.models import RemoteWrite, Sample
from monitoring.series.charts import Ask, chart_cards, chart_node, chart_pool
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


def test_what_was_sent_is_drawn_in_charts_once_postgresql_has_it_no_longer(engine, settings):
    settings.TESSERA_KEEP_HOURS_D, settings.TESSERA_REMOTE_READ = 0, {"url": engine.url}
    gpu = Gpu.objects.select_related("node", "pool").get(pk=card('we"ird\\n.1'))
    other = Gpu.objects.get(pk=card("n2"))
    brake = [None] * 13 + [2500]
    keep(gpu.pk, 70, 60, 50, values=(5000, 1024, 41, None, *brake[4:]))
    keep(other.pk, 60, values=(9000,))
    keep(gpu.node_id, 60, kind=Kind.NODE, values=(4000, 2048))
    keep(gpu.pool_id, 60, kind=Kind.POOL, values=(1000, 250, 0, 250, 0))
    send_samples(Endpoint(f"{engine.url}/api/v1/write"))
    assert RemoteWrite.objects.get().error == "" and ask_engine().answers
    Sample.objects.all().delete()
    ask = Ask(timezone.now() - timedelta(hours=5), timezone.now(), 3600)

    def read(chart) -> dict:
        assert chart.older is not None and chart.older.fault in ("", "nothing")
        told = [
            (f"{line.key.partition(':')[0]} {line.metric}", line.values[line.values == line.values])
            for line in chart.lines
        ]
        return {name: round(float(values.mean()), 3) for name, values in told if len(values)}

    wait_for(lambda: read(chart_cards([gpu], ask)), 30)
    assert read(chart_cards([gpu], ask)) == {
        "card gpu_busy_percent": 50, "card gpu_memory_mib": 1024, "card temperature_c": 41,
        "card throttle_brake_percent": 25,
    }  # fmt: skip
    assert read(chart_cards([other], ask)) == {"card gpu_busy_percent": 90}
    of_node = read(chart_node(gpu.node, [gpu], ask))
    assert (of_node["node cpu_cores"], of_node["node memory_mib"], of_node["card gpu_busy_percent"]) == (4, 2048, 50)
    of_pool = read(chart_pool(gpu.pool_id, gpu.pool.name, ask))
    assert (of_pool["pool capacity_gpus"], of_pool["pool held_gpus"], of_pool["pool idle_gpus"]) == (1, 0.25, 0.25)
    settings.TESSERA_PUBLIC_URL = "https://another-platform.example.net"
    assert read(chart_pool(gpu.pool_id, gpu.pool.name, ask)) == {}
