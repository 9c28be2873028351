"""Read processes from /proc and signal them, by pid and start time as pids are reused. Few imports, for the shim."""

import os
import signal
from collections import namedtuple

PAGE = os.sysconf("SC_PAGE_SIZE")
MARKER = "TESSERA_TASK"  # finds orphan processes

Process = namedtuple("Process", "pid parent session start state")


def read_boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def read_process(pid: int) -> Process | None:
    """Return a process or None. `start`: clock ticks since boot."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # names may contain spaces
    except OSError:
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode())


def is_alive(pid: int, start: int) -> bool:
    """Return whether this process lives. Zombies hold no memory or device."""
    process = read_process(pid)
    return process is not None and process.start == start and process.state not in "ZX"


def list_processes() -> list[Process]:
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [process for pid in pids if (process := read_process(pid)) is not None and process.state not in "ZX"]


def list_descendants(roots: set[int], processes: list[Process]) -> list[Process]:
    """Return living processes below these pids, in any session."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found, todo = [], list(roots)
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += [process.pid for process in below]
    return found


def list_group(group: int) -> list[Process]:
    """Return a group's living processes, cheaper than `list_processes`."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    found = (read_process(pid) for pid in pids if _group(pid) == group)
    return [process for process in found if process is not None and process.state not in "ZX"]


def holds_stream(pid: int, ends: set[tuple[int, int]]) -> bool:
    """Return whether a standard stream is one of these (`identify_stream`)."""
    for number in range(3):
        try:
            if identify_stream(f"/proc/{pid}/fd/{number}") in ends:
                return True
        except OSError:
            continue
    return False


def identify_stream(file: str | int) -> tuple[int, int]:
    """Identify a pipe or pty. Raises OSError."""
    found = os.stat(file)
    return found.st_dev, found.st_ino


def has_marker(pid: int, task: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARKER}={task}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def is_in_group(pid: int, task: str) -> bool:
    """Return whether it is in a task's control group, whatever the group's parent is."""
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            return any(line.rstrip().endswith(f"/{task}") for line in file)
    except OSError:
        return False


def is_shim(pid: int, path: str) -> bool:
    """Return whether it is the shim of the task in this directory, by its command line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return path.encode() in words and any(b"runtimes.local.shim" in word for word in words)


def send_signal(process: Process, number: int) -> None:
    """Signal this process, never another with its pid."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = read_process(process.pid)
        if now is not None and now.start == process.start:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        os.close(handle)


def handles_signal(process: Process, number: int) -> bool:
    """Return whether it handles a signal. Source: SigCgt in proc_pid_status(5)."""
    try:
        with open(f"/proc/{process.pid}/status") as file:
            caught = next((line.split()[1] for line in file if line.startswith("SigCgt:")), "0")
    except OSError:
        return False
    return bool(int(caught, 16) >> (number - 1) & 1)


def sum_resident_mib(processes: list[Process]) -> int:
    """Sum resident memory, shared pages repeatedly."""
    return sum(_resident_pages(process.pid) for process in processes) * PAGE >> 20


def sum_proportional_mib(processes: list[Process]) -> int:
    """Sum memory with shared pages divided; slower."""
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
