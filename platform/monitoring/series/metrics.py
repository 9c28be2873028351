"""Columns of series as people read them: their names and units."""

from dataclasses import dataclass

from monitoring.series.keys import AMOUNTS, Kind


@dataclass(frozen=True)
class Metric:
    """A column as it is shown: its values times `scale`. optional: there is no line where nothing of it is known."""

    name: str
    unit: str
    column: str
    scale: float = 1.0
    optional: bool = False


CARD_COUNTERS = (
    Metric("sm_percent", "%", "sm_centi", 0.01, optional=True),
    Metric("tensor_percent", "%", "tensor_centi", 0.01, optional=True),
    Metric("dram_percent", "%", "dram_centi", 0.01, optional=True),
    Metric("pcie_rx_kib_s", "KiB/s", "pcie_rx_kib_s", optional=True),
    Metric("pcie_tx_kib_s", "KiB/s", "pcie_tx_kib_s", optional=True),
    Metric("nvlink_rx_kib_s", "KiB/s", "nvlink_rx_kib_s", optional=True),
    Metric("nvlink_tx_kib_s", "KiB/s", "nvlink_tx_kib_s", optional=True),
    Metric("throttle_power_percent", "%", "throttle_power_centi", 0.01, optional=True),
    Metric("throttle_heat_percent", "%", "throttle_heat_centi", 0.01, optional=True),
    Metric("throttle_brake_percent", "%", "throttle_brake_centi", 0.01, optional=True),
)
"""What only some cards tell."""


METRICS: dict[Kind, tuple[Metric, ...]] = {
    Kind.SHARE: (Metric("gpu_busy_percent", "%", "busy_centi", 0.01), Metric("gpu_memory_mib", "MiB", "used_mib")),
    Kind.TASK: (
        Metric("cpu_cores", "cores", "cpu_milli", 0.001),
        Metric("memory_mib", "MiB", "memory_mib"),
        Metric("read_kib_s", "KiB/s", "read_kib_s"),
        Metric("write_kib_s", "KiB/s", "write_kib_s"),
        Metric("net_rx_kib_s", "KiB/s", "net_rx_kib_s"),
        Metric("net_tx_kib_s", "KiB/s", "net_tx_kib_s"),
    ),
    Kind.CARD: (
        Metric("gpu_busy_percent", "%", "busy_centi", 0.01),
        Metric("gpu_memory_mib", "MiB", "used_mib"),
        Metric("temperature_c", "°C", "temperature_c"),
        Metric("power_w", "W", "power_w"),
        *CARD_COUNTERS,
    ),
    Kind.NODE: (
        Metric("cpu_cores", "cores", "cpu_milli", 0.001),
        Metric("memory_mib", "MiB", "memory_mib"),
        Metric("swap_mib", "MiB", "swap_mib"),
        Metric("load", "", "load_centi", 0.01),
        Metric("net_rx_kib_s", "KiB/s", "net_rx_kib_s"),
        Metric("net_tx_kib_s", "KiB/s", "net_tx_kib_s"),
        Metric("disk_used_percent", "%", "disk_centi", 0.01),
        Metric("agent_cpu_cores", "cores", "agent_cpu_milli", 0.001),
        Metric("agent_memory_mib", "MiB", "agent_mib"),
    ),
    Kind.POOL: tuple(Metric(name.replace("_milli", "_gpus"), "GPUs", name, 0.001) for name in AMOUNTS),
    Kind.TEAM: tuple(Metric(name.replace("_milli", "_gpus"), "GPUs", name, 0.001) for name in AMOUNTS[1:]),
    Kind.SERVICE: (
        Metric("requests_per_s", "/s", "requests_milli_s", 0.001),
        Metric("errors_per_s", "/s", "errors_milli_s", 0.001),
        Metric("p50_ms", "ms", "p50_us", 0.001),
        Metric("p95_ms", "ms", "p95_us", 0.001),
        Metric("in_flight", "", "in_flight_centi", 0.01),
        Metric("replicas", "", "replicas_centi", 0.01),
        Metric("ready_replicas", "", "ready_centi", 0.01),
    ),
}
NAMES = frozenset(metric.name for metrics in METRICS.values() for metric in metrics)
