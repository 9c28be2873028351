"""The local runtime: processes on this machine, one shim for each task.

State is in task directories (taskdir.py), so any number of runtimes may share it, and may be killed.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from runtimes.contract.container import ContainerView, GpuUse, Phase
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.node import NodeView
from runtimes.contract.runtime import Capabilities
from runtimes.contract.task import Mount, TaskSpec
from runtimes.gpu_sharing import needs_slice
from runtimes.local import orphan_processes, processes
from runtimes.local.node.data_locations import DataLocations
from runtimes.local.node.isolation_probe import Isolation, MemoryControl, run_python
from runtimes.local.node.machine import ADDRESS, Machine
from runtimes.local.plan import LOG_CAPS, build_plan
from runtimes.local.shim import limits
from runtimes.local.taskdir import TaskDir
from runtimes.logs import LogStore
from runtimes.storage.areas import AreaId, ensure_area
from runtimes.storage.file_lock import alone

UUID = re.compile(r"[0-9a-f]{32}")
LOCK_PATIENCE_S = 2.0


class LocalRuntime:
    capabilities = Capabilities(containers=False, name="local", resizes=True)

    def __init__(
        self,
        data_dir: str | os.PathLike,
        log_dir: str | os.PathLike,
        run_dir: str | os.PathLike,
        gpus_text: str = "2xV100-32GB",
        node_name: str | None = None,
        hide: tuple[str | os.PathLike, ...] = (),
        libvgpu: str | None = None,
        slice_library: str = "",
        *,
        files_dir: str | os.PathLike | None = None,
        isolation: Isolation | None = None,
        memory: MemoryControl | None = None,
        start_patience_s: float = 10.0,
        log_caps: Mapping[str, int] = LOG_CAPS,
        processes_most: int = 4096,
        gpu_above_s: float = 6.0,
        mps: bool = False,
    ):
        """Set up the runtime; probing is lazy. Raises profiles.UnknownProfile.

        data_dir: hidden from jobs. run_dir: for sockets. files_dir: areas, default data_dir/files. slice_library: a
        folder, "" for data_dir's, or "off". gpus_text: simulated without NVIDIA driver. processes_most: of a task, with
        threads, 0 = no limit. gpu_above_s: allowed time above a GPU slice. mps: if a test works. isolation, memory:
        override probing. start_patience_s: until a start without a shim has failed.
        """
        self.data_dir, self.run_dir = Path(data_dir).resolve(), Path(run_dir).resolve()
        self.tasks_dir, self.ended_dir = self.data_dir / "tasks", self.data_dir / "ended"
        self.logs = LogStore(Path(log_dir).resolve())
        self.files_dir = Path(files_dir or self.data_dir / "files").resolve()
        self.node = node_name or platform.node()
        self.hide = tuple(
            str(Path(path).resolve()) for path in (self.data_dir, self.run_dir, self.logs.root, self.files_dir, *hide)
        )
        self.held = DataLocations(self.data_dir / "held", self.files_dir)
        self.machine = Machine(
            self.node,
            self.data_dir,
            self.run_dir,
            self.files_dir,
            self.hide,
            gpus_text=gpus_text,
            libvgpu=libvgpu,
            slice_library=slice_library,
            isolation=isolation,
            memory=memory,
            log_caps=log_caps,
            processes_most=processes_most,
            gpu_above_s=gpu_above_s,
            mps=mps,
            holders=self._holders_of_mps,
        )
        self.start_patience_s = start_patience_s
        self._first_seen: dict[str, float] = {}
        for path in (self.tasks_dir, self.ended_dir, self.run_dir, self.files_dir):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)

    # the contract

    def list_nodes(self) -> list[NodeView]:
        return [replace(self.machine.view(), held=self.held.list_data())]

    def list_containers(self) -> list[ContainerView]:
        tasks = [TaskDir(entry.path) for entry in os.scandir(self.tasks_dir) if UUID.fullmatch(entry.name)]
        return [view for task in tasks if (view := self._view(task)) is not None]

    def start(self, spec: TaskSpec) -> None:
        """Start a task. Raises Rejected if it can never run here, Unavailable for system failures."""
        self._check(spec)
        task = self._task(spec.uuid)
        try:
            task.create()
            if self._is_ended(spec.uuid):  # after mkdir: `forget` marks first
                shutil.rmtree(task.path, ignore_errors=True)
                return
            lock = self._own(task)
            if lock is None:
                return  # it runs, or another starts it
            try:
                if task.read("exit") is None and task.read("started") is None:
                    self._spawn(spec, task, lock)
            finally:
                os.close(lock)
        except OSError as error:
            raise Unavailable(f"The task could not be started: {error}") from error

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        task = self._task(uuid)
        try:
            if self._is_ended(uuid):
                return
            task.create()
            if task.read("exit") is not None or epoch < self._epoch(task):
                return
            if not unless_ran:
                task.write("stop", {"grace_s": grace_s, "epoch": epoch})
                self._signal_shim(task)
            lock = self._own(task)
            if lock is None:
                return  # its shim ends it
            try:
                if not unless_ran or task.read("started") is None:
                    self._settle(task, self._never_started(task, epoch))
            finally:
                os.close(lock)
        except OSError as error:
            raise Unavailable(f"The task could not be stopped: {error}") from error

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        task = self._task(uuid)
        record = task.read("spec.json")
        if record is None or task.read("exit") is not None:
            raise Rejected("There is no such task that runs.")
        if self._is_simulated(record):
            return  # simulated cards have no limit
        if not record["plan"].get("slice"):
            raise Rejected("There is no such task with a slice that can be resized.")
        if (mps := record["plan"].get("mps")) and any(mib > mps["limit_mib"] for mib in limits_mib.values()):
            most = mps["limit_mib"]
            raise Rejected(f"The slice stays as it is: it runs by MPS, whose limit of {most} MiB was set at its start.")
        with alone(task.path, os.O_DIRECTORY):  # late requests see newer ones
            if serial < (task.read("resize") or {"serial": 0})["serial"]:
                return
            task.write("resize", {"serial": serial})
            try:
                self.machine.slicing.resize(record["plan"]["slice"], limits_mib)
            except OSError as error:
                raise Rejected(f"The slice stays as it is: {error}") from error

    def forget(self, uuid: str) -> None:
        task = self._task(uuid)
        if task.read("exit") is None:
            return
        mark = self._ended_mark(uuid)
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.touch(mode=0o600)
        for path in (self._scratch(uuid), self.machine.slicing.folder_of(uuid)):
            shutil.rmtree(path, ignore_errors=True)
        gone = f"{task.path}.gone"
        os.rename(task.path, gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._first_seen.pop(uuid, None)

    @property
    def isolation(self) -> Isolation:
        return self.machine.isolation

    @property
    def memory(self) -> MemoryControl:
        return self.machine.memory

    # start

    def _check(self, spec: TaskSpec) -> None:
        self._task(spec.uuid)
        if spec.node != self.node:
            raise Rejected(f"This machine is {self.node}, not {spec.node}.")
        if any(share.uuid not in self.machine.cards for share in spec.gpus):
            self.machine.look_at_cards()
        unknown = [share.uuid for share in spec.gpus if share.uuid not in self.machine.cards]
        if unknown:
            raise Rejected(f"This machine has no GPU {', '.join(unknown)}.")
        if self.isolation.own_uid and (spec.uid <= 0 or spec.gid <= 0):
            raise Rejected("A job never runs as root: its user has no uid or its team no gid.")
        for mount in spec.mounts:
            self._check_mount(mount)

    def _check_mount(self, mount: Mount) -> None:
        target, apart = os.path.normpath(mount.target), self.isolation.namespaces
        if target.split("/")[0] in ("", ".", "..") and not os.path.isabs(target):
            raise Rejected(f"Data cannot be mounted at {mount.target!r}: it is not inside of where the task works.")
        if apart and os.path.isabs(target) and not any(target.startswith(f"{path}/") for path in self.hide):
            raise Rejected(f"Data cannot be mounted at {mount.target}: name a place inside of where the task works.")
        if not apart and os.path.isabs(target) and (mount.place is not None or target != mount.source):
            raise Rejected(f"{mount.target} cannot be mounted: this machine allows no namespaces.")
        if not apart and mount.read_only and mount.place is not None:
            raise Rejected(f"{mount.target} cannot be kept read-only: this machine allows no namespaces.")
        if mount.place is not None and not self.machine.files_reachable:
            raise Rejected(f"{mount.target} cannot be had: jobs on this machine cannot reach {self.files_dir}.")

    def _ensure_places(self, spec: TaskSpec) -> None:
        uid, gid = (spec.uid, spec.gid) if self.isolation.own_uid else (None, None)
        for place in (AreaId("home", spec.uid), AreaId("team", spec.gid)):
            ensure_area(self.files_dir, place, uid=uid, gid=gid)

    def _own(self, task: TaskDir) -> int | None:
        """Return the lock, None if a shim holds it; wait for readers."""
        until = time.monotonic() + LOCK_PATIENCE_S
        while True:
            lock = task.try_lock()
            if lock is not None:
                return lock
            if task.is_locked():
                return None
            if time.monotonic() > until:
                raise BlockingIOError(f"{task.path} stays locked by readers")

    def _spawn(self, spec: TaskSpec, task: TaskDir, lock: int) -> None:
        """Start the shim, which inherits the held lock."""
        around = self.machine.surroundings(self.machine.cards)
        if around.files is not None:
            self._ensure_places(spec)
            self.held.record_use(spec.mounts)
        scratch = self._scratch(spec.uuid)
        os.makedirs(os.path.dirname(scratch), exist_ok=True)
        os.chmod(os.path.dirname(scratch), 0o711)  # noqa: S103 - jobs of other accounts pass through
        gpu_slice = self.machine.slicing.make(spec) if needs_slice(spec.gpus, around.cards) else None
        mps = self.machine.compute.of_task(spec.gpus, around.cards, self.machine.driver) if spec.mps else None
        with alone(self.tasks_dir / ".cores"):  # depends on others' choices
            cpus = self._choose_cpus(spec)
            log = str(self.logs.path(spec.uuid))
            plan = build_plan(spec, around, scratch=scratch, log=log, cpus=cpus, gpu_slice=gpu_slice, mps=mps)
            task.write("spec.json", plan)
        command = run_python("from runtimes.local.shim.shim import main; main(*sys.argv[1:])", task.path, str(lock))
        errors = os.open(task / "shim.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            shim = subprocess.Popen(
                command,
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(lock,),
                start_new_session=True,
            )
            shim.wait()  # it forks and exits
        finally:
            os.close(errors)

    def _choose_cpus(self, spec: TaskSpec) -> list[int]:
        cores = {node.id: node.cpus for node in self.machine.numa}
        near = [cores[node] for node in spec.numa if node in cores]
        return limits.choose_cpus(spec.cpu_milli, near, os.sched_getaffinity(0), self._core_load())

    def _core_load(self) -> Counter:
        load: Counter = Counter()
        for record in self._unended():
            load.update(record["plan"]["cpus"])
        return load

    def _is_simulated(self, record: dict) -> bool:
        held = [self.machine.cards.get(share["uuid"]) for share in record["spec"]["gpus"]]
        return bool(held) and all(card is not None and card.simulated for card in held)

    def _holders_of_mps(self, uuid: str) -> list[str]:
        given = (record for record in self._unended() if (record["plan"].get("mps") or {}).get("uuid") == uuid)
        return sorted(record["spec"]["label"] or record["spec"]["uuid"] for record in given)

    def _unended(self) -> Iterator[dict]:
        for entry in os.scandir(self.tasks_dir):
            task = TaskDir(entry.path)
            if UUID.fullmatch(entry.name) and task.read("exit") is None and (record := task.read("spec.json")):
                yield record

    # status

    def _view(self, task: TaskDir) -> ContainerView | None:
        """Return a container's state, None if forgotten meanwhile."""
        try:
            ended = task.read("exit")
            if ended is None and not task.is_locked():
                ended = self._find_end(task)
        except FileNotFoundError:
            return None
        started, epoch = task.read("started"), self._epoch(task)
        if ended is None:
            return self._alive_view(task, started, epoch)
        return ContainerView(
            uuid=task.uuid,
            node=self.node,
            phase="exited",
            exit_code=ended["exit_code"],
            signal=ended["signal"],
            cause=ended["cause"],
            detail=ended["detail"],
            started_at=_time(ended["started_at"]),
            ended_at=_time(ended["ended_at"]),
            address=ADDRESS,
            epoch=ended["epoch"],
            peak_memory_mib=ended["peak_memory_mib"],
            checkpointed_at=_checkpointed_at(task),
            gpu_use=_gpu_use(task),
        )

    def _alive_view(self, task: TaskDir, started: dict | None, epoch: int) -> ContainerView:
        lost = started is not None and not task.is_locked() and task.read("exit") is None
        phase: Phase = "lost" if lost else "running" if started else "starting"
        detail = "Its shim is gone and processes of it are still there; they are being killed." if lost else ""
        started_at = _time(started["started_at"]) if started else None
        return ContainerView(
            task.uuid,
            self.node,
            phase,
            detail=detail,
            started_at=started_at,
            address=ADDRESS,
            epoch=epoch,
            checkpointed_at=_checkpointed_at(task),
            gpu_use=_gpu_use(task),
        )

    def _find_end(self, task: TaskDir) -> dict | None:
        """Find or decide how a task without a shim ended."""
        if task.read("started") is None and self._age_s(task) < self.start_patience_s:
            return task.read("exit")  # a start may need the lock
        lock = task.try_lock()
        if lock is None:
            return task.read("exit")
        try:
            failed = _end("start_failed", f"No process took it over in {self.start_patience_s:g} s.", self._epoch(task))
            return self._settle(task, failed)
        finally:
            os.close(lock)

    def _age_s(self, task: TaskDir) -> float:
        """Return seconds since creation or first look, the longer: clocks may be set back."""
        first_seen = self._first_seen.setdefault(task.uuid, time.monotonic())
        return max(time.time() - os.stat(task.path).st_ctime, time.monotonic() - first_seen)

    def _settle(self, task: TaskDir, unstarted: dict) -> dict | None:
        """Holding the lock, record the end if certain. unstarted: record if nothing ran."""
        ended = task.read("exit")
        if ended is not None:
            return ended
        started = task.read("started")
        if started is None:
            ended = unstarted
        elif started.get("boot_id") != processes.boot_id():
            ended = _end("container_lost", "The machine was started anew while it ran.", started["epoch"], started)
        elif not orphan_processes.kill_orphans(task):
            words = f"Its shim was killed; nothing of it is left. {_last_line(task / 'shim.log')}".strip()
            ended = _end("container_lost", words, started["epoch"], started)
        if ended is not None:
            for group in orphan_processes.groups(task):
                limits.remove(group)
            task.write("exit", ended)
        return ended

    def _never_started(self, task: TaskDir, epoch: int) -> dict:
        return _end("never_started", "It was stopped before it began.", max(epoch, self._epoch(task)))

    def _signal_shim(self, task: TaskDir) -> None:
        """Signal a shim after `started`; before, it checks the stop file."""
        started = task.read("started")
        if started is None or started.get("boot_id") != processes.boot_id():
            return
        shim = processes.look(started["pid"])
        if shim is not None and shim.start == started["start"]:
            processes.send(shim, signal.SIGTERM)

    # paths

    def _task(self, uuid: str) -> TaskDir:
        if not UUID.fullmatch(uuid):
            raise Rejected(f"Not a task uuid: {uuid!r}.")
        return TaskDir(str(self.tasks_dir / uuid))

    def _scratch(self, uuid: str) -> str:
        return self.machine.scratch_of(uuid)

    def _ended_mark(self, uuid: str) -> Path:
        return self.ended_dir / uuid[:2] / uuid

    def _is_ended(self, uuid: str) -> bool:
        return self._ended_mark(uuid).exists()

    def _epoch(self, task: TaskDir) -> int:
        record = task.read("spec.json")
        stop = task.read("stop")
        return record["spec"]["epoch"] if record else stop["epoch"] if stop else 0


def _end(cause: str, detail: str, epoch: int, started: dict | None = None) -> dict:
    return {
        "exit_code": None,
        "signal": None,
        "cause": cause,
        "detail": detail,
        "started_at": started["started_at"] if started else None,
        "ended_at": time.time(),
        "epoch": epoch,
        "peak_memory_mib": None,
    }


def _checkpointed_at(task: TaskDir) -> datetime | None:
    found = task.read("checkpoint")
    return _time(found["at"]) if found else None


def _gpu_use(task: TaskDir) -> tuple[GpuUse, ...]:
    found = task.read("gpu")
    return tuple(GpuUse(uuid, **card) for uuid, card in found["cards"].items()) if found else ()


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _last_line(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip().splitlines()[-1]
    except (OSError, IndexError):
        return ""
