"""The agent's files: its identity, and cards seen since boot. Files are replaced atomically."""

import json
import os
import secrets
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agent.gpu.cards import Card

IDENTITY, SEEN, ALIVE = "identity.json", "seen.json", "alive"


@dataclass(frozen=True)
class Identity:
    """The agent's key and name. node: "" before enrolment."""

    server: str
    key: str
    node: str = ""


class State:
    """The agent's private folder. Raises OSError."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def load_identity(self, server: str) -> Identity:
        known = read_json_object(self.folder / IDENTITY)
        if known.get("server") == server and known.get("key"):
            return Identity(**known)
        return self.new_identity(server)

    def new_identity(self, server: str) -> Identity:
        """Create an identity, saved before anybody sees its key."""
        fresh = Identity(server, f"tag_{secrets.token_urlsafe(32)}")
        self.save_identity(fresh)
        return fresh

    def save_identity(self, identity: Identity) -> None:
        write_json_object(self.folder / IDENTITY, asdict(identity))

    def touch_heartbeat(self) -> None:
        (self.folder / ALIVE).touch()


class SeenCards:
    """Cards seen since boot, so that lost ones keep their uuid, and faults that only a reset clears."""

    def __init__(self, folder: Path, boot_id: str):
        self.path, self.boot_id = folder / SEEN, boot_id
        known = read_json_object(self.path)
        known = known if known.get("boot_id") == boot_id else {}
        self.cards = {int(index): Card(**card) for index, card in known.get("cards", {}).items()}
        self.faults: dict[str, str] = known.get("faults", {})

    def remember(self, cards: tuple[Card, ...], lost: Set[int] = frozenset()) -> None:
        """Update from cards that answer. lost: failing indices; vanished instances are dropped."""
        cut = {card.uuid for card in cards}
        kept = {index: card for index, card in self.cards.items() if card.part_of not in cut or index in lost}
        fresh = kept | {card.index: replace(card, fault="") for card in cards}
        if fresh != self.cards:
            self.cards = fresh
            self._save()

    def instances_of(self, card: Card) -> list[Card]:
        return [known for known in self.cards.values() if known.part_of == card.uuid]

    def fault_of(self, card: Card) -> str:
        return self.faults.get(card.uuid) or self.faults.get(card.part_of, "")

    def record_fault(self, uuid: str, why: str) -> bool:
        """Keep a card's first fault; return whether this is it."""
        if uuid in self.faults:
            return False
        self.faults[uuid] = why
        self._save()
        return True

    def forget_faults(self) -> None:
        self.faults = {}
        self._save()

    def _save(self) -> None:
        cards = {str(index): asdict(card) for index, card in self.cards.items()}
        write_json_object(self.path, {"boot_id": self.boot_id, "cards": cards, "faults": self.faults})


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; {} if missing or unreadable."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json_object(path: Path, data: Mapping[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as opened:
        json.dump(data, opened)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(fresh, path)
