"""What a check says of a machine, or of one of its cards. Unknown is no fault and no health."""

from dataclasses import asdict, dataclass
from typing import Any

OK, WARN, FAIL, UNKNOWN = "ok", "warn", "fail", "unknown"
LONGEST = 300
"""Longest sentence, in characters."""


@dataclass(frozen=True)
class Check:
    """card: its uuid, "" for the machine. count: of what it counts."""

    name: str
    state: str
    words: str = ""
    card: str = ""
    count: int = 0

    def tell(self) -> dict[str, Any]:
        """Return what is sent: only what says something."""
        told = asdict(self) | {"words": self.words[:LONGEST]}
        return {name: value for name, value in told.items() if value or name in ("name", "state")}
