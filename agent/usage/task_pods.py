"""Which pods of the platform's tasks are here: the kubelet's folder of logs names them, control groups hold them.

A pod's group is named by its uid, below `kubepods`: kubepods/burstable/podUID, or with systemd
kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice, in which its hyphens are underscores.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.usage.group_counters import V1, V2, list_members

POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?$")
ABOVE = re.compile(r"kube|^burstable$|^besteffort$")
"""Names of groups that hold groups of pods."""
CONTROLLERS = ("memory", "cpuacct", "blkio")
"""Of version 1: each has a tree of its own."""
SANDBOX = "pause"
"""The program that holds a pod's namespaces, alone in its container."""


@dataclass(frozen=True)
class TaskPod:
    """groups: of the pod, one in each tree."""

    task: str
    groups: tuple[str, ...]


class TaskPods:
    """logs: the kubelet's folder. install: part of namespaces' names. cgroups: where control groups are mounted."""

    def __init__(self, logs: Path, install: str, cgroups: Path):
        self.logs, self.cgroups = logs, cgroups
        self.kind = V2 if (cgroups / "cgroup.controllers").exists() else V1
        self._named = re.compile(rf"{re.escape(install)}-team-\d+_t-([0-9a-f]{{32}})_([0-9a-f-]+)")

    def list_tasks(self) -> dict[str, str]:
        """Return tasks by the uid of their pod, also of pods that ended."""
        return {found[2]: found[1] for name in _list_names(self.logs) if (found := self._named.fullmatch(name))}

    def list_pods(self) -> list[TaskPod]:
        """Return the pods of tasks that have control groups."""
        tasks = self.list_tasks()
        if not tasks:
            return []
        trees = [self.cgroups] if self.kind == V2 else [self.cgroups / name for name in CONTROLLERS]
        groups: dict[str, list[str]] = {}
        for tree in trees:
            for uid, path in _find_pods(str(tree)):
                groups.setdefault(uid, []).append(path)
        return [TaskPod(task, tuple(groups[uid])) for uid, task in sorted(tasks.items()) if uid in groups]


def list_processes(pod: TaskPod, proc: Path) -> list[int]:
    """Return the processes of a pod's containers, without the one that holds its namespaces."""
    containers = [list_members(folder) for folder, *_ in os.walk(pod.groups[0])]
    return [pid for pids in containers if not _is_sandbox(pids, proc) for pid in pids]


def _is_sandbox(pids: list[int], proc: Path) -> bool:
    if len(pids) != 1:
        return False
    try:
        return (proc / str(pids[0]) / "comm").read_text().strip() == SANDBOX
    except OSError:
        return True  # it has ended


def _find_pods(tree: str) -> Iterator[tuple[str, str]]:
    """Yield (uid, path) of each pod's group."""
    for name in _list_names(tree):
        path = os.path.join(tree, name)
        if found := POD.search(name):
            yield found[1].replace("_", "-"), path
        elif ABOVE.search(name):
            yield from _find_pods(path)


def _list_names(folder: Path | str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
