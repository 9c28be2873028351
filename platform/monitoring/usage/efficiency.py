"""Judge how well a job used what it held, and what it should have asked for. Pure: one table of rules.

Several may hold; the costliest in GPU-hours is first. Of what was seen too little nothing is said and nothing advised.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HOUR_MS = 3_600_000


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


DEFAULTS = Limits()


@dataclass(frozen=True)
class CardUse:
    """A holding of a card. ran_ms: of held_ms, since its program started. known_ms: up to its newest sample.

    tail_ms: how long it had done nothing when it was last seen; None unless it is the task's newest of this card.
    of_card: its figures are the whole card's. busy_ms, peak_mib: None is not known.
    """

    milli: int
    percent: int
    memory_mib: int
    held_ms: int
    ran_ms: int
    known_ms: int
    seen_ms: int
    active_ms: int
    idle_ms: int
    tail_ms: int | None
    busy_ms: int | None
    peak_mib: int | None
    source: str = ""
    of_card: bool = False


@dataclass(frozen=True)
class HostUse:
    """A task's holding of CPU and memory."""

    cpu_milli: int
    memory_mib: int
    held_ms: int
    ran_ms: int
    known_ms: int
    seen_ms: int
    cpu_ms: int | None
    peak_mib: int | None


@dataclass(frozen=True)
class Size:
    """A slice that its pool offers, as a job file writes it."""

    gpu: str
    percent: int
    memory_mib: int


@dataclass(frozen=True)
class JobUse:
    """What a job's newest attempt held and did. sizes: slices that each of its tasks could have had instead, the
    smallest first. ended_well: it ended of itself, so that how long it ran says how long such a job takes.
    """

    cards: Sequence[CardUse]
    hosts: Sequence[HostUse]
    ran_ms: int
    max_time_s: int | None = None
    ended_well: bool = False
    sizes: Sequence[Size] = ()

    @property
    def coverage_percent(self) -> float | None:
        """Return how much of the time of its cards, else of its tasks, was seen; None if it did not run."""
        times = [(card.milli, card.ran_ms, card.seen_ms) for card in self.cards]
        times = times or [(1, host.ran_ms, host.seen_ms) for host in self.hosts]
        ran = sum(weight * ran_ms for weight, ran_ms, _ in times)
        return min(100 * sum(weight * seen_ms for weight, _, seen_ms in times) / ran, 100.0) if ran else None

    @property
    def busy_percent(self) -> float | None:
        """Return how busy it kept its shares of cards, in the time that is known."""
        known = [card for card in self.cards if card.busy_ms is not None]
        room = sum(max(card.percent, 1) * card.known_ms for card in known)
        return min(100 * 100 * sum(card.busy_ms or 0 for card in known) / room, 100.0) if room else None

    @property
    def cpu_percent(self) -> float | None:
        """Return how much of its CPU it used."""
        known = [host for host in self.hosts if host.cpu_ms is not None]
        room = sum(host.cpu_milli * host.known_ms for host in known)
        return 100 * 1000 * sum(host.cpu_ms or 0 for host in known) / room if room else None

    @property
    def gpu_memory(self) -> tuple[int, int] | None:
        """Return (peak, held) in MiB of the task that came nearest to what it held."""
        return _find_fullest((card.peak_mib, card.memory_mib) for card in self.cards)

    @property
    def memory(self) -> tuple[int, int] | None:
        return _find_fullest((host.peak_mib, host.memory_mib) for host in self.hosts)

    @property
    def tail_ms(self) -> int:
        """Return how long all its cards have done nothing; a job is idle only as a whole."""
        return min((card.tail_ms for card in self.cards if card.tail_ms is not None), default=0)

    @property
    def held_milli_ms(self) -> int:
        return sum(card.milli * card.held_ms for card in self.cards)

    def sum_hours(self, name: str) -> float:
        """Return GPU-hours of one of the cards' times, such as active_ms."""
        return sum(card.milli * (getattr(card, name) or 0) for card in self.cards) / 1000 / HOUR_MS

    @property
    def busy_hours(self) -> float:
        """Return the GPU-hours in which cards computed for it."""
        return sum(card.busy_ms or 0 for card in self.cards) / HOUR_MS


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


def _find_fullest(pairs: Any) -> tuple[int, int] | None:
    known = [(peak, held) for peak, held in pairs if peak is not None and held]
    return max(known, key=lambda pair: pair[0] / pair[1], default=None)


RULES: dict[str, Callable[[JobUse, Limits], Verdict | None]] = {
    "never_used": _find_never_used,
    "idle_tail": _find_idle_tail,
    "starved": _find_starved,
    "low_activity": _find_low_activity,
    "too_much_memory": _find_too_much_memory,
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
