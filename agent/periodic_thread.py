"""A periodic background thread."""

import threading
from abc import ABC, abstractmethod


class PeriodicThread(ABC):
    def __init__(self, name: str, first_s: float = 0.0):
        """first_s: delay of the first round."""
        self._first_s, self._stop = first_s, threading.Event()
        self._thread = threading.Thread(target=self._go_on, name=name, daemon=True)

    @abstractmethod
    def run_once(self) -> float:
        """Run a round; return seconds until the next."""

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience_s: float | None = None) -> None:
        """Stop after the current round; wait at most patience_s."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def _go_on(self) -> None:
        pause_s = self._first_s
        while not self._stop.wait(pause_s):
            pause_s = self.run_once()
