"""Print a job's states and log; exit 0 if it succeeded, else 1."""

import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.resources import show_place
from jobs.models import Job, Task
from jobs.reason_messages import describe_end, describe_wait
from jobs.states import JobState
from runtimes.log_store import LogStore

LOOK_S = 0.1


class Command(BaseCommand):
    help = "Follow a job until it ends."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", help="such as job-1; - reads it from standard input, when it is known")
        parser.add_argument("--timeout", type=float, default=120.0, help="give up after this many seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        name = sys.stdin.readline().strip() if options["job"] == "-" else options["job"]
        pk = int(name.removeprefix("job-"))
        logs, offset, told = LogStore(settings.TESSERA_LOGS), 0, ""
        until = time.monotonic() + options["timeout"]
        while time.monotonic() < until:
            job = Job.objects.get(pk=pk)
            task = job.newest_tasks.first()
            told = self._print_state(job, task, told)
            ended = job.is_final and not job.newest_tasks.log_open().exists()
            offset = self._print_log(logs, task, offset, ended=ended)
            if ended:
                self.stdout.write(f"{job.public_id} {job.get_state_display().lower()}: {describe_end(job.reason)}")
                sys.exit(0 if job.state == JobState.SUCCEEDED else 1)
            time.sleep(LOOK_S)
        raise CommandError(f"{name} did not end within {options['timeout']:.0f} s")

    def _print_state(self, job: Job, task: Task | None, told: str) -> str:
        """Print the state if it changed."""
        line = f"{job.public_id} {job.get_state_display().lower()}"
        if job.state == JobState.QUEUED and job.wait_reasons:
            line += f": {describe_wait(job.wait_reasons[0])}"
        elif task and task.node and not job.is_final:
            cards = ", ".join(
                f"GPU {show_place(c['index'])} ({c['memory_mib']} MiB of {c['model']})" for c in task.cards
            )
            line += f" on {task.node.name} {cards}".rstrip()
        if line != told and not job.is_final:
            self.stdout.write(line)
        return line

    def _print_log(self, logs: LogStore, task: Task | None, offset: int, ended: bool) -> int:
        """Print new complete lines, and an incomplete last one once the job ended."""
        while task is not None:
            data, _ = logs.read(task.uuid.hex, offset)
            whole = data if ended else data[: data.rfind(b"\n") + 1]
            if not whole:
                return offset
            offset += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self.stdout.write(f"  | {line}")
        return offset
