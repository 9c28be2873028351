"""What an engine is told of cards, machines and pools: names, labels and units.

Labels are bounded: never a person, a team, a job or a task. Where /metrics of the portal tells the same, names and
labels are the same: an expression that takes the maximum without instance and host counts both once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings

from cluster.models import Gpu, Node, Pool
from monitoring.engine.remote_write import NAME, Series
from monitoring.models import Sample
from monitoring.series.keys import COLUMNS, Kind

KIB, MIB = 1 << 10, 1 << 20
KINDS = (Kind.CARD, Kind.NODE, Kind.POOL)
Labels = dict[str, str]


@dataclass(frozen=True)
class Figure:
    """A column as an engine knows it: its values times `scale`."""

    name: str
    column: str
    scale: float = 1.0
    labels: Labels = field(default_factory=dict)


FIGURES: dict[Kind, tuple[Figure, ...]] = {
    Kind.CARD: (
        Figure("tessera_gpu_busy_percent", "busy_centi", 0.01),
        Figure("tessera_gpu_memory_bytes", "used_mib", MIB),
        Figure("tessera_gpu_temperature_celsius", "temperature_c"),
        Figure("tessera_gpu_power_watts", "power_w"),
        Figure("tessera_gpu_sm_percent", "sm_centi", 0.01),
        Figure("tessera_gpu_tensor_percent", "tensor_centi", 0.01),
        Figure("tessera_gpu_dram_percent", "dram_centi", 0.01),
        Figure("tessera_gpu_pcie_rx_bytes_per_second", "pcie_rx_kib_s", KIB),
        Figure("tessera_gpu_pcie_tx_bytes_per_second", "pcie_tx_kib_s", KIB),
        Figure("tessera_gpu_nvlink_rx_bytes_per_second", "nvlink_rx_kib_s", KIB),
        Figure("tessera_gpu_nvlink_tx_bytes_per_second", "nvlink_tx_kib_s", KIB),
        Figure("tessera_gpu_throttle_percent", "throttle_power_centi", 0.01, {"cause": "power"}),
        Figure("tessera_gpu_throttle_percent", "throttle_heat_centi", 0.01, {"cause": "heat"}),
        Figure("tessera_gpu_throttle_percent", "throttle_brake_centi", 0.01, {"cause": "brake"}),
    ),
    Kind.NODE: (
        Figure("tessera_node_cpu_cores", "cpu_milli", 0.001),
        Figure("tessera_node_memory_bytes", "memory_mib", MIB),
        Figure("tessera_node_swap_bytes", "swap_mib", MIB),
        Figure("tessera_node_load", "load_centi", 0.01),
        Figure("tessera_node_network_rx_bytes_per_second", "net_rx_kib_s", KIB),
        Figure("tessera_node_network_tx_bytes_per_second", "net_tx_kib_s", KIB),
        Figure("tessera_node_disk_used_percent", "disk_centi", 0.01),
        Figure("tessera_agent_cpu_cores", "agent_cpu_milli", 0.001),
        Figure("tessera_agent_memory_bytes", "agent_mib", MIB),
    ),
    Kind.POOL: (
        Figure("tessera_gpus", "capacity_milli", 0.001),
        Figure("tessera_gpu_allocated", "held_milli", 0.001),
        Figure("tessera_gpu_active_allocated", "active_milli", 0.001),
        Figure("tessera_gpu_idle_allocated", "idle_milli", 0.001),
        Figure("tessera_gpu_unknown", "unknown_milli", 0.001),
    ),
}


def name_origin() -> Labels:
    """Return the labels of all that this platform sends, which tell it from another one."""
    return {"job": "tessera", "role": "web", "instance": urlsplit(settings.TESSERA_PUBLIC_URL).netloc}


def load_labels() -> dict[Kind, dict[int, Labels]]:
    """Return the labels of what is there now, by kind and primary key."""
    common = name_origin()
    cards = Gpu.objects.present().values_list("pk", "uuid", "node__name", "index", "pool__name", "model")
    nodes = Node.objects.present().values_list("pk", "name", "pool__name")
    return {
        Kind.CARD: {
            pk: {**common, "gpu": uuid, "node": node, "index": str(index), "pool": pool, "model": model}
            for pk, uuid, node, index, pool, model in cards
        },
        Kind.NODE: {pk: {**common, "node": node, "pool": pool} for pk, node, pool in nodes},
        Kind.POOL: {pk: {**common, "pool": pool} for pk, pool in Pool.objects.values_list("pk", "name")},
    }


def build_series(samples: Iterable[Sample], labels: Mapping[Kind, Mapping[int, Labels]]) -> list[Series]:
    """Return a series for each figure that is known of a subject. samples: of one subject, ascending by time.

    What was estimated or simulated says so in the label `source`, but of pools, of which /metrics does not tell it.
    """
    found: dict[tuple, Series] = {}
    for sample in samples:
        kind = Kind(sample.kind)
        of_subject = labels[kind].get(sample.subject)
        if of_subject is None:
            continue
        told, at_ms = dict(zip(COLUMNS[kind], sample.values, strict=False)), _in_ms(sample.at)
        source = {} if kind == Kind.POOL else {"source": sample.source}
        for place, figure in enumerate(FIGURES[kind]):
            if (value := told.get(figure.column)) is None:
                continue
            key = (kind, sample.subject, sample.source, place)
            if key not in found:
                found[key] = Series({NAME: figure.name, **of_subject, **source, **figure.labels}, [])
            found[key].points.append((at_ms, value * figure.scale))
    return list(found.values())


def _in_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
