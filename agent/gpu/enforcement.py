"""Which mechanism limits slices' memory here: the administrator's choice, or our library after a trial."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent.gpu.cards import Cards

AGAIN_S = 600
FRACTIONS_SINCE = 615
"""The first driver with memory limits of its own. Source: NVIDIA, MPS, memory partitioning."""
UNTRIED = "Not run on real hardware by the agent's makers yet."


@dataclass(frozen=True)
class Enforcement:
    """What limits slices. mode: hami, slice, nvfraction or watchdog. evidence: one sentence."""

    mode: str
    evidence: str


NOTHING = Enforcement("watchdog", "Nothing holds slices to their memory here: give the agent --slice or --hami.")


@dataclass
class Prober:
    """Chooses the mechanism. hami: libvgpu.so. trial: tries our library on a card's uuid."""

    hami: Path | None = None
    fractions: bool = False
    trial: Callable[[str], tuple[bool, str]] | None = None
    clock: Callable[[], float] = time.monotonic
    _tried: dict[str, tuple[Enforcement, float]] = field(default_factory=dict)  # by driver

    def probe(self, seen: Cards) -> Enforcement:
        if self.hami is not None:
            return Enforcement("hami", f"HAMi-core was given by the administrator: {self.hami}. {UNTRIED}"[:300])
        if self.fractions:
            return check_fractions(seen.driver)
        return self._try(seen, self.trial) if self.trial is not None else NOTHING

    def _try(self, seen: Cards, trial: Callable[[str], tuple[bool, str]]) -> Enforcement:
        """Try once per driver; retry failures later."""
        known, at = self._tried.get(seen.driver, (None, 0.0))
        if known is not None and (known.mode == "slice" or self.clock() - at < AGAIN_S):
            return known
        sound = [card.uuid for card in seen.cards if not card.fault and not card.mig and not card.part_of]
        if not sound:
            return Enforcement("watchdog", "No card answers on which our own library could be tried.")
        holds, words = trial(sound[0])
        found = Enforcement("slice" if holds else "watchdog", words)
        self._tried = {seen.driver: (found, self.clock())}
        return found


def check_fractions(driver: str) -> Enforcement:
    major = driver.partition(".")[0]
    if not major.isdecimal() or int(major) < FRACTIONS_SINCE:
        words = f"Driver {driver or 'none'} has no memory limits of its own: it must be {FRACTIONS_SINCE} or newer."
        return Enforcement("watchdog", words)
    return Enforcement("nvfraction", f"Driver {driver} limits memory by itself, by gpu-fractioning. {UNTRIED}")
