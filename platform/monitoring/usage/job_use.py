"""What a job held and did. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class CardUse:
    """A holding of a card. ran_ms: of held_ms, since its program started. known_ms: up to its newest sample.

    tail_ms: how long it had done nothing when it was last seen; None unless it is the task's newest of this card.
    of_card: its figures are the whole card's. busy_ms, peak_mib: None is not known. sm_ms, throttle_ms: how long its
    multiprocessors worked and its clocks were held down, of *_of_ms in which that was known. task, node, gpu: by name.
    faults: checks of the card that began to fail while it was held.
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
    sm_ms: int | None = None
    sm_of_ms: int = 0
    throttle_ms: int | None = None
    throttle_of_ms: int = 0
    task: str = ""
    node: str = ""
    gpu: int = 0
    faults: Sequence[str] = ()


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


def _find_fullest(pairs: Any) -> tuple[int, int] | None:
    known = [(peak, held) for peak, held in pairs if peak is not None and held]
    return max(known, key=lambda pair: pair[0] / pair[1], default=None)
