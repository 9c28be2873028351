"""What /proc says about processes. A pid alone is never believed: it goes with its start time.

Read by the shim, so it imports little: the shim should be up in a few hundredths of a second.
"""

import os
import signal
from collections import namedtuple

PAGE = os.sysconf("SC_PAGE_SIZE")
MARKER = "TESSERA_TASK"  # in every job's environment; a leftover is found by it

Process = namedtuple("Process", "pid parent session start state")


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def look(pid: int) -> Process | None:
    """The process as it is now; None when there is none. `start` is in clock ticks since boot."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name may hold spaces and brackets
    except OSError:
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode())


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process still exists. A zombie is not alive: it holds no memory and no device."""
    process = look(pid)
    return process is not None and process.start == start and process.state not in "ZX"


def everybody() -> list[Process]:
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [process for pid in pids if (process := look(pid)) is not None and process.state not in "ZX"]


def descendants(roots: set[int], processes: list[Process]) -> list[Process]:
    """All living processes below these pids, whatever session or group they moved to."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found, todo = [], list(roots)
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += [process.pid for process in below]
    return found


def in_group(group: int) -> list[Process]:
    """All living processes of a process group. Cheaper than `everybody`: only these are looked at."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    found = (look(pid) for pid in pids if _group(pid) == group)
    return [process for process in found if process is not None and process.state not in "ZX"]


def holds_one(pid: int, ends: set[tuple[int, int]]) -> bool:
    """Whether its standard input, output or error is one of these, each as `end_of` says."""
    for number in range(3):
        try:
            if end_of(f"/proc/{pid}/fd/{number}") in ends:
                return True
        except OSError:
            continue  # closed, or the process is gone
    return False


def end_of(file: str | int) -> tuple[int, int]:
    """What tells a pipe or pty, by path or descriptor, from every other. Raises OSError."""
    found = os.stat(file)
    return found.st_dev, found.st_ino


def has_marker(pid: int, task: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARKER}={task}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def send(process: Process, number: int) -> None:
    """Signal this very process: a pid that was given to somebody else meanwhile is left alone."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = look(process.pid)
        if now is not None and now.start == process.start:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        os.close(handle)


def catches(process: Process, number: int) -> bool:
    """Whether it has a handler for this signal. Source: SigCgt in proc_pid_status(5)."""
    try:
        with open(f"/proc/{process.pid}/status") as file:
            caught = next((line.split()[1] for line in file if line.startswith("SigCgt:")), "0")
    except OSError:
        return False
    return bool(int(caught, 16) >> (number - 1) & 1)


def resident_mib(processes: list[Process]) -> int:
    """Sum of resident memory; pages shared between them are counted once for each."""
    return sum(_resident_pages(process.pid) for process in processes) * PAGE >> 20


def proportional_mib(processes: list[Process]) -> int:
    """Sum of memory with shared pages divided among their users; slower to read, and fair."""
    return sum(_proportional_kib(process.pid) for process in processes) >> 10


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _resident_pages(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1])
    except OSError:
        return 0


def _proportional_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except OSError:
        return _resident_pages(pid) * PAGE >> 10
