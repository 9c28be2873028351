"""The local runtime: processes on this machine, one shim for each task.

State is in task directories (taskdir.py), so any number of runtimes may share it, and may be killed.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.node import IMAGE, HeldView, NodeView
from runtimes.contract.runtime import Capabilities
from runtimes.contract.task import TaskSpec
from runtimes.local import processes
from runtimes.local.config import NodeConfig
from runtimes.local.images.image_store import ImageStore
from runtimes.local.launch import check_room, check_spec, launch_task
from runtimes.local.network.joining import forget_network
from runtimes.local.node.data_locations import DataLocations
from runtimes.local.node.machine import Machine
from runtimes.local.task_views import TaskViews, record_end
from runtimes.local.taskdir import TaskDir, build_exit_record, get_task_dir, list_tasks
from runtimes.log_masking import LogMask
from runtimes.log_store import LogStore
from runtimes.report_file import FILE, open_report_file
from runtimes.storage.file_lock import hold_file_lock

CAPABILITIES = Capabilities(
    containers=False,
    name="local",
    resizes=True,
    remains="runtimes.local.orphan_processes.list_remains",
    listening="runtimes.local.access.listeners.list_listening_ports",
    sampler="runtimes.local.sampler.LocalSampler",
)


class _ProbedCapabilities:
    """Of the class those that are known without probing, of a runtime those of its machine as well."""

    def __get__(self, runtime: "LocalRuntime | None", owner: type) -> Capabilities:
        return CAPABILITIES if runtime is None else replace(CAPABILITIES, containers=runtime.machine.images.works)


class LocalRuntime:
    capabilities = _ProbedCapabilities()

    def __init__(self, *paths: Any, **options: Any):
        """Set up the runtime by the options of NodeConfig; probing is lazy. Raises UnknownProfile."""
        config = self.config = NodeConfig(*paths, **options)
        self.logs = LogStore(config.log_dir)
        self.data = DataLocations(config.data_dir / "held", config.areas_dir)
        self.machine, self.views = Machine(config), TaskViews(config)
        for path in (config.tasks_dir, config.data_dir / "ended", config.run_dir, config.areas_dir):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)

    def list_nodes(self) -> list[NodeView]:
        return [replace(self.machine.read_node(), held=(*self.data.list_data(), *self._list_images()))]

    def list_containers(self) -> list[ContainerView]:
        views = (self.views.read_view(task) for task in list_tasks(self.config.tasks_dir))
        return [view for view in views if view is not None]

    def start(self, spec: TaskSpec) -> None:
        """Start a task. Raises Rejected if it can never run here, Unavailable for system failures."""
        task = self._task(spec.uuid)
        check_spec(spec, self.machine)
        try:
            check_room(self.config.tasks_dir)
            task.create()
            if self._ended_mark(spec.uuid).exists():  # after mkdir: `forget` marks first
                shutil.rmtree(task.path, ignore_errors=True)
                return
            with task.lock() as lock:
                if lock is not None and task.read("exit") is None and task.read("started") is None:
                    task.count_start()
                    launch_task(spec, task, lock, self.machine, self.data, self.logs.path(spec.uuid))
        except OSError as error:
            raise Unavailable(f"The task could not be started: {error}") from error

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        task = self._task(uuid)
        try:
            if self._ended_mark(uuid).exists():
                return
            task.create()
            if task.read("exit") is not None or epoch < task.read_epoch():
                return
            if not unless_ran:
                task.write("stop", {"grace_s": grace_s, "epoch": epoch})
                _signal_shim(task)
            with task.lock() as lock:  # without it, a shim ends the task
                if lock is not None and (not unless_ran or task.read("started") is None):
                    words = "It was stopped before it began."
                    record_end(task, build_exit_record("never_started", words, max(epoch, task.read_epoch())))
        except OSError as error:
            raise Unavailable(f"The task could not be stopped: {error}") from error

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        task = self._task(uuid)
        record = task.read("spec.json")
        if record is None or task.read("exit") is not None:
            raise Rejected("There is no such task that runs.")
        simulated = self._is_simulated(record)
        if not simulated and not record["plan"].get("slice"):
            raise Rejected("There is no such task with a slice that can be resized.")
        if (mps := record["plan"].get("mps")) and any(mib > mps["limit_mib"] for mib in limits_mib.values()):
            most = mps["limit_mib"]
            raise Rejected(f"The slice stays as it is: it runs by MPS, whose limit of {most} MiB was set at its start.")
        with hold_file_lock(task.path, os.O_DIRECTORY):  # late requests see newer ones
            if serial < (task.read("resize") or {"serial": 0})["serial"]:
                return
            task.write("resize", {"serial": serial, "limits_mib": dict(limits_mib)})
            if simulated:
                return  # its trace goes on in the new size: there is no limit to set
            try:
                self.machine.slices.resize(record["plan"]["slice"], limits_mib)
            except OSError as error:
                raise Rejected(f"The slice stays as it is: {error}") from error

    def open_report(self, uuid: str) -> int | None:
        self._task(uuid)  # checks it
        return open_report_file(self.machine.scratch_of(uuid), FILE)

    def forget(self, uuid: str, *, mask: LogMask | None = None) -> None:
        task = self._task(uuid)
        if task.read("exit") is None:
            return
        mark = self._ended_mark(uuid)
        try:
            mark.parent.mkdir(mode=0o700, exist_ok=True)
            mark.touch(mode=0o600)
        except OSError as error:
            raise Unavailable(f"The end of the task cannot be noted: {error}") from error
        for path in (self.machine.scratch_of(uuid), self.machine.slices.folder_of(uuid)):
            shutil.rmtree(path, ignore_errors=True)
        forget_network(self.config.networks_dir / uuid)
        gone = f"{task.path}.gone"
        os.rename(task.path, gone)
        shutil.rmtree(gone, ignore_errors=True)
        self.views.first_seen.pop(uuid, None)

    def _list_images(self) -> Iterator[HeldView]:
        for record in ImageStore(self.config.images_dir).list_records():
            yield HeldView(IMAGE, record.key, record.bytes)

    def _is_simulated(self, record: dict) -> bool:
        cards = [self.machine.cards.get(share["uuid"]) for share in record["spec"]["gpus"]]
        return bool(cards) and all(card is not None and card.simulated for card in cards)

    def _task(self, uuid: str) -> TaskDir:
        return get_task_dir(self.config.tasks_dir, uuid)

    def _ended_mark(self, uuid: str) -> Path:
        return self.config.data_dir / "ended" / uuid[:2] / uuid


def _signal_shim(task: TaskDir) -> None:
    """Signal a shim after `started`; before, it checks the stop file."""
    started = task.read("started")
    if started is None or started.get("boot_id") != processes.read_boot_id():
        return
    shim = processes.read_process(started["pid"])
    if shim is not None and shim.start == started["start"]:
        processes.send_signal(shim, signal.SIGTERM)
