"""What a series is of, and the columns of each kind."""

from dataclasses import dataclass

from django.db.models import IntegerChoices


class Kind(IntegerChoices):
    CARD = 1
    TASK = 2
    SHARE = 3
    NODE = 4
    POOL = 5
    TEAM = 6
    SERVICE = 7


@dataclass(frozen=True, order=True)
class Key:
    """subject: primary key of the card, task, node, pool, team or service.

    card: of a task's share, the card's; else 0.
    """

    kind: Kind
    subject: int
    card: int = 0


AMOUNTS = ("capacity_milli", "held_milli", "active_milli", "idle_milli", "unknown_milli")
COLUMNS: dict[Kind, tuple[str, ...]] = {
    Kind.CARD: (
        "busy_centi",
        "used_mib",
        "temperature_c",
        "power_w",
        "sm_centi",
        "tensor_centi",
        "dram_centi",
        "pcie_rx_kib_s",
        "pcie_tx_kib_s",
        "nvlink_rx_kib_s",
        "nvlink_tx_kib_s",
        "throttle_power_centi",
        "throttle_heat_centi",
        "throttle_brake_centi",
    ),
    Kind.TASK: ("cpu_milli", "memory_mib", "processes", "read_kib_s", "write_kib_s", "net_rx_kib_s", "net_tx_kib_s"),
    Kind.SHARE: ("busy_centi", "used_mib"),
    Kind.NODE: (
        "cpu_milli",
        "memory_mib",
        "swap_mib",
        "load_centi",
        "net_rx_kib_s",
        "net_tx_kib_s",
        "disk_centi",
        "agent_cpu_milli",
        "agent_mib",
    ),
    Kind.POOL: AMOUNTS,
    Kind.TEAM: AMOUNTS,
    Kind.SERVICE: (
        "requests_milli_s",
        "errors_milli_s",
        "p50_us",
        "p95_us",
        "in_flight_centi",
        "replicas_centi",
        "ready_centi",
    ),
}
"""Names are only ever appended: what was kept before is shorter, and not known of the new ones.

busy_centi: of the whole card's time, in hundredths of a percent. disk_centi: of the fullest disk, likewise. sm, tensor,
dram: multiprocessors, tensor cores, the memory's bandwidth. throttle_*: clocks were held down.
*_milli of pools and teams: of cards. *_milli_s: thousandths a second. p50, p95: until the first byte of the answer, not
known without requests; a longer step has the mean of those of its parts.
"""
