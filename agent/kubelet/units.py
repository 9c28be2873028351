"""Cards as kubelet resources: one per index, in units of memory, so the kubelet prevents overcommitment."""

from collections.abc import Iterable
from pathlib import Path

from agent.gpu.cards import Card
from agent.state import read_json_object, write_json_object

DOMAIN = "tessera.sh"
UNIT_MIB = 256


def resource_name(index: int) -> str:
    """Return a card's or instance's extended resource. index: NVML's, or agent.gpu.mig_instances.index_of."""
    return f"{DOMAIN}/g-{index}"


def count_units(memory_mib: int) -> int:
    """Return units of a card or slice, rounded down so that sums still fit."""
    return max(memory_mib // UNIT_MIB, 1)


def list_unit_ids(card: Card) -> list[str]:
    return [f"{card.uuid}:{number}" for number in range(count_units(card.memory_mib - card.reserved_mib))]


class CardIndexMap:
    """Persistent map from index to card as the platform knows it.

    Indices shift when a card is lost; until the platform knows, tasks would get a wrong card.
    """

    def __init__(self, path: Path):
        self.path = path
        self.known: dict[str, str] = read_json_object(path)
        self._told: dict[str, str] | None = None

    def knows(self, card: Card) -> bool:
        return self.known.get(str(card.index)) == card.uuid

    def record(self, cards: Iterable[Card]) -> None:
        """Record an acknowledged report; it counts from the second alike, as the platform may lag."""
        now = {str(card.index): card.uuid for card in cards}
        if now == self._told and now != self.known:
            self.known = now
            write_json_object(self.path, now)
        self._told = now
