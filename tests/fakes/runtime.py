"""A runtime in memory with a simulated clock, for tests and simulations."""

import asyncio
import fcntl
import os
import signal
import socket
import termios
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from runtimes.contract.access import PtySize
from runtimes.contract.container import ContainerView, GpuUse
from runtimes.contract.errors import Rejected
from runtimes.contract.node import NodeView
from runtimes.contract.runtime import Capabilities
from runtimes.contract.task import TaskSpec
from runtimes.local.access.streams import StreamSession, open_ends
from runtimes.log_masking import LogMask

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class _Task:
    view: ContainerView
    spec: TaskSpec | None = None
    runs_at: datetime | None = None
    ends_at: datetime | None = None
    ending: tuple[int | None, int | None, str] = (0, None, "")  # exit_code, signal, cause
    asked: bool = False  # for a checkpoint
    resized: int = 0


class FakeRuntime:
    """Runs shell texts such as `sleep 5; exit 3` on a clock that `advance` moves."""

    capabilities = Capabilities(containers=False, name="fake", resizes=True)

    def __init__(self, nodes: list[NodeView], *, start_delay_s: float = 0, now: datetime = EPOCH):
        self.nodes = {node.name: node for node in nodes}
        self.start_delay = timedelta(seconds=start_delay_s)
        self.now = now
        self.starts: list[str] = []  # actual starts, in order
        self._tasks: dict[str, _Task] = {}
        self._forgotten: set[str] = set()
        self._failures: list[Exception] = []
        self._stop_refused: set[str] = set()
        self._saves: dict[str, bool] = {}  # tasks that handle their signal: whether they end then

    # the contract

    def list_nodes(self) -> list[NodeView]:
        self._fail_if_told()
        return list(self.nodes.values())

    def list_containers(self) -> list[ContainerView]:
        self._fail_if_told()
        self._settle()
        return [task.view for task in self._tasks.values()]

    def start(self, spec: TaskSpec) -> None:
        self._fail_if_told()
        if spec.node not in self.nodes:
            raise Rejected(f"There is no node {spec.node}.")
        if spec.uuid in self._tasks or spec.uuid in self._forgotten:
            return
        seconds, code = run_time(spec.run)
        task = _Task(ContainerView(spec.uuid, spec.node, "starting", address="127.0.0.1", epoch=spec.epoch), spec)
        task.runs_at = self.now + self.start_delay
        task.ends_at = None if seconds is None else task.runs_at + timedelta(seconds=seconds)
        task.ending = (code, None, "")
        limit = spec.max_time_s
        if limit is not None and (seconds is None or seconds > limit):
            task.ends_at, task.ending = task.runs_at + timedelta(seconds=limit), (None, 15, "time_limit")
        self._tasks[spec.uuid] = task
        self.starts.append(spec.uuid)
        self._settle()

    def stop(self, uuid: str, grace_s: int, *, epoch: int, gid: int | None = None, unless_ran: bool = False) -> None:
        self._fail_if_told()
        self._settle()
        task = self._tasks.get(uuid)
        if uuid in self._forgotten or (task is not None and epoch < task.view.epoch):
            return
        if task is None:
            tombstone = ContainerView(uuid, "", "exited", cause="never_started", ended_at=self.now, epoch=epoch)
            self._tasks[uuid] = _Task(tombstone)
        elif unless_ran and task.view.started_at is not None:
            return
        elif task.view.phase in ("starting", "running"):
            self._end_when_stopped(task, grace_s)
            self._settle()

    def resize(self, uuid: str, limits_mib: Mapping[str, int], *, serial: int) -> None:
        self._fail_if_told()
        self._settle()
        task = self._tasks.get(uuid)
        if task is None or task.view.phase != "running":
            raise Rejected("There is no such task that runs.")
        if serial < task.resized:
            return
        task.resized = serial
        before = {use.uuid: use for use in task.view.gpu_use}
        for card, mib in limits_mib.items():
            use = before.get(card, GpuUse(card, mib, 0, 0, 0))
            if use.used_mib > mib:
                raise Rejected(f"The slice stays as it is: {use.used_mib} MiB are in use.")
            before[card] = replace(use, limit_mib=mib)
        task.view = replace(task.view, gpu_use=tuple(before.values()))

    def use_memory(self, uuid: str, card: str, limit_mib: int, used_mib: int) -> None:
        task = self._tasks[uuid]
        task.view = replace(task.view, gpu_use=(GpuUse(card, limit_mib, used_mib, used_mib, 0),))

    def open_report(self, uuid: str) -> int | None:
        """Its tasks report nothing."""
        return None

    def forget(self, uuid: str, *, mask: LogMask | None = None) -> None:
        self._settle()
        if uuid in self._tasks and self._tasks[uuid].view.phase == "exited":
            del self._tasks[uuid]
            self._forgotten.add(uuid)

    # controls for tests

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self._settle()

    def finish(self, uuid: str, exit_code: int | None = 0, *, signal: int | None = None, cause: str = "") -> None:
        task = self._tasks[uuid]
        task.ends_at, task.ending = self.now, (exit_code, signal, cause)
        task.runs_at = min(task.runs_at or self.now, self.now)
        self._settle()

    def ignore_term(self, uuid: str) -> None:
        """Make a task end only by SIGKILL."""
        self._stop_refused.add(uuid)

    def save_when_asked(self, uuid: str, *, then_end: bool) -> None:
        """Make a task checkpoint on its signal."""
        self._saves[uuid] = then_end

    def lose(self, uuid: str) -> None:
        task = self._tasks[uuid]
        task.view, task.ends_at = replace(task.view, phase="lost"), None

    def reboot(self, node: str, boot_id: str) -> None:
        """Change the boot id; tasks end without exit code."""
        self.nodes[node] = replace(self.nodes[node], boot_id=boot_id)
        for task in self._tasks.values():
            if task.view.node == node and task.view.phase != "exited":
                self._end(task, self.now, (None, None, "container_lost"))

    def fail_next(self, *errors: Exception) -> None:
        """Make the next calls raise, one error each."""
        self._failures.extend(errors)

    # simulation

    def _fail_if_told(self) -> None:
        if self._failures:
            raise self._failures.pop(0)

    def _settle(self) -> None:
        for task in self._tasks.values():
            if task.view.phase == "starting" and task.runs_at is not None and task.runs_at <= self.now:
                task.view = replace(task.view, phase="running", started_at=task.runs_at)
            if task.view.phase in ("starting", "running") and task.ends_at is not None and task.ends_at <= self.now:
                self._save_at_limit(task)
            if task.view.phase in ("starting", "running") and task.ends_at is not None and task.ends_at <= self.now:
                self._end(task, task.ends_at, task.ending)

    def _save_at_limit(self, task: _Task) -> None:
        rule, at = task.spec.checkpoint if task.spec else None, task.ends_at
        if at is None or task.ending[2] != "time_limit" or task.asked or not (rule and rule.signal):
            return
        if task.view.uuid in self._saves:
            task.asked, task.view = True, replace(task.view, checkpointed_at=task.view.checkpointed_at or at)
            if self._saves[task.view.uuid]:
                task.ending = (0, None, "time_limit")
            else:
                task.ends_at = at + timedelta(seconds=rule.grace_s)

    def _end_when_stopped(self, task: _Task, grace_s: int) -> None:
        stubborn = task.view.uuid in self._stop_refused
        seconds = grace_s if stubborn else 0
        ending: tuple[int | None, int | None, str] = (None, 9 if stubborn else 15, "stopped")
        rule = task.spec.checkpoint if task.spec and task.view.phase == "running" and grace_s > 0 else None
        if rule and rule.signal and task.view.uuid in self._saves:
            task.view = replace(task.view, checkpointed_at=task.view.checkpointed_at or self.now)
            then_ends = self._saves[task.view.uuid]
            seconds, ending = (0, (0, None, "stopped")) if then_ends else (rule.grace_s + seconds, ending)
        elif rule and stubborn:
            seconds = max(seconds, rule.grace_s)
        ends_at = self.now + timedelta(seconds=seconds)
        if task.ends_at is None or ends_at < task.ends_at:
            task.ends_at, task.ending = ends_at, ending

    def _end(self, task: _Task, at: datetime, ending: tuple[int | None, int | None, str]) -> None:
        code, signal, cause = ending
        if task.view.started_at is None and cause == "stopped":
            code, signal, cause = None, None, "never_started"
        task.view = replace(task.view, phase="exited", exit_code=code, signal=signal, cause=cause, ended_at=at)


