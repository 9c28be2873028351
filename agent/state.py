"""What the agent remembers on disk: who it is, and what it saw of its cards since the machine was started.

Each file is replaced as a whole, so that a crash leaves the old one or the new one.
"""

import json
import os
import secrets
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agent.cards import Card

IDENTITY, SEEN, ALIVE = "identity.json", "seen.json", "alive"


@dataclass(frozen=True)
class Identity:
    """key: made here, shown to the platform alone. node: the machine that it speaks for, "" before it is enrolled."""

    server: str
    key: str
    node: str = ""


class State:
    """The folder of the agent, readable by its own account only. Raises OSError where it cannot be made or written."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def identity(self, server: str) -> Identity:
        """The one for this platform; a new key, kept at once, where there is none yet."""
        known = read_object(self.folder / IDENTITY)
        if known.get("server") == server and known.get("key"):
            return Identity(**known)
        return self.new_identity(server)

    def new_identity(self, server: str) -> Identity:
        """With a key that nobody has heard of. It is on disk before anybody does."""
        fresh = Identity(server, f"tag_{secrets.token_urlsafe(32)}")
        self.keep(fresh)
        return fresh

    def keep(self, identity: Identity) -> None:
        write_object(self.folder / IDENTITY, asdict(identity))

    def note_alive(self) -> None:
        """For whoever looks after us from outside: the time of this file."""
        (self.folder / ALIVE).touch()


class Memory:
    """Of the cards since this boot: what each place held, so that a lost card has a name, and which had an error that
    only a reset or a restart of the machine mends.
    """

    def __init__(self, folder: Path, boot_id: str):
        self.path, self.boot_id = folder / SEEN, boot_id
        known = read_object(self.path)
        known = known if known.get("boot_id") == boot_id else {}
        self.cards = {int(index): Card(**card) for index, card in known.get("cards", {}).items()}
        self.faults: dict[str, str] = known.get("faults", {})

    def remember(self, cards: tuple[Card, ...], lost: Set[int] = frozenset()) -> None:
        """What answers now. lost: places that do not; instances that a card which answers has no more are forgotten."""
        cut = {card.uuid for card in cards}
        kept = {index: card for index, card in self.cards.items() if card.part_of not in cut or index in lost}
        fresh = kept | {card.index: replace(card, fault="") for card in cards}
        if fresh != self.cards:
            self.cards = fresh
            self._keep()

    def instances_of(self, card: Card) -> list[Card]:
        return [known for known in self.cards.values() if known.part_of == card.uuid]

    def fault_of(self, card: Card) -> str:
        """Its own or its card's; "" where there was none."""
        return self.faults.get(card.uuid) or self.faults.get(card.part_of, "")

    def note_fault(self, uuid: str, why: str) -> bool:
        """The first fault of a card is the one that is told. Whether this was it."""
        if uuid in self.faults:
            return False
        self.faults[uuid] = why
        self._keep()
        return True

    def forget_faults(self) -> None:
        """After a card was reset."""
        self.faults = {}
        self._keep()

    def _keep(self) -> None:
        cards = {str(index): asdict(card) for index, card in self.cards.items()}
        write_object(self.path, {"boot_id": self.boot_id, "cards": cards, "faults": self.faults})


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object; {} where there is none, or none that can be read: then it is made anew."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_object(path: Path, data: Mapping[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as opened:
        json.dump(data, opened)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(fresh, path)
