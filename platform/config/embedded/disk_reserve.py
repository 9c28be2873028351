"""Room for the platform's own state: a file that is given up while the disk is full, and made again afterwards."""

import contextlib
import os
import time
from pathlib import Path
from shutil import disk_usage

RESERVE_BYTES = 64 * 1024**2
FULL_BYTES = 16 * 1024**2
"""What is free when the reserve is given up. It is made again where twice the reserve would be left."""
EVERY_S = 1.0


class DiskReserve:
    def __init__(self, data: Path):
        self.path = data / "reserve"
        self._due_at = 0.0

    def tend(self) -> str:
        """Give up the reserve or make it again, about once a second; return what to tell of it, or ""."""
        now = time.monotonic()
        if now < self._due_at:
            return ""
        self._due_at = now + EVERY_S
        with contextlib.suppress(OSError):
            held, free = self.path.exists(), disk_usage(self.path.parent).free
            if held and free < FULL_BYTES:
                self.path.unlink()
                return (
                    f"The disk of {self.path.parent} is full. The platform goes on from its reserve: free some space."
                )
            if not held and free > 3 * RESERVE_BYTES:
                self._make()
        return ""

    def _make(self) -> None:
        fresh = self.path.with_name("reserve.new")
        with open(fresh, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        fresh.replace(self.path)
