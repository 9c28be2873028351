"""What a machine uses: means by totals, across a restart of its agent, and what is kept and shown of it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.models import NodeNow, Sample
from monitoring.samples.ingest import take_samples
from monitoring.samples.newest import KNOWN_FOR, load_node_uses
from monitoring.samples.wire import read_body
from monitoring.series.keys import COLUMNS, Kind
from tests import make

pytestmark = pytest.mark.django_db
DISKS = [
    {"path": "/", "used_mib": 50, "all_mib": 200, "read_only": True},
    {"path": "/data", "used_mib": 3, "all_mib": 4},
]


@pytest.fixture
def node():
    return make.cast().node


def tell(node, seq: int, run: str = "boot/1", *, age_ms: int = 0, **told) -> None:
    tick = {"seq": seq, "age_ms": age_ms, "up_ms": 10_000 * seq, "cards": [], "tasks": [], "node": told}
    assert not take_samples(node, {"run": run, "ticks": [tick]}).refused


def use_of(node):
    return load_node_uses([node.pk]).get(node.pk)


def test_means_are_differences_of_totals_and_the_fullest_disk_is_kept(node):
    tell(node, 1, cpu_ms=1000, cores=4, memory_mib=900, load_centi=150, net_rx_kib=10, disks=DISKS)
    assert (use_of(node).cpu_milli, use_of(node).load) == (None, 1.5)
    tell(node, 2, cpu_ms=16_000, cores=4, memory_mib=950, load_centi=75, net_rx_kib=5130, disks=DISKS)
    use = use_of(node)
    assert (use.cpu_milli, use.cores, use.memory_mib, use.net_rx_kib_s, use.net_tx_kib_s) == (1500, 4, 950, 512, None)
    assert [(disk.path, disk.read_only) for disk in use.disks] == [("/", True), ("/data", None)]
    kept = Sample.objects.filter(kind=Kind.NODE, subject=node.pk).order_by("at").last()
    told = dict(zip(COLUMNS[Kind.NODE], kept.values, strict=True))
    assert (told["cpu_milli"], told["disk_centi"], told["swap_mib"], kept.span_ms) == (1500, 7500, None, 10_000)


def test_a_restart_of_the_agent_makes_no_spike_and_no_zero(node):
    tell(node, 5, cpu_ms=1000)
    tell(node, 1, "boot/2", cpu_ms=900_000)
    assert use_of(node).cpu_milli is None
    tell(node, 2, "boot/2", cpu_ms=901_000)
    assert use_of(node).cpu_milli == 100


def test_a_tick_that_tells_nothing_of_the_machine_leaves_what_was_known_until_it_is_old(node):
    tell(node, 1, cpu_ms=1000, memory_mib=900)
    tell(node, 2)
    assert use_of(node).memory_mib == 900
    NodeNow.objects.update(at=timezone.now() - KNOWN_FOR - timedelta(seconds=1))
    assert use_of(node) is None


def test_what_is_no_sense_of_a_machine_is_dropped_and_the_rest_is_taken():
    told = {"cpu_ms": -1, "memory_mib": 5, "disks": [{"path": "/", "used_mib": "x", "read_only": 1}, {"path": ""}]}
    tick = {"seq": 1, "age_ms": 0, "up_ms": 1, "node": told}
    body = read_body({"run": "r", "ticks": [tick, tick | {"seq": 2, "node": []}, tick | {"seq": 3, "node": 7}]})
    assert body.refused == {"cpu_ms": 1, "used_mib": 1, "read_only": 1, "disks": 1, "node": 2}
    assert (body.ticks[0].node.values, body.ticks[0].node.disks) == ({"memory_mib": 5}, {"/": {}})
    assert [tick.node for tick in body.ticks[1:]] == [None, None]
