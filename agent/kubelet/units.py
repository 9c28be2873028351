"""Cards as the kubelet counts them: one resource for each physical card, in units of memory.

The name exists on one machine only, so whoever asks for it gets this card on this machine, and the kubelet refuses to
give more of it than there is.
"""

from agent.cards import Card

DOMAIN = "tessera.sh"
UNIT_MIB = 256


def resource_of(uuid: str) -> str:
    """`GPU-3F2A9C10-...` is `tessera.sh/g-3f2a9c10-...`: no two cards of a cluster have the same."""
    return f"{DOMAIN}/g-{uuid.removeprefix('GPU-').lower()}"


def units_of(memory_mib: int) -> int:
    """Of a card, and of a slice of it. Rounded down, so that slices which fit into a card fit in units as well."""
    return max(memory_mib // UNIT_MIB, 1)


def unit_ids(card: Card) -> list[str]:
    return [f"{card.uuid}:{number}" for number in range(units_of(card.memory_mib - card.reserved_mib))]
