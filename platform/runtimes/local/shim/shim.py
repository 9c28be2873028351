"""The process that runs one task from start to end, independent of the platform. Few imports, to start quickly.

take over the lock → unpack the code → write `started` → fork the job → carry its output, watch its limits
→ wait for the whole tree → write `exit` → release the lock
"""

import errno
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import nullcontext

from agent.gpu.policy import GpuPolicy
from runtimes.local import isolation
from runtimes.local.access.session_server import SessionServer
from runtimes.local.processes import (
    boot_id,
    catches,
    descendants,
    everybody,
    look,
    proportional_mib,
    resident_mib,
    send,
)
from runtimes.local.shim import limits, mounts, slice_mounts
from runtimes.local.shim.child import FORWARDED, become_job
from runtimes.local.shim.output import CappedLog
from runtimes.local.shim.spawning import spawn
from runtimes.local.taskdir import TaskDir

TICK_S = 1.0  # checks memory, and stop files without signal
KILL_EVERY_S = 0.05
LAST_LOOK_S = 5.0  # the directory may hang


def main(path: str, lock: str) -> None:
    os.set_inheritable(int(lock), False)
    if os.fork():
        os._exit(0)
    Shim(TaskDir(path)).live()
    os._exit(0)


class Shim:
    def __init__(self, task: TaskDir):
        self.task = task
        self.plan: dict = {}
        self.epoch = 0
        self.started_at: float | None = None
        self.child = 0  # first process of the job or its namespace
        self.status: int | None = None  # as of waitpid
        self.over = False
        self.cause, self.detail = "", ""
        self.kill_at: float | None = None
        self.stop_grace: float | None = None
        self.end_at: float | None = None  # deadline after a checkpoint request
        self.began = time.monotonic()
        self.peak_mib: int | None = None
        self.group: str | None = None  # for memory
        self.pids: str | None = None  # for processes
        self.helper: int | None = None
        self.watcher: int | None = None  # of checkpoints
        self.watch_until: float | None = None
        self.checkpoint_r: int | None = None
        self.policy: GpuPolicy | None = None
        self.gpus_told: dict = {}
        self.pending = dict.fromkeys(("report", "gpu", "checkpoint"), b"")  # incomplete lines
        self.log = CappedLog(-1)
        self.door: SessionServer | None = None

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
            if not self._is_wanted():
                return self._finish()
            me = look(os.getpid())
            self.started_at = time.time()
            identity = {"boot_id": boot_id(), "pid": me.pid, "start": me.start} if me else {}
            self.task.write("started", identity | {"epoch": self.epoch, "started_at": self.started_at})
            if not self._is_wanted():  # no signal before `started`
                return self._finish()
            self._launch()
        except OSError as error:
            self.cause, self.detail = "start_failed", f"The job could not be started: {error}"
            self._kill_tree()
            if not self.child:
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
        fd = os.open(self.plan["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.log = CappedLog(fd, **self.plan["log_caps"])
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
        pid = self._spawn("unpack", [plan["code_path"], target, *account], out=self.out_w, err=self.out_w)
        while True:
            self.poll.poll(1000 * TICK_S)
            self._carry_output()
            self._clear_wakeups()
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._carry_output()
                if status:
                    self.cause, self.detail = "start_failed", "The code could not be unpacked: see the log."
                return status == 0
            if not self._is_wanted():
                os.kill(pid, signal.SIGKILL)

    def _spawn(self, module: str, args: list[str], out: int, err: int, source: int | None = None) -> int:
        return spawn(self.plan["path"], module, args, out, err, source)

    def _launch(self) -> None:
        plan = self.plan
        mounts.prepare(plan)
        plan["groups"] = self._make_groups()
        if plan["gpu_limits"]:
            kept = bool(plan["slice"])
            guarded = kept and plan["slice"]["guarded"]
            self.policy = GpuPolicy(plan["gpu_limits"], plan["gpu_samples"], kept=kept, guarded=guarded)
            self._watch_gpus()
        if plan["checkpoint"]:
            self._watch_checkpoints()
        self.report_r, report_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.report_r, False)
        self.poll.register(self.report_r, select.POLLIN)
        go_r, go_w = os.pipe2(os.O_CLOEXEC)
        if plan["namespaces"]:
            isolation.open_namespaces()
        signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
        self.child = os.fork()
        if self.child == 0:
            os.close(go_w)
            become_job(plan, go_r, self.out_w, report_w)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        for fd in (go_r, report_w, self.out_w):
            os.close(fd)
        first = look(self.child)
        self.task.write("job", {"pid": self.child, "start": first.start if first else 0})
        os.write(go_w, b"g")
        os.close(go_w)
        self.began = time.monotonic()

    def _watch_gpus(self) -> None:
        plan = self.plan
        self.gpu_r, gpu_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.gpu_r, False)
        self.poll.register(self.gpu_r, select.POLLIN)
        folder = plan["slice"]["folder"] if plan["slice"] else ""
        args = [json.dumps(plan["path"]), ",".join(plan["gpu_limits"]), str(plan["gpu_every_s"]), folder]
        self.helper = self._spawn("gpu_keeper", args, out=gpu_w, err=2)
        os.close(gpu_w)

    def _watch_checkpoints(self) -> None:
        """Start the watch before the namespaces open, to outlive them."""
        plan = self.plan
        self.checkpoint_r, out = os.pipe2(os.O_CLOEXEC)
        self.watched, source = socket.socketpair()
        os.set_blocking(self.checkpoint_r, False)
        self.poll.register(self.checkpoint_r, select.POLLIN)
        account = ["" if plan[name] is None else str(plan[name]) for name in ("uid", "gid")]
        args = [plan["checkpoint"]["dir"], *account, str(plan["checkpoint"]["every_s"])]
        self.watcher = self._spawn("checkpoint_watch", args, out=out, err=2, source=source.fileno())
        os.close(out)
        source.close()

    def _make_groups(self) -> list[str]:
        plan, groups = self.plan, []
        if plan["memory_parent"]:
            self.group = limits.make_group(
                plan["memory_kind"], plan["memory_parent"], self.task.uuid, plan["memory_mib"], plan["cpu_milli"]
            )
            groups.append(self.group)
        if plan["cpu_parent"]:
            groups.append(limits.make_cpu_group(plan["cpu_parent"], self.task.uuid, plan["cpu_milli"]))
        if plan["pids_parent"]:
            self.pids = limits.make_pids_group(plan["pids_parent"], self.task.uuid, plan["processes_most"])
            groups.append(self.pids)
        return list(dict.fromkeys(groups))

    # run

    def _watch(self) -> None:
        next_tick = time.monotonic() + TICK_S
        while not self.over:
            now = time.monotonic()
            door_at = self.door.next_at() if self.door else None
            times = self.kill_at, self.end_at, self._time_is_up_at(), door_at
            wake_at = [next_tick, *(at for at in times if at is not None)]
            ready = {fd for fd, _ in self.poll.poll(max(0.0, min(wake_at) - now) * 1000)}
            self._clear_wakeups()
            self._carry_output()
            self._read_reports()
            self._read_checkpoints()
            self._reap()
            if self.door is not None:
                self.door.serve(ready)
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
                self._check_memory()
                self._check_gpus()
                if self.watcher is not None and self.watch_until is not None and now >= self.watch_until:
                    os.kill(self.watcher, signal.SIGKILL)
            if self.kill_at is not None and now >= self.kill_at:
                self.kill_at = now + KILL_EVERY_S
                self._kill_tree()

    def _time_is_up_at(self) -> float | None:
        """Return the time limit, None without or when ending."""
        if self.plan["max_time_s"] is None or self.cause or self.status is not None:
            return None
        return self.began + self.plan["max_time_s"]

    def _end_saved(self, cause: str, detail: str, grace_s: float) -> None:
        """Request a checkpoint once, if possible, then end."""
        rule = self.plan["checkpoint"] if grace_s > 0 and self.status is None and not self.cause else None
        if rule and self._ask_for_checkpoint(rule["signal"]):
            self.cause, self.detail = cause, detail
            self.end_at = time.monotonic() + rule["grace_s"]
        else:
            self._end(cause, detail, max(grace_s, rule["grace_s"]) if rule else grace_s)

    def _end(self, cause: str, detail: str, grace_s: float) -> None:
        """End the tree by SIGTERM, later SIGKILL. The first cause stays."""
        if self.door is not None:
            self.door.close()
        self.end_at = None
        kill_at = time.monotonic() + max(grace_s, 0)
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        if not self.cause and self.status is None:
            self.cause, self.detail = cause, detail
        if grace_s > 0:
            self._signal_tree(signal.SIGTERM)

    def _check_stop(self) -> None:
        """Obey a stop request, and a more urgent one."""
        if self.over or (wish := self.task.read("stop")) is None:
            return
        grace_s = wish["grace_s"]
        if self.stop_grace is None:
            self.stop_grace = grace_s
            self._end_saved("stopped", "", grace_s)
        elif grace_s < self.stop_grace:
            self.stop_grace = grace_s
            self._end("stopped", "", grace_s)

    def _ask_for_checkpoint(self, number: int | None) -> bool:
        """Signal processes that handle it (others would die); return whether any do."""
        if number is None:
            return False
        listening = [process for process in self._tree() if catches(process, number)]
        for process in listening:
            send(process, number)
        return bool(listening)

    def _check_memory(self) -> None:
        """End the whole job above its memory, or after the kernel killed one process."""
        if self.over:
            return
        if self.group is not None:
            if limits.oom_kills(self.plan["memory_kind"], self.group):
                self._end("out_of_memory", self._memory_words(), 0)
            return
        tree = self._tree()
        used = resident_mib(tree)
        if used > self.plan["memory_mib"]:
            used = proportional_mib(tree)
        self.peak_mib = max(self.peak_mib or 0, used)
        if used > self.plan["memory_mib"]:
            self._end("out_of_memory", f"It used {used} MiB of memory; its limit is {self.plan['memory_mib']} MiB.", 0)

    def _memory_words(self) -> str:
        return f"It needed more than {self.plan['memory_mib']} MiB of memory, its limit."

    def _check_gpus(self) -> None:
        if self.helper is None or self.policy is None or self.over:
            return
        for sample in self._lines("gpu", self.gpu_r):
            lost = sample.pop("unwatched", "")
            warnings, verdict = (self.policy.lose_sight(lost), "") if lost else self.policy.hear(sample)
            self._warn(warnings)
            if verdict:
                self._end("gpu_out_of_memory", verdict, self.plan["grace_s"])
            self._tell_of_gpus()

    def _warn(self, warnings: list[str]) -> None:
        for words in warnings:
            self.log.feed(f"Tessera: {words}\n".encode())

    def _tell_of_gpus(self) -> None:
        if self.policy is None:
            return
        how = {"compute": "mps" if self.plan.get("mps") else "turns"}
        cards = {uuid: card | how for uuid, card in self.policy.cards.items()}
        if cards != self.gpus_told:
            self._tell("gpu", {"at": time.time(), "cards": cards})
            self.gpus_told = cards

    def _replace_keeper(self) -> None:
        """Restart a killed GPU keeper; impossible in a user namespace."""
        self._forget(self.gpu_r)
        os.close(self.gpu_r)
        self.pending["gpu"] = b""
        self._warn(self.policy.lose_sight("its keeper was killed") if self.policy else [])
        self._tell_of_gpus()
        try:
            with isolation.outside(self.child) if self.plan["namespaces"] else nullcontext():
                self._watch_gpus()
        except OSError as error:
            self._warn([f"The GPU memory of this task is not watched any more: {error.strerror}."])

    def _read_reports(self) -> None:
        for record in self._lines("report", self.report_r):
            if "error" in record and not self.cause:
                self.cause, self.detail = "start_failed", record["error"]
            self.status = record.get("status", self.status)
            if "status" in record and self.door is not None:
                self.door.close()  # sessions do not prolong jobs
            if "ready" in record:
                self._open_door()
                self._begin_to_look()

    def _read_checkpoints(self) -> None:
        if self.checkpoint_r is not None:
            for record in self._lines("checkpoint", self.checkpoint_r):
                self._tell("checkpoint", record)

    def _tell(self, name: str, record: dict) -> None:
        try:
            self.task.write(name, record)
        except OSError:
            pass  # the next may succeed

    def _begin_to_look(self) -> None:
        if self.watcher is None:
            return
        names = ("mnt", "user") if self.plan["namespaces"] else ()
        fds: list[int] = []
        try:
            fds += [os.open(f"/proc/{self.child}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
            socket.send_fds(self.watched, [b"g"], fds)
        except OSError as error:
            print(f"Its checkpoints are not seen: {error}", file=sys.stderr)
        for fd in fds:
            os.close(fd)

    def _look_once_more(self) -> None:
        if self.watcher is not None:
            self.watched.close()
            self.watch_until = time.monotonic() + LAST_LOOK_S

    def _open_door(self) -> None:
        """Start the session server; a job runs without, too."""
        try:
            self.door = SessionServer(self.task, self.plan, self.poll, self.child, self._tree)
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
            if pid == self.child:
                self._read_reports()
                self.status = status if self.status is None and not self.plan["namespaces"] else self.status
                self._stop_helper()
                self._look_once_more()
                self._end("", "", self.plan["grace_s"])  # of what is left
            elif pid == self.helper:
                self.helper = None
                if self.status is None and not self.cause:
                    self._replace_keeper()
            elif pid == self.watcher:
                self.watcher = None
            elif self.door is not None:
                self.door.ended(pid, status)

    def _tree(self) -> list:
        """Return the job's processes, without ours."""
        found = descendants({os.getpid()}, everybody())
        ours = {self.helper, self.watcher, self.child if self.plan["namespaces"] else None}
        if self.helper is not None:
            ours |= {process.pid for process in descendants({self.helper}, found)}
        return [process for process in found if process.pid not in ours]

    def _signal_tree(self, number: int) -> None:
        if self.plan["namespaces"]:
            if self.child and not self.over and (first := look(self.child)) is not None and first.parent == os.getpid():
                os.kill(self.child, number)
        else:
            for process in self._tree():
                send(process, number)

    def _kill_tree(self) -> None:
        """Kill all; a namespace's init takes the others along."""
        self._signal_tree(signal.SIGKILL)

    def _stop_helper(self) -> None:
        if self.helper is not None:
            os.kill(self.helper, signal.SIGKILL)

    def _clear_wakeups(self) -> None:
        try:
            os.read(self.wake_r, 4096)
        except BlockingIOError:
            pass

    def _carry_output(self, rounds: int = 16) -> bool:
        """Copy output to the log; return whether there may be more."""
        for _ in range(rounds):
            try:
                data = os.read(self.out_r, 65536)
            except BlockingIOError:
                return False
            if not data:
                self._forget(self.out_r)
                return False
            self.log.feed(data)
        return True

    def _lines(self, name: str, fd: int) -> list[dict]:
        try:
            while data := os.read(fd, 65536):
                self.pending[name] += data
            self._forget(fd)
        except BlockingIOError:
            pass
        *lines, self.pending[name] = self.pending[name].split(b"\n")
        return [json.loads(line) for line in lines]

    def _forget(self, fd: int) -> None:
        """Unregister a pipe without writers: polling would spin."""
        try:
            self.poll.unregister(fd)
        except KeyError:
            pass

    # end

    def _finish(self) -> None:
        while self.log.fd >= 0 and self._carry_output():
            pass
        self.log.finish()
        self._read_checkpoints()
        kind = self.plan["memory_kind"]
        if self.group is not None:
            self.peak_mib = limits.peak_mib(kind, self.group)
            killed = self.status is None or self.status != 0
            if limits.oom_kills(kind, self.group) and killed and not self.cause:
                self.cause, self.detail = "out_of_memory", self._memory_words()
        if self.pids is not None and self.status and not self.cause and limits.refused_processes(self.pids):
            self.detail = f"It wanted more than {self.plan['processes_most']} processes and threads, its limit."
        if self.status and not self.cause and (refused := slice_mounts.refusals(self.plan)):
            self.detail = f"Its slice of GPU memory was full: refused requests for more: {refused}."
        self._stop_helper()
        for group in self.plan.get("groups", ()):
            limits.remove(group)
        self._write_exit(self._how_it_ended())

    def _how_it_ended(self) -> dict:
        code = number = None
        ran = self.child and self.cause != "start_failed"
        if ran and self.status is None:
            number = int(signal.SIGKILL)  # namespace killed
        elif ran and self.status is not None and os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
        elif ran and self.status is not None:
            code = os.WEXITSTATUS(self.status)
        return {
            "exit_code": code,
            "signal": number,
            "cause": self.cause,
            "detail": self.detail,
            "started_at": self.started_at if ran else None,
            "ended_at": time.time(),
            "epoch": self.epoch,
            "peak_memory_mib": self.peak_mib,
        }

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
