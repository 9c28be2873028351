"""How much counts grew in the last ten minutes, of one look a minute."""

from collections import defaultdict, deque
from collections.abc import Hashable

LOOKS = 10


class Lately:
    def __init__(self) -> None:
        self._seen: dict[Hashable, deque[int]] = defaultdict(lambda: deque(maxlen=LOOKS))

    def add(self, key: Hashable, count: int | None) -> int:
        """Return by how much a count grew; 0 while it is not known. One that fell began anew."""
        seen = self._seen[key]
        if count is None or (seen and count < seen[-1]):
            seen.clear()
        if count is not None:
            seen.append(count)
        return seen[-1] - seen[0] if seen else 0
