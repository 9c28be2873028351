"""What a rule says of a job, and when rules hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Limits:
    """When a rule holds. *_percent: of what was held or asked."""

    least_ms: int = 10 * 60_000
    coverage_percent: int = 80
    never_used_coverage_percent: int = 95
    low_percent: int = 30
    tail_percent: int = 20
    tail_ms: int = 15 * 60_000
    memory_percent: int = 50
    room: float = 1.2
    starved_percent: int = 50
    starved_cpu_percent: int = 90
    host_full_percent: int = 95
    host_spare_percent: int = 20
    host_spare_mib: int = 2048
    host_room: float = 1.5
    time_percent: int = 20
    coarse_busy_percent: int = 70
    coarse_sm_percent: int = 25
    throttled_percent: int = 10
    straggler_percent: int = 20
    straggler_ranks: int = 3
    quiet_percent: int = 5


DEFAULTS = Limits()


@dataclass(frozen=True)
class Advice:
    """What to ask for instead: a field of the job file and its value."""

    field: str
    amount: int | str


@dataclass(frozen=True)
class Verdict:
    """code: that of a rule. gpu_hours: what it cost; 0 for what costs no GPU time."""

    code: str
    gpu_hours: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)
    advice: Advice | None = None
