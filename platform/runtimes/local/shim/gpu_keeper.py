"""Keep a task's GPU watch running: pass on its lines, restart it when it ends or hangs.

    {"unwatched": words}    no samples until the watch's next line

Started before the shim's namespaces, which would contain later children. Separate, as the driver may hang or crash it.
"""

import json
import os
import select
import signal
import sys
import time

from runtimes.local.isolation import die_with_parent
from runtimes.local.shim.helper_processes import spawn_helper

FIRST_S, LONGEST_S = 0.5, 60.0
"""Pause after the first end, doubled with each further one."""
SOUND_S = 60.0
"""A watch that ran this long resets the pause."""
SILENT_S, SILENT_LOOKS = 30.0, 10
"""It hangs when it misses so many samples and at least so long."""


def main(path: str, uuids: str, every_s: str, folder: str) -> None:
    """Run the watch for ever. path: of our packages, JSON."""
    die_with_parent()
    failures = 0
    while True:
        began = time.monotonic()
        why = _follow(json.loads(path), [uuids, every_s, folder, str(os.getppid())], _patience_s(float(every_s)))
        _write_stdout(json.dumps({"unwatched": why}).encode() + b"\n")
        failures = 0 if time.monotonic() - began > SOUND_S else failures + 1
        time.sleep(min(FIRST_S * 2 ** min(max(failures - 1, 0), 20), LONGEST_S))


def _patience_s(every_s: float) -> float:
    return max(SILENT_S, SILENT_LOOKS * every_s)


def _follow(path: list[str], args: list[str], patience_s: float) -> str:
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = spawn_helper(path, "gpu_watch", args, out=write, err=2)
    os.close(write)
    try:
        why = _relay_lines(read, patience_s)
    finally:
        os.close(read)
    os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return why or f"it ended with {code}"


def _relay_lines(read: int, patience_s: float) -> str:
    """Pass on whole lines; return "" or why it hangs."""
    rest = b""
    while select.select([read], [], [], patience_s)[0]:
        data = os.read(read, 65536)
        if not data:
            return ""
        lines, end, rest = (rest + data).rpartition(b"\n")
        _write_stdout(lines + end)
    return f"it said nothing for {patience_s:g} s"


def _write_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
