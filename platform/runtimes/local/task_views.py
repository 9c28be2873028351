"""Tell a task's state by its directory, and decide how a task without a shim ended."""

import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from runtimes.contract.container import ContainerView, GpuUse
from runtimes.local import orphan_processes, processes
from runtimes.local.config import NodeConfig
from runtimes.local.node.machine import ADDRESS
from runtimes.local.shim import cgroups, secret_files
from runtimes.local.taskdir import TaskDir, build_exit_record

MOST_STARTS = 3
"""So many starts without a shim are needed, too, before one has failed: a worker that was killed begins it again."""
LOST = "Its shim is gone and processes of it are still there; they are being killed."


class TaskViews:
    def __init__(self, config: NodeConfig):
        self.config = config
        self.first_seen: dict[str, float] = {}

    def read_view(self, task: TaskDir) -> ContainerView | None:
        """Return a task's state, None if it is forgotten meanwhile. One that cannot be read hides no other."""
        try:
            return self._read_view(task)
        except FileNotFoundError:
            return None
        except OSError as error:  # such as an end that a full disk does not take
            return ContainerView(task.uuid, self.config.node_name, "lost", detail=f"Its records: {error.strerror}.")

    def _read_view(self, task: TaskDir) -> ContainerView | None:
        ended = task.read("exit")
        is_alone = ended is None and not task.is_locked()
        if is_alone:
            ended = self._find_end(task)
        started, checkpoint, gpu = (task.read(name) for name in ("started", "checkpoint", "gpu"))
        fetching = task.read("fetching") if started is None and ended is None else None
        view = ContainerView(
            task.uuid,
            self.config.node_name,
            "running" if started else "starting",
            started_at=_time(started["started_at"] if started else None),
            address=ADDRESS,
            epoch=task.read_epoch(),
            checkpointed_at=_time(checkpoint["at"] if checkpoint else None),
            fetching_since=_time(fetching["since"] if fetching else None),
            abandoned=is_alone and started is None,
            gpu_use=tuple(GpuUse(uuid, **card) for uuid, card in gpu["cards"].items()) if gpu else (),
        )
        if ended is not None:
            times = {name: _time(ended[name]) for name in ("started_at", "ended_at")}
            return replace(view, phase="exited", abandoned=False, **ended | times)
        if started is not None and not task.is_locked() and task.read("exit") is None:
            return replace(view, phase="lost", detail=LOST)
        return view

    def _find_end(self, task: TaskDir) -> dict | None:
        """Find or decide how a task without a shim ended."""
        if task.read("started") is None and self._may_be_started(task):
            return task.read("exit")  # a start may need the lock
        lock = task.try_lock()
        if lock is None:
            return task.read("exit")
        try:
            words = f"No process took it over in {task.read_starts()} starts."
            return record_end(task, build_exit_record("start_failed", words, task.read_epoch()))
        finally:
            os.close(lock)

    def _may_be_started(self, task: TaskDir) -> bool:
        return self._age_s(task) < self.config.start_patience_s or task.read_starts() < MOST_STARTS

    def _age_s(self, task: TaskDir) -> float:
        """Return seconds since the first look: clocks may be set."""
        first_seen = self.first_seen.setdefault(task.uuid, time.monotonic())
        return time.monotonic() - first_seen


def record_end(task: TaskDir, unstarted: dict) -> dict | None:
    """Holding the lock, record and return the end if it is certain. unstarted: the end if nothing ran."""
    ended = task.read("exit")
    if ended is not None:
        return ended
    started = task.read("started")
    if started is None:  # or its directory was removed while it ran
        ended = None if orphan_processes.kill_orphans(task) else unstarted
    elif started.get("boot_id") != processes.read_boot_id():
        ended = _container_lost(started, "The machine was started anew while it ran.")
    elif not orphan_processes.kill_orphans(task):
        words = f"Its shim was killed; nothing of it is left. {_last_line(task / 'shim.log')}".strip()
        ended = _container_lost(started, words)
    if ended is not None:
        for group in orphan_processes.list_task_groups(task):
            cgroups.remove_group(group)
        if record := task.read("spec.json"):
            secret_files.remove_folder(record["plan"])
        task.write("exit", ended)
    return ended


def _container_lost(started: dict, words: str) -> dict:
    return build_exit_record("container_lost", words, started["epoch"], started["started_at"])


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _last_line(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip().splitlines()[-1]
    except (OSError, IndexError):
        return ""
