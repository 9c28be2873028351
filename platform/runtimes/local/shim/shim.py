"""The process that runs one task from start to end, independent of the platform. Few imports, to start quickly.

take over the lock → unpack the code → bring the image → write `started` → fork the job → copy its output, watch its
limits → wait for the whole tree → write `exit` → release the lock
"""

import errno
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path

from agent.usage.group_counters import read_peak_mib
from runtimes.local import isolation
from runtimes.local.access.session_server import SessionServer
from runtimes.local.network.namespace import receive_network
from runtimes.local.processes import (
    Process,
    handles_signal,
    list_descendants,
    list_processes,
    read_boot_id,
    read_process,
    send_signal,
    sum_proportional_mib,
    sum_resident_mib,
)
from runtimes.local.shim import cgroups, mounts, secret_files
from runtimes.local.shim.checkpoint_watch import CheckpointWatch
from runtimes.local.shim.child import FORWARDED, become_job
from runtimes.local.shim.gpu_memory_watchdog import GpuMemoryWatchdog
from runtimes.local.shim.helper_processes import ReportPipe, spawn_helper, unregister
from runtimes.local.shim.output import CappedLog
from runtimes.local.shim.rootfs import task_image
from runtimes.local.shim.secret_files import NO_SECRETS, Secrets
from runtimes.local.shim.task_counters import TaskCounters
from runtimes.local.taskdir import TaskDir, build_exit_record
from runtimes.log_masking import LogMask, MaskedStream
from runtimes.log_times import times_path

TICK_S = 1.0  # checks memory, and stop files without signal
KILL_EVERY_S = 0.05
PIECES = 16  # of output, copied before others are looked after


def main(path: str, lock: str, secrets: str = "", login: str = "", network: str = "") -> None:
    """Run the task of a directory. The others are descriptors that the shim takes over, "" for none.

    network: a connection to the holder of the task's network, kept until the task has ended.
    """
    for fd in filter(None, (lock, login, network)):
        os.set_inheritable(int(fd), False)
    if os.fork():
        os._exit(0)
    given = secret_files.read_memory_file(int(secrets)) if secrets else NO_SECRETS
    network_holder = socket.socket(fileno=int(network)) if network else None
    Shim(TaskDir(path), given, int(login or -1), network_holder).live()
    os._exit(0)


