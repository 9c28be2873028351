"""Cards as the kubelet counts them: one resource for each place of a card, in units of memory.

Whoever asks for a place of this machine gets the card in it, and the kubelet refuses to give more of it than there is.
"""

from collections.abc import Iterable
from pathlib import Path

from agent.cards import Card
from agent.state import read_object, write_object

DOMAIN = "tessera.sh"
UNIT_MIB = 256


def resource_of(index: int) -> str:
    """Of the card in this place, in NVML's order; of an instance in its own (agent.instances.index_of)."""
    return f"{DOMAIN}/g-{index}"


def units_of(memory_mib: int) -> int:
    """Of a card, and of a slice of it. Rounded down, so that slices which fit into a card fit in units as well."""
    return max(memory_mib // UNIT_MIB, 1)


def unit_ids(card: Card) -> list[str]:
    return [f"{card.uuid}:{number}" for number in range(units_of(card.memory_mib - card.reserved_mib))]


class Places:
    """Which card is in which place, as the platform knows it; kept over restarts.

    When a card falls out, those behind it move up. Until the platform has heard of that, what it places on one card
    would meet another one, so a place whose card is not the known one gives nothing out.
    """

    def __init__(self, path: Path):
        self.path = path
        self.known: dict[str, str] = read_object(path)
        self._told: dict[str, str] | None = None

    def knows(self, card: Card) -> bool:
        return self.known.get(str(card.index)) == card.uuid

    def told(self, cards: Iterable[Card]) -> None:
        """A report with these was answered. The platform works on it meanwhile: it counts with the second alike."""
        now = {str(card.index): card.uuid for card in cards}
        if now == self._told and now != self.known:
            self.known = now
            write_object(self.path, now)
        self._told = now
