"""What machines themselves use: the newest, and what is kept of it."""

from datetime import timedelta

from django.utils import timezone

from monitoring.models import NodeNow, Sample
from monitoring.samples.growth import mean_per_s
from monitoring.samples.history import sample_machine
from monitoring.samples.wire import NodeSampled, Tick

RATES = {
    "cpu_milli": "cpu_ms",
    "net_rx_kib_s": "net_rx_kib",
    "net_tx_kib_s": "net_tx_kib",
    "agent_cpu_milli": "agent_cpu_ms",
}
"""How fast totals grow in a second."""


def move_machine(now: NodeNow, ticks: list[Tick]) -> list[Sample]:
    """Move what is known of a machine on to its newest tick; return what to keep of each. The row is not saved.

    Its up_ms is None at the beginning of a run: totals of two runs have nothing to do with each other.
    """
    samples = []
    for tick in ticks:
        if tick.node is not None:
            span_ms = None if now.up_ms is None else tick.up_ms - now.up_ms
            now.use = build_use(now.use, tick.node, span_ms)
            now.at = at = timezone.now() - timedelta(milliseconds=tick.age_ms)
            now.up_ms = tick.up_ms
            samples.append(sample_machine(now.pk, at, span_ms, now.use))
    return samples


def build_use(before: dict, told: NodeSampled, span_ms: int | None) -> dict:
    """Return values, means since the tick before, and disks, of which the fullest counts as disk_centi."""
    use: dict = dict(told.values)
    for rate, total in RATES.items():
        grown = None if span_ms is None else mean_per_s(before.get(total), use.get(total), span_ms)
        use |= {} if grown is None else {rate: grown}
    filled = [
        disk["used_mib"] / disk["all_mib"] for disk in told.disks.values() if disk.get("all_mib") and "used_mib" in disk
    ]
    use |= {"disk_centi": round(10_000 * min(max(filled), 1))} if filled else {}
    return use | {"disks": [{"path": path, **values} for path, values in told.disks.items()]}