class Shim:
    def __init__(self, task: TaskDir, secrets: Secrets, login: int, network_holder: socket.socket | None):
        self.task, self.secrets, self.login, self.network_holder = task, secrets, login, network_holder
        self.masked = MaskedStream(LogMask(secrets.files.values()))
        self.plan: dict = {}
        self.epoch = 0
        self.started_at: float | None = None
        self.first = 0  # first process of the job or its namespace
        self.status: int | None = None  # as of waitpid
        self.over = False
        self.cause, self.detail = "", ""
        self.kill_at: float | None = None
        self.stop_grace: float | None = None
        self.end_at: float | None = None  # deadline after a checkpoint request
        self.began = time.monotonic()
        self.peak_mib: int | None = None
        self.used_mib: int | None = None  # without a memory group
        self.memory_group: str | None = None
        self.pids_group: str | None = None
        self.reports: ReportPipe | None = None  # of the job's side of the fork
        self.gpus: GpuMemoryWatchdog | None = None
        self.checkpoints: CheckpointWatch | None = None
        self.counters: TaskCounters | None = None
        self.sessions: SessionServer | None = None
        self.log = CappedLog(-1)

    def live(self) -> None:
        self._listen()
        record = self.task.read("spec.json")
        if record is None:
            return
        self.plan, self.epoch = record["plan"], record["spec"]["epoch"]
        self.task.reserve("exit")
        try:
            self._open_log()
            mounts.make_scratch(self.plan)
            if self.plan["code_path"] and not self._unpack():
                return self._finish()
            if self.plan.get("image") and not self._bring_image():
                return self._finish()
            if not self._is_wanted():
                return self._finish()
            me = read_process(os.getpid())
            self.started_at, self.began = time.time(), time.monotonic()
            identity = {"boot_id": read_boot_id(), "pid": me.pid, "start": me.start} if me else {}
            self.task.write("started", identity | {"epoch": self.epoch, "started_at": self.started_at})
            if not self._is_wanted():  # no signal before `started`
                return self._finish()
            self._launch()
        except OSError as error:
            self.cause, self.detail = "start_failed", f"The job could not be started: {error}"
            self._signal_tree(signal.SIGKILL)
            if not self.first:
                return self._finish()
        self._watch()
        self._finish()

    # start

    def _listen(self) -> None:
        os.umask(0o022)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # inherited from a worker
        isolation.become_subreaper()
        self.wake_r, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        self.poll = select.poll()
        self.poll.register(self.wake_r, select.POLLIN)

    def _open_log(self) -> None:
        os.makedirs(os.path.dirname(self.plan["log"]), mode=0o700, exist_ok=True)
        paths = Path(self.plan["log"]), times_path(Path(self.plan["log"]))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.log = CappedLog(*(os.open(path, flags, 0o600) for path in paths), **self.plan["log_caps"])
        self.out_r, self.out_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.out_r, False)
        self.poll.register(self.out_r, select.POLLIN)

    def _is_wanted(self) -> bool:
        if self.task.read("stop") is None:
            return True
        self.cause, self.detail = "never_started", "It was stopped before it began."
        return False

    def _unpack(self) -> bool:
        plan = self.plan
        account = [str(plan[name]) if plan[name] is not None else "" for name in ("uid", "gid")]
        target = os.path.join(plan["scratch"], "work")
        pid = spawn_helper(plan["path"], "unpack", [plan["code_path"], target, *account], self.out_w, self.out_w)
        if not (done := self._wait_for_helper(pid)) and not self.cause:
            self.cause, self.detail = "start_failed", "The code could not be unpacked: see the log."
        return done

    def _bring_image(self) -> bool:
        """Have the task's image here, pulled where it must be. Raises OSError."""
        if not task_image.take_image(self.task, self.plan, task_image.read_login(self.login)):
            self.task.try_write("fetching", {"since": time.time()})
            words, written = os.pipe2(os.O_CLOEXEC)
            source = self.login if self.login >= 0 else None
            pid = spawn_helper(self.plan["path"], "rootfs.pull_image", [self.task.path], written, 2, source)
            os.close(written)
            done = self._wait_for_helper(pid)
            with open(words, "rb") as file:
                said = file.read(4096).decode(errors="replace").strip()
            if not done:
                if not self.cause:
                    self.cause, self.detail = "image_pull", said or "The image could not be pulled."
                return False
        if self.login >= 0:
            os.close(self.login)
        task_image.complete_plan(self.task, self.plan)
        return True

    def _wait_for_helper(self, pid: int) -> bool:
        """Wait for a helper's end, or a stop; return whether it succeeded."""
        while True:
            self.poll.poll(1000 * TICK_S)
            self._copy_output()
            self._clear_wakeups()
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._copy_output()
                return status == 0
            if not self._is_wanted():
                os.kill(pid, signal.SIGKILL)

    def _launch(self) -> None:
        plan = self.plan
        mounts.prepare_mounts(plan)
        secret_files.write_folder(plan, self.secrets)
        self._make_groups()
        if plan["gpu_limits"]:
            self.gpus = GpuMemoryWatchdog(self.task, plan, self.poll, self.log)
        if plan["checkpoint"]:
            self.checkpoints = CheckpointWatch(self.task, plan, self.poll)
        self.counters = TaskCounters(plan["memory_kind"], plan["groups"], _read_reaped_ms)
        self.reports = ReportPipe(self.poll)
        go_r, go_w = os.pipe2(os.O_CLOEXEC)
        self._enter_network()
        if plan["namespaces"]:
            isolation.open_namespaces(owned=self.network_holder is not None)
        signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
        self.first = os.fork()
        if self.first == 0:
            os.close(go_w)
            become_job(plan, go_r, self.out_w, self.reports.writer, self.secrets)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        for fd in (go_r, self.reports.writer, self.out_w):
            os.close(fd)
        first = read_process(self.first)
        self.task.write("job", {"pid": self.first, "start": first.start if first else 0})
        os.write(go_w, b"g")
        os.close(go_w)
        self.began = time.monotonic()

    def _enter_network(self) -> None:
        """Enter the network of the task's job, where it has one: sessions and connections are made in it, too."""
        if self.network_holder is not None:
            network, owner = receive_network(self.network_holder)
            isolation.enter_network(network, owner)
            os.close(network)
            os.close(owner)

    def _make_groups(self) -> None:
        """Make the control groups, and note them in the plan for the job's side of the fork."""
        plan, task = self.plan, self.task.uuid
        if parent := plan["memory_parent"]:
            limits = plan["memory_mib"], plan["cpu_milli"]
            self.memory_group = cgroups.make_memory_group(plan["memory_kind"], parent, task, *limits)
        if parent := plan["cpu_parent"]:
            cgroups.make_cpu_group(parent, task, plan["cpu_milli"])
        if parent := plan["pids_parent"]:
            self.pids_group = cgroups.make_pids_group(parent, task, plan["processes_most"])
        plan["groups"] = cgroups.list_group_paths(plan, task)

    # run

    def _watch(self) -> None:
        next_tick = time.monotonic() + TICK_S
        while not self.over:
            now = time.monotonic()
            sessions_at = self.sessions.next_at() if self.sessions else None
            times = self.kill_at, self.end_at, self._time_is_up_at(), sessions_at
            wake_at = [next_tick, *(at for at in times if at is not None)]
            ready = {fd for fd, _ in self.poll.poll(max(0.0, min(wake_at) - now) * 1000)}
            self._clear_wakeups()
            self._copy_output()
            self._read_reports()
            self._reap()
            if self.sessions is not None:
                self.sessions.serve(ready)
            self._check_stop()
            now = time.monotonic()
            if not self.over and (limit := self._time_is_up_at()) is not None and now >= limit:
                self.stop_grace = self.plan["grace_s"]
                detail = f"It ran for {self.plan['max_time_s']} s, its limit."
                self._end_saved("time_limit", detail, self.plan["grace_s"])
            if self.end_at is not None and now >= self.end_at:
                self._end("stopped", "", self.stop_grace or 0)
            if now >= next_tick:
                next_tick = now + TICK_S
                tree = self._check_memory()
                self._check_gpus()
                self._count_use(tree)
                if self.checkpoints is not None:
                    self.checkpoints.kill_if_late()
            if self.kill_at is not None and now >= self.kill_at:
                self.kill_at = now + KILL_EVERY_S
                self._signal_tree(signal.SIGKILL)

    def _time_is_up_at(self) -> float | None:
        """Return the time limit, None without or when ending."""
        if self.plan["max_time_s"] is None or self.cause or self.status is not None:
            return None
        return self.began + self.plan["max_time_s"]

    def _end_saved(self, cause: str, detail: str, grace_s: float) -> None:
        """Request a checkpoint once, if possible, then end."""
        rule = self.plan["checkpoint"] if grace_s > 0 and self.status is None and not self.cause else None
        if rule and self._request_checkpoint(rule["signal"]):
            self.cause, self.detail = cause, detail
            self.end_at = time.monotonic() + rule["grace_s"]
        else:
            self._end(cause, detail, max(grace_s, rule["grace_s"]) if rule else grace_s)

    def _end(self, cause: str, detail: str, grace_s: float) -> None:
        """End the tree by SIGTERM, later SIGKILL. The first cause stays."""
        if self.sessions is not None:
            self.sessions.close()
        self.end_at = None
        kill_at = time.monotonic() + max(grace_s, 0)
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        if not self.cause and self.status is None:
            self.cause, self.detail = cause, detail
        if grace_s > 0:
            self._signal_tree(signal.SIGTERM)

    def _check_stop(self) -> None:
        """Obey a stop request, and a more urgent one."""
        if self.over or (request := self.task.read("stop")) is None:
            return
        grace_s = request["grace_s"]
        if self.stop_grace is None:
            self.stop_grace = grace_s
            self._end_saved("stopped", "", grace_s)
        elif grace_s < self.stop_grace:
            self.stop_grace = grace_s
            self._end("stopped", "", grace_s)

    def _request_checkpoint(self, number: int | None) -> bool:
        """Signal processes that handle it (others would die); return whether any do."""
        if number is None:
            return False
        listening = [process for process in self._tree() if handles_signal(process, number)]
        for process in listening:
            send_signal(process, number)
        return bool(listening)

    def _check_memory(self) -> list[Process]:
        """End the whole job above its memory, or after the kernel killed one process.

        Return its processes if they had to be looked for.
        """
        if self.over:
            return []
        if self.memory_group is not None:
            if cgroups.count_oom_kills(self.plan["memory_kind"], self.memory_group):
                self._end("out_of_memory", self._describe_memory_end(), 0)
            return []
        tree = self._tree()
        used = sum_resident_mib(tree)
        if used > self.plan["memory_mib"]:
            used = sum_proportional_mib(tree)
        self.peak_mib = max(self.peak_mib or 0, used)
        if used > self.plan["memory_mib"]:
            self._end("out_of_memory", f"It used {used} MiB of memory; its limit is {self.plan['memory_mib']} MiB.", 0)
        self.used_mib = used
        return tree

    def _count_use(self, tree: list[Process]) -> None:
        """Write what the task has used so far. tree: its processes where it has no memory group."""
        if self.over or self.counters is None:
            return
        helper = self.first if self.plan["namespaces"] else None
        record = self.counters.count([process.pid for process in tree], helper, self.used_mib)
        if record is not None:
            self.task.try_note("use", record)

    def _describe_memory_end(self) -> str:
        return f"It needed more than {self.plan['memory_mib']} MiB of memory, its limit."

    def _check_gpus(self) -> None:
        if self.gpus is not None and not self.over and (verdict := self.gpus.check()):
            self._end("gpu_out_of_memory", verdict, self.plan["grace_s"])

    def _read_reports(self) -> None:
        """Read what the job's side of the fork and the watch of checkpoints report."""
        for record in self.reports.read() if self.reports is not None else ():
            if "error" in record and not self.cause:
                self.cause, self.detail = "start_failed", record["error"]
            self.status = record.get("status", self.status)
            if "status" in record and self.sessions is not None:
                self.sessions.close()  # sessions do not prolong jobs
            if "ready" in record:
                self._serve_sessions()
                if self.checkpoints is not None:
                    self.checkpoints.begin(self.first)
        if self.checkpoints is not None:
            self.checkpoints.read_reports()

    def _serve_sessions(self) -> None:
        """Start the session server; a job runs without, too."""
        try:
            self.sessions = SessionServer(self.task, self.plan, self.poll, self.first, self._tree)
        except OSError as error:
            print(f"Nobody can enter it: {error}", file=sys.stderr)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.over = True
                return
            if pid == 0:
                break
            if pid == self.first:
                self._read_reports()
                self.status = status if self.status is None and not self.plan["namespaces"] else self.status
                if self.gpus is not None:
                    self.gpus.stop()
                if self.checkpoints is not None:
                    self.checkpoints.finish()
                self._end("", "", self.plan["grace_s"])  # of what is left
            elif self.gpus is not None and pid == self.gpus.keeper:
                self.gpus.keeper = None
                if self.status is None and not self.cause:
                    self.gpus.replace_keeper(self.first)
            elif self.checkpoints is not None and pid == self.checkpoints.pid:
                self.checkpoints.pid = None
            elif self.sessions is not None:
                self.sessions.report_end(pid, status)

    def _tree(self) -> list[Process]:
        """Return the job's processes, without ours."""
        found = list_descendants({os.getpid()}, list_processes())
        ours = {self.first} if self.plan["namespaces"] else set()
        if self.checkpoints is not None and self.checkpoints.pid is not None:
            ours.add(self.checkpoints.pid)
        if self.gpus is not None and self.gpus.keeper is not None:
            ours |= {self.gpus.keeper, *(process.pid for process in list_descendants({self.gpus.keeper}, found))}
        return [process for process in found if process.pid not in ours]

    def _signal_tree(self, number: int) -> None:
        """Signal all processes; a namespace's init takes the others along."""
        if not self.plan["namespaces"]:
            for process in self._tree():
                send_signal(process, number)
            return
        first = read_process(self.first) if self.first and not self.over else None
        if first is not None and first.parent == os.getpid():
            os.kill(self.first, number)

    def _clear_wakeups(self) -> None:
        try:
            os.read(self.wake_r, 4096)
        except BlockingIOError:
            pass

    def _copy_output(self) -> bool:
        """Copy output to the log; return whether there may be more."""
        for _ in range(PIECES):
            try:
                data = os.read(self.out_r, 65536)
            except BlockingIOError:
                return False
            if not data:
                unregister(self.poll, self.out_r)
                return False
            self.log.feed(self.masked.feed(data))
        return True

    # end

    def _finish(self) -> None:
        while self.log.fd >= 0 and self._copy_output():
            pass
        self.log.feed(self.masked.finish())
        self.log.finish()
        secret_files.remove_folder(self.plan)
        if self.checkpoints is not None:
            self.checkpoints.read_reports()
        kind = self.plan["memory_kind"]
        if self.memory_group is not None:
            self.peak_mib = read_peak_mib(kind, self.memory_group)
            killed = self.status is None or self.status != 0
            if cgroups.count_oom_kills(kind, self.memory_group) and killed and not self.cause:
                self.cause, self.detail = "out_of_memory", self._describe_memory_end()
        if self.status and not self.cause:
            if self.pids_group is not None and cgroups.count_refused_forks(self.pids_group):
                self.detail = f"It wanted more than {self.plan['processes_most']} processes and threads, its limit."
            if refused := mounts.count_refusals(self.plan):
                self.detail = f"Its slice of GPU memory was full: refused requests for more: {refused}."
        if self.gpus is not None:
            self.gpus.stop()
        for group in self.plan.get("groups", ()):
            cgroups.remove_group(group)
        self._write_exit(self._build_exit_record())

    def _build_exit_record(self) -> dict:
        code = number = None
        ran = self.first and self.cause != "start_failed"
        if ran and self.status is None:
            number = int(signal.SIGKILL)  # namespace killed
        elif ran and self.status is not None and os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
        elif ran and self.status is not None:
            code = os.WEXITSTATUS(self.status)
        return build_exit_record(
            self.cause,
            self.detail,
            self.epoch,
            self.started_at if ran else None,
            exit_code=code,
            signal=number,
            peak_memory_mib=self.peak_mib,
        )

    def _write_exit(self, record: dict) -> None:
        """Write the exit file, retrying on a full disk for ever."""
        while True:
            try:
                self.task.write("exit", record)
                return
            except FileNotFoundError:
                return  # forgotten already
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                    raise
                time.sleep(TICK_S)


def _read_reaped_ms() -> int:
    """Return the CPU time of children that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(1000 * (used.ru_utime + used.ru_stime))
