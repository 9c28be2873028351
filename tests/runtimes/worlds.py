"""Worlds for the runtimes' tests: a runtime, tasks for it, and a way to wait that does not sleep blindly."""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from runtimes.contract.container import ContainerView
from runtimes.contract.node import NodeView, NumaView
from runtimes.contract.task import Checkpoint, TaskSpec
from runtimes.local import orphan_processes, processes
from runtimes.local.access.access import LocalAccess
from runtimes.local.runtime import LocalRuntime
from runtimes.local.shim import cgroups
from runtimes.local.taskdir import TaskDir
from tests.fakes.runtime import FakeRuntime

DEADLINE_S = 20
UID, GID = 20001, 20000


def wait_for(look, deadline_s=DEADLINE_S):
    """Call look() until it returns something true, and return that."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.01)
    raise AssertionError(f"nothing came of it in {deadline_s} s: {look}")


class World:
    node: str
    runtime: Any
    until: Callable[..., ContainerView]

    def spec(self, run: str, **fields) -> TaskSpec:
        known = {"uuid": uuid4().hex, "label": "job-412 main.0", "epoch": 5, "node": self.node, "run": run}
        account = {"uid": UID, "gid": GID, "user": "ada", "team": "blue", "grace_s": 5}
        return TaskSpec(**known | account | fields)

    def view(self, uuid: str) -> ContainerView | None:
        return next((view for view in self.runtime.list_containers() if view.uuid == uuid), None)

    def run(self, run: str, **fields) -> ContainerView:
        spec = self.spec(run, **fields)
        self.runtime.start(spec)
        return self.until(spec.uuid, "exited")


class FakeWorld(World):
    node = "n1"

    def __init__(self):
        numa = (NumaView(0, (0, 1), 4096),)
        self.runtime = FakeRuntime([NodeView("n1", "127.0.0.1", "boot-1", 2000, 4096, numa, (), ())])

    def until(self, uuid: str, phase: str) -> ContainerView:
        for _ in range(100):
            if (view := self.view(uuid)) is not None and view.phase == phase:
                return view
            self.runtime.advance(1)
        raise AssertionError(f"{uuid} never was {phase}")

    def saver(self, checkpoint: Checkpoint, *, then_end: bool, **more) -> TaskSpec:
        """A running task that writes a checkpoint when it is asked to."""
        spec = self.spec("sleep 60", checkpoint=checkpoint, **more)
        self.runtime.start(spec)
        self.runtime.save_when_asked(spec.uuid, then_end=then_end)
        self.until(spec.uuid, "running")
        return spec

    def settle(self):
        self.runtime.advance(1)

    def runs(self, uuid: str) -> int:
        return self.runtime.starts.count(uuid)


class LocalWorld(World):
    """base/ is open to everybody (as /srv would be), base/data and base/run are the platform's.

    It is not in /tmp, since tasks have one of their own.
    """

    node = "here"

    def __init__(self, **options):
        self.base = Path(tempfile.mkdtemp(prefix="tessera-test-", dir="/var/tmp"))
        self.base.chmod(0o755)
        self.seen = self.base / "seen"  # each job writes a line here when it begins
        self.seen.touch()
        self.seen.chmod(0o666)
        self.options = {"gpus_text": "2xV100-32GB", "node_name": self.node} | options
        self.runtime = self.another_runtime()

    def another_runtime(self) -> LocalRuntime:
        """A second worker on the same data, or the same one after it was killed."""
        return LocalRuntime(self.base / "data", self.base / "data/logs", self.base / "run", **self.options)

    def spec(self, run: str, **fields) -> TaskSpec:
        return super().spec(f"echo $TESSERA_TASK >> {self.seen}; {run}", **fields)

    def runs(self, uuid: str) -> int:
        return self.seen.read_text().split().count(uuid)

    def until(self, uuid: str, phase: str) -> ContainerView:
        def is_so():
            view = self.view(uuid)
            begun = phase != "running" or self.runs(uuid)
            return view if view is not None and view.phase == phase and begun else None

        return wait_for(is_so)

    def saver(self, checkpoint: Checkpoint, *, then_end: bool, **more) -> TaskSpec:
        save = f"mkdir -p {checkpoint.dir}; echo 1 > {checkpoint.dir}/step"
        run = f"trap '{save}; {'exit 0' if then_end else ':'}' USR1; echo listens; while :; do sleep 0.1; done"
        spec = self.spec(run, checkpoint=checkpoint, **more)
        self.runtime.start(spec)
        wait_for(lambda: "listens" in self.log(spec.uuid))
        return spec

    def settle(self):
        time.sleep(0.05)

    python = ("/usr/bin/python3", {})

    def access(self) -> LocalAccess:
        return LocalAccess(data_dir=self.base / "data", log_dir="ignored", gpus_text="ignored")

    @property
    def make_access(self) -> str:
        """Python text for a process of its own."""
        load = "from runtimes.local.access.access import LocalAccess"
        return f"{load}\naccess = lambda: LocalAccess({str(self.base / 'data')!r})"

    def is_open(self, uuid: str) -> bool:
        return (Path(self.task(uuid).path) / "door").exists()

    def task(self, uuid: str) -> TaskDir:
        return TaskDir(str(self.base / "data/tasks" / uuid))

    def scratch(self, uuid: str) -> Path:
        return Path(self.runtime.machine.scratch_of(uuid))

    def log(self, uuid: str) -> str:
        return self.runtime.logs.read(uuid, 0, 1 << 24)[0].decode(errors="replace")

    def shim(self, uuid: str) -> processes.Process | None:
        return shim_of(self.task(uuid))

    def kill_shim(self, uuid: str) -> None:
        shim = wait_for(lambda: self.shim(uuid))
        processes.send_signal(shim, signal.SIGKILL)
        wait_for(lambda: not processes.is_alive(shim.pid, shim.start))

    def close(self):
        end_tasks(self.base / "data")
        shutil.rmtree(self.base)
        shutil.rmtree(f"{self.base}/run-tasks", ignore_errors=True)


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def shim_of(task: TaskDir) -> processes.Process | None:
    """The shim, even before it says so itself: it is the first process with the task's path as argument."""
    path = task.path.encode()
    found = {p.pid: p for p in processes.list_processes() if path in command_line(p.pid)}
    return next((process for process in found.values() if process.parent not in found), None)


def end_tasks(data: Path) -> None:
    """Nothing may be left of any task, whatever the test did. One that has ended proved that itself."""
    tasks = [TaskDir(str(path)) for path in (data / "tasks").glob("*") if len(path.name) == 32]
    tasks = [task for task in tasks if task.read("exit") is None]
    for task in tasks:
        if (shim := shim_of(task)) is not None:
            processes.send_signal(shim, signal.SIGKILL)
    wait_for(lambda: not any(orphan_processes.kill_orphans(task) for task in tasks))
    for task in tasks:
        for group in orphan_processes.list_task_groups(task):
            cgroups.remove_group(group)
