"""A look in a thread of its own: a driver or a file server may hang for ever."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class PatientLook(Generic[Found]):
    def __init__(self, name: str, look: Callable[[], Found]):
        self._name, self._look = name, look
        self._asked: threading.Thread | None = None
        self._asked_at = 0.0
        self._found: Found | None = None

    def ask(self, within_s: float) -> tuple[Found | None, float]:
        """Return (what was found, 0), or (None, for how many seconds nothing was answered)."""
        if self._asked is None or not self._asked.is_alive():
            self._asked_at = time.monotonic()
            self._asked = threading.Thread(target=self._take, name=self._name, daemon=True)
            self._asked.start()
        self._asked.join(within_s)
        if self._asked.is_alive():
            return None, time.monotonic() - self._asked_at
        return self._found, 0.0

    def _take(self) -> None:
        self._found = None
        self._found = self._look()
