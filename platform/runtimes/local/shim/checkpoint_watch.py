"""Watch a job's checkpoint directory for its newest change. Few imports, for the shim.

`main` is a process with the job's view and rights, so that a hanging directory delays nobody, and a last check works
after the job. It reports JSON lines {"at": seconds}.
"""

import json
import os
import select
import signal
import socket
import sys
import time

from runtimes.local.isolation import die_with_parent, drop_privileges, enter_namespaces
from runtimes.local.shim.helper_processes import ReportPipe, spawn_helper
from runtimes.local.taskdir import TaskDir
from runtimes.storage.newest_change import find_newest_change

LAST_CHECK_S = 5.0  # the directory may hang


class CheckpointWatch:
    """The shim's side. Made before the namespaces open, to outlive them."""

    def __init__(self, task: TaskDir, plan: dict, poll: select.poll):
        self.task, self.plan = task, plan
        self.kill_at: float | None = None
        self.pipe = ReportPipe(poll)
        self.channel, theirs = socket.socketpair()
        account = ["" if plan[name] is None else str(plan[name]) for name in ("uid", "gid")]
        args = [plan["checkpoint"]["dir"], *account, str(plan["checkpoint"]["every_s"])]
        self.pid: int | None = spawn_helper(
            plan["path"], "checkpoint_watch", args, self.pipe.writer, 2, theirs.fileno()
        )
        os.close(self.pipe.writer)
        theirs.close()

    def begin(self, first: int) -> None:
        """Let it watch, in the namespaces of the job's first process."""
        if self.pid is None:
            return
        fds: list[int] = []
        try:
            for name in ("mnt", "user") if self.plan["namespaces"] else ():
                fds.append(os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))
            socket.send_fds(self.channel, [b"g"], fds)
        except OSError as error:
            print(f"Its checkpoints are not seen: {error}", file=sys.stderr)
        for fd in fds:
            os.close(fd)

    def read_reports(self) -> None:
        for record in self.pipe.read():
            self.task.try_write("checkpoint", record)

    def finish(self) -> None:
        """Let it check once more and end."""
        self.channel.close()
        self.kill_at = time.monotonic() + LAST_CHECK_S

    def kill_if_late(self) -> None:
        if self.pid is not None and self.kill_at is not None and time.monotonic() >= self.kill_at:
            os.kill(self.pid, signal.SIGKILL)


def main(folder: str, uid: str, gid: str, every_s: str) -> None:
    """Report changes until stdin, a socket, ends, then check once more. Its first byte brings the job's namespaces.

    uid, gid: the job's, or "".
    """
    die_with_parent()
    channel = socket.socket(fileno=0)
    begun, namespaces, _, _ = socket.recv_fds(channel, 1, 2)
    if not begun:
        return
    if namespaces:
        enter_namespaces(*namespaces)
    drop_privileges(*(int(number) if number else None for number in (uid, gid)))
    die_with_parent()  # cleared by changing the account
    reported, over = 0.0, False
    while not over:
        over = bool(select.select([channel], [], [], float(every_s))[0])
        newest = min(find_newest_change(folder), time.time())
        if newest > reported:
            reported = newest
            print(json.dumps({"at": newest}), flush=True)
