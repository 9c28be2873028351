"""Watch a task's GPU memory, and say when it must end for using more than its share. Few imports, for the shim."""

import json
import os
import select
import signal
import time
from contextlib import nullcontext

from agent.gpu.policy import GpuPolicy
from runtimes.local import isolation
from runtimes.local.shim.helper_processes import ReportPipe, spawn_helper
from runtimes.local.shim.output import CappedLog
from runtimes.local.taskdir import TaskDir


class GpuMemoryWatchdog:
    """Judges a task's use of shared cards, read by its keeper (gpu_keeper.py).

    Made before the namespaces open, which would contain the keeper.
    """

    def __init__(self, task: TaskDir, plan: dict, poll: select.poll, log: CappedLog):
        self.task, self.plan, self.poll, self.log = task, plan, poll, log
        kept = bool(plan["slice"])
        guarded = kept and plan["slice"]["guarded"]
        self.policy = GpuPolicy(plan["gpu_limits"], plan["gpu_samples"], kept=kept, guarded=guarded)
        self.reported: dict = {}
        self.keeper: int | None = None
        self._start_keeper()

    def check(self) -> str:
        """Read the newest samples; return why the task must end, or ""."""
        over = ""
        for sample in self.pipe.read() if self.keeper is not None else ():
            lost = sample.pop("unwatched", "")
            warnings, verdict = (self.policy.mark_unwatched(lost), "") if lost else self.policy.evaluate(sample)
            self._warn(warnings)
            self._report()
            over = over or verdict
        return over

    def replace_keeper(self, first: int) -> None:
        """Start another keeper, outside the namespaces of process `first`; impossible in a user namespace."""
        self.pipe.close()
        self._warn(self.policy.mark_unwatched("its keeper was killed"))
        self._report()
        try:
            with isolation.outside_pid_namespace(first) if self.plan["namespaces"] else nullcontext():
                self._start_keeper()
        except OSError as error:
            self._warn([f"The GPU memory of this task is not watched any more: {error.strerror}."])

    def stop(self) -> None:
        if self.keeper is not None:
            os.kill(self.keeper, signal.SIGKILL)

    def _start_keeper(self) -> None:
        plan, self.pipe = self.plan, ReportPipe(self.poll)
        folder = plan["slice"]["folder"] if plan["slice"] else ""
        args = [json.dumps(plan["path"]), ",".join(plan["gpu_limits"]), str(plan["gpu_every_s"]), folder]
        self.keeper = spawn_helper(plan["path"], "gpu_keeper", args, self.pipe.writer, 2)
        os.close(self.pipe.writer)

    def _warn(self, warnings: list[str]) -> None:
        for words in warnings:
            self.log.feed(f"Tessera: {words}\n".encode())

    def _report(self) -> None:
        how = {"compute": "mps" if self.plan.get("mps") else "turns"}
        cards = {uuid: card | how for uuid, card in self.policy.cards.items()}
        if cards != self.reported:
            self.task.try_write("gpu", {"at": time.time(), "cards": cards})
            self.reported = cards
