"""Wait for what a platform under test comes to by itself."""

import time
from collections.abc import Callable


def wait(is_so: Callable[[], bool], within_s: float, words: str, look_s: float = 0.5) -> None:
    """Look until it is so. words: what to say where it never is. Raises TimeoutError."""
    until = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(words)
        time.sleep(look_s)
