"""What the logs of both runtimes share: a bounded end, and markers of what was left out. Few imports, for the shim."""

from collections import deque


class NewestBytes:
    """The newest bytes of a stream; the others are counted."""

    def __init__(self, most: int):
        self.most, self.size, self.dropped = most, 0, 0
        self.pieces: deque[bytes] = deque()

    def add(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)
        while (over := self.size - self.most) > 0:
            oldest = self.pieces.popleft()
            if len(oldest) > over:
                self.pieces.appendleft(oldest[over:])
            gone = min(len(oldest), over)
            self.size, self.dropped = self.size - gone, self.dropped + gone


def format_marker(words: str) -> bytes:
    return f"\n[tessera] {words}\n".encode()
