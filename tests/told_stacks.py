"""Run a module that says where all of it stands when SIGUSR1 comes: python -m tests.told_stacks FILE MODULE."""

import asyncio
import faulthandler
import os
import runpy
import signal
import sys
import time
from pathlib import Path

TOLD = "all told\n"


def main(path: str, module: str) -> None:
    with open(path, "w") as file:

        def tell(number, frame) -> None:
            faulthandler.dump_traceback(file)
            for task in asyncio.all_tasks(asyncio._get_running_loop()):
                task.print_stack(file=file)
            file.write(TOLD)
            file.flush()

        signal.signal(signal.SIGUSR1, tell)
        sys.argv[1:] = []
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def ask(pid: int, path: Path, within_s: float = 5.0) -> str:
    """What it says now; what it could within that time, if it is stuck outside Python."""
    os.kill(pid, signal.SIGUSR1)
    until = time.monotonic() + within_s
    while TOLD not in path.read_text() and time.monotonic() < until:
        time.sleep(0.1)
    return path.read_text()


if __name__ == "__main__":
    main(*sys.argv[1:])
