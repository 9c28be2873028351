"""Judge how well a job used what it held, and what it should have asked for. Pure: one table of rules.

Several may hold; the costliest in GPU-hours is first. Of what was seen too little nothing is said and nothing advised.
"""

from collections.abc import Callable

from monitoring.usage.card_rules import find_coarse_only, find_gpu_fault, find_straggler, find_throttled
from monitoring.usage.job_use import HOUR_MS, JobUse
from monitoring.usage.verdict import DEFAULTS, Advice, Limits, Verdict


def judge(use: JobUse, limits: Limits = DEFAULTS) -> list[Verdict]:
    """Return what holds of a job, the costliest first; one of `good`, `too_short` and `unknown` if nothing else."""
    coverage = use.coverage_percent
    if use.ran_ms < limits.least_ms or coverage is None:
        return [Verdict("too_short", params={"ran_ms": use.ran_ms})]
    if coverage < limits.coverage_percent:
        return [Verdict("unknown", params={"percent": coverage})]
    found = {code: verdict for code, rule in RULES.items() if (verdict := rule(use, limits)) is not None}
    kept = [verdict for code, verdict in found.items() if not found.keys() & OUTDONE_BY.get(code, frozenset())]
    return sorted(kept, key=lambda verdict: -verdict.gpu_hours) or [Verdict("good")]


def _find_never_used(use: JobUse, limits: Limits) -> Verdict | None:
    told = [card for card in use.cards if card.busy_ms == 0 and card.peak_mib == 0 and not card.of_card]
    if not use.cards or len(told) < len(use.cards):
        return None
    seen_enough = (use.coverage_percent or 0) >= limits.never_used_coverage_percent
    return Verdict("never_used", use.sum_hours("held_ms"), advice=Advice("gpu", "0")) if seen_enough else None


def _find_low_activity(use: JobUse, limits: Limits) -> Verdict | None:
    """The idle tail is a verdict of its own: here the time before it counts."""
    tail_ms = use.tail_ms if _find_idle_tail(use, limits) else 0
    worked_ms = use.ran_ms - tail_ms
    if use.busy_percent is None or worked_ms < limits.least_ms:
        return None
    busy = min(use.busy_percent * use.ran_ms / worked_ms, 100.0)
    if busy >= limits.low_percent:
        return None
    hours = use.sum_hours("held_ms") * worked_ms / use.ran_ms * (100 - busy) / 100
    return Verdict("low_activity", hours, {"percent": busy, "tail_ms": tail_ms})


def _find_idle_tail(use: JobUse, limits: Limits) -> Verdict | None:
    tail = use.tail_ms
    if tail <= limits.tail_ms or 100 * tail <= limits.tail_percent * use.ran_ms:
        return None
    hours = sum(card.milli * tail for card in use.cards if card.tail_ms is not None) / 1000 / HOUR_MS
    return Verdict("idle_tail", hours, {"tail_ms": tail})


def _find_too_much_memory(use: JobUse, limits: Limits) -> Verdict | None:
    """The next smaller slice must leave room, and must not slow it down either."""
    if use.gpu_memory is None or any(card.peak_mib is None for card in use.cards):
        return None
    peak, held = use.gpu_memory
    if 100 * peak >= limits.memory_percent * held:
        return None
    works = max(100 * (card.busy_ms or 0) / card.known_ms for card in use.cards if card.known_ms)
    fitting = [size for size in use.sizes if size.memory_mib >= limits.room * peak and size.percent >= works]
    if not fitting or fitting[0].memory_mib >= held:
        return None
    size = fitting[0]
    params = {"peak_mib": peak, "held_mib": held, "gpu": size.gpu, "size_mib": size.memory_mib}
    hours = use.sum_hours("held_ms") * (1 - size.memory_mib / held)
    return Verdict("too_much_memory", hours, params, Advice("gpu", size.gpu))


def _find_starved(use: JobUse, limits: Limits) -> Verdict | None:
    busy, cpu = use.busy_percent, use.cpu_percent
    if busy is None or cpu is None or busy >= limits.starved_percent or cpu <= limits.starved_cpu_percent:
        return None
    wanted = 2 * max(host.cpu_milli for host in use.hosts)
    params = {"percent": busy, "cpu_percent": min(cpu, 100.0)}
    return Verdict("starved", use.sum_hours("held_ms") * (100 - busy) / 100, params, Advice("cpu", wanted))


def _find_host_memory_low(use: JobUse, limits: Limits) -> Verdict | None:
    if use.memory is None or 100 * use.memory[0] < limits.host_full_percent * use.memory[1]:
        return None
    peak, held = use.memory
    return Verdict("host_memory_low", 0.0, _tell_memory(peak, held), Advice("memory", int(limits.host_room * held)))


def _find_host_memory_high(use: JobUse, limits: Limits) -> Verdict | None:
    if use.memory is None or any(host.peak_mib is None for host in use.hosts):
        return None
    peak, held = use.memory
    enough = int(limits.host_room * peak) + 1
    if 100 * peak >= limits.host_spare_percent * held or held - enough < limits.host_spare_mib:
        return None
    return Verdict("host_memory_high", 0.0, _tell_memory(peak, held), Advice("memory", enough))


def _find_time_limit_far(use: JobUse, limits: Limits) -> Verdict | None:
    if not use.ended_well or not use.max_time_s or 100 * use.ran_ms >= limits.time_percent * 1000 * use.max_time_s:
        return None
    params = {"ran_ms": use.ran_ms, "max_time_s": use.max_time_s}
    return Verdict("time_limit_far", 0.0, params, Advice("time", int(limits.host_room * use.ran_ms / 1000)))


def _tell_memory(peak: int, held: int) -> dict[str, int]:
    return {"peak_mib": peak, "held_mib": held}


RULES: dict[str, Callable[[JobUse, Limits], Verdict | None]] = {
    "never_used": _find_never_used,
    "idle_tail": _find_idle_tail,
    "starved": _find_starved,
    "low_activity": _find_low_activity,
    "too_much_memory": _find_too_much_memory,
    "coarse_only": find_coarse_only,
    "straggler": find_straggler,
    "throttled": find_throttled,
    "gpu_fault": find_gpu_fault,
    "host_memory_low": _find_host_memory_low,
    "host_memory_high": _find_host_memory_high,
    "time_limit_far": _find_time_limit_far,
}
OUTDONE_BY: dict[str, frozenset[str]] = {
    "low_activity": frozenset({"never_used", "starved"}),
    "idle_tail": frozenset({"never_used"}),
    "too_much_memory": frozenset({"never_used"}),
    "starved": frozenset({"never_used"}),
}
"""What says the same of a job, and more."""
