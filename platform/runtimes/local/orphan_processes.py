"""Find and kill processes of a task without a shim. Only when none is found, it has ended."""

import signal
from collections.abc import Iterable

from agent.usage.group_counters import list_members
from runtimes.local.processes import (
    Process,
    has_marker,
    is_in_group,
    is_shim,
    list_descendants,
    list_processes,
    send_signal,
)
from runtimes.local.shim import cgroups
from runtimes.local.taskdir import TaskDir


def kill_orphans(task: TaskDir) -> list[Process]:
    """Kill all orphans and return them; [] proves the end."""
    found = find_orphan_processes(task)
    for process in found:
        send_signal(process, signal.SIGKILL)
    return found


def find_orphan_processes(task: TaskDir) -> list[Process]:
    """Find processes by first process, session, control group, environment and shim, also without its directory.

    Not while its lock is another's: then the shim is no orphan.
    """
    job = task.read("job") or {"pid": 0, "start": 0}
    group = {pid for path in list_task_groups(task) for pid in list_members(path)}
    living = list_processes()
    session = _session(job, living)
    roots = {
        process.pid
        for process in living
        if (process.pid, process.start) == (job["pid"], job["start"])
        or process.session == session
        or process.pid in group
        or has_marker(process.pid, task.uuid)
        or is_in_group(process.pid, task.uuid)
        or is_shim(process.pid, task.path)
    }
    below = {process.pid for process in list_descendants(roots, living)}
    return [process for process in living if process.pid in roots | below]


def list_remains(uuids: Iterable[str]) -> set[str]:
    """Return those tasks of which a process runs here, whatever directory has their records."""
    living = [process.pid for process in list_processes()]
    return {uuid for uuid in uuids if any(has_marker(pid, uuid) or is_in_group(pid, uuid) for pid in living)}


def list_task_groups(task: TaskDir) -> list[str]:
    record = task.read("spec.json")
    return cgroups.list_group_paths(record["plan"], task.uuid) if record else []


def _session(job: dict, living: list[Process]) -> int | None:
    """Return the job's session, unless its pid was reused."""
    leader = next((process for process in living if process.pid == job["pid"]), None)
    stolen = leader is not None and leader.start != job["start"]
    return None if stolen or not job["pid"] else job["pid"]