def run_time(run: str) -> tuple[float | None, int]:
    """Return (seconds, exit code) of `sleep N`, `exit N`, `false`; None for `sleep infinity`."""
    seconds, code = 0.0, 0
    for statement in run.replace("\n", ";").split(";"):
        words = statement.split()
        if words[:1] == ["sleep"]:
            if words[1] == "infinity":
                return None, 0
            seconds += float(words[1])
        elif words[:1] == ["exit"]:
            return seconds, int(words[1]) if len(words) > 1 else code
        elif words:
            code = 1 if words[0] == "false" else 0
    return seconds, code


class FakeAccess:
    """An Access for tests: programs run under this account. dials: (task, port) → port on 127.0.0.1."""

    def __init__(
        self, dials: Mapping[tuple[str, int], int] | None = None, tasks: Iterable[str] = (), **_others: object
    ):
        self.dials = dict(dials or {})
        self.tasks = {*tasks, *(uuid for uuid, _ in self.dials)}
        self.sessions: dict[str, list[FakeSession]] = {}

    async def exec(
        self,
        uuid: str,
        argv: Sequence[str],
        *,
        pty: PtySize | None = None,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
    ) -> "FakeSession":
        self._check(uuid)
        ends = open_ends(pty)
        try:
            program = await asyncio.create_subprocess_exec(
                *argv,
                stdin=ends.theirs[0],
                stdout=ends.theirs[0 if pty else 1],
                stderr=ends.theirs[0 if pty else 2],
                env={"PATH": os.environ["PATH"], "TESSERA_TASK": uuid} | dict(env),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_take_terminal if pty else None,
            )
        except OSError as error:
            for fd in ends.ours:
                os.close(fd)
            raise Rejected(f"{argv[0]}: {error.strerror}") from error
        finally:
            for fd in ends.theirs:
                os.close(fd)
        session = FakeSession(program, ends.ours)
        self.sessions.setdefault(uuid, []).append(session)
        return session

    async def dial(self, uuid: str, port: int) -> socket.socket:
        self._check(uuid)
        if (uuid, port) not in self.dials:
            raise ConnectionRefusedError(f"Nobody of this task listens on port {port}.")
        connected = socket.socket()
        connected.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connected, ("127.0.0.1", self.dials[uuid, port]))
        except BaseException:
            connected.close()
            raise
        return connected

    async def end(self, uuid: str) -> None:
        self.tasks.discard(uuid)
        for session in self.sessions.pop(uuid, []):
            session.send_signal(signal.SIGKILL)
            await session.wait()

    def _check(self, uuid: str) -> None:
        if uuid not in self.tasks:
            raise Rejected("There is no such task on this machine.")


class FakeSession(StreamSession):
    def __init__(self, program: asyncio.subprocess.Process, ours: tuple[int, ...]):
        super().__init__(ours)
        self._program = program
        self._watcher = asyncio.create_task(self._watch())

    def send_signal(self, number: int) -> None:
        try:
            if self._program.returncode is None:
                os.killpg(self._program.pid, number)
        except ProcessLookupError:
            pass  # ended

    async def close(self) -> None:
        await super().close()
        await self._watcher

    def _hang_up(self) -> None:
        self.send_signal(signal.SIGHUP)
        self.send_signal(signal.SIGKILL)

    async def _watch(self) -> None:
        self._ended(await self._program.wait())


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
