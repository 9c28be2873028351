"""Start helper processes of a task. Few imports, for the shim."""

import os
import signal
import sys
from collections.abc import Sequence


def spawn(path: Sequence[str], module: str, args: Sequence[str], out: int, err: int, source: int | None = None) -> int:
    """Run a sibling module's main() in an isolated Python; return its pid. source: stdin."""
    code = (
        f"import sys; sys.path[:0] = {list(path)!r}; from runtimes.local.shim.{module} import main; main(*sys.argv[1:])"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, *args]
    actions = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, source, 0)] if source is not None else []
    return os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsigmask=(), setsigdef=(signal.SIGPIPE,))
