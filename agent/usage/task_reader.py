"""Reads what each running task of this node has used since its pod began."""

from pathlib import Path
from typing import Any

from agent.usage.group_counters import Counters, keep_totals, read_counters
from agent.usage.network import read_traffic, sum_traffic
from agent.usage.task_pods import TaskPod, TaskPods, list_processes

Tasks = list[dict[str, Any]]
"""As in a tick."""


def join_tasks(shares: Tasks, counted: Tasks) -> Tasks:
    """Return each task once, with its shares of cards and its counters as far as they are known."""
    found: dict[str, dict[str, Any]] = {task["task"]: dict(task) for task in counted}
    for task in shares:
        found[task["task"]] = found.get(task["task"], {}) | task
    return list(found.values())


class TaskReader:
    """A pod holds one task and is never used again, so its totals are the task's."""

    def __init__(self, pods: TaskPods, proc: Path = Path("/proc")):
        self._pods, self._proc = pods, proc
        self._totals: dict[str, Counters] = {}

    def read(self) -> Tasks:
        """Return the counters of each task that has processes."""
        found = {pod.task: counters for pod in self._pods.list_pods() if (counters := self._read_pod(pod))}
        self._totals = {task: self._totals.get(task, {}) for task in found}
        for task, counters in found.items():
            keep_totals(self._totals[task], counters)
        return [{"task": task, "age_ms": 0, **counters} for task, counters in found.items()]

    def _read_pod(self, pod: TaskPod) -> Counters:
        pids = list_processes(pod, self._proc)
        if not pids:
            return {}
        traffic = read_traffic(self._proc / str(pids[0]) / "net/dev")
        return read_counters(self._pods.kind, pod.groups, pids) | sum_traffic(traffic)
