"""What collecting reported numbers costs a worker, and whether any is lost.

bin/bench numbers [--tasks 1000] [--seconds 60]. A process writes a line a second for each task, as its tools do; the
worker's own task collects them every 4 s, under its lease. Exits 1 where a number is missing or there twice, or where
the worker takes 30 % of a core or more.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import django
from django.core.management import call_command

django.setup()

from jobs.models import Task  # noqa: E402
from reported_numbers.models import Report, Series  # noqa: E402
from runtimes.local.runtime import LocalRuntime  # noqa: E402
from runtimes.report_file import FILE  # noqa: E402
from scheduler import tasks as loops  # noqa: E402
from tests import make  # noqa: E402

CORE, EVERY_S = 0.30, 4.0
WRITE = """
import sys, time
paths, seconds = sys.stdin.read().split(), int(sys.argv[1])
began = time.monotonic()
for second in range(seconds):
    for path in paths:
        with open(path, "a") as file:
            file.write(f'{{"loss": {second / 7}, "step": {second}}}\\n')
    time.sleep(max(began + second + 1 - time.monotonic(), 0))
"""


@dataclass(frozen=True)
class Outcome:
    """numbers: that were stored. wrong: tasks with another count than was written. core: part that the worker took."""

    numbers: int
    wrong: int
    core: float
    longest_s: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench numbers", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    asked = parser.parse_args()
    call_command("migrate", verbosity=0)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), asked.tasks, asked.seconds)
    print(
        f"{found.numbers} numbers of {asked.tasks} tasks in {asked.seconds} s, {found.wrong} tasks with a wrong count"
    )
    print(f"worker: {found.core:.1%} of a core, the longest look took {found.longest_s:.2f} s")
    return 0 if not found.wrong and found.core < CORE else 1


def measure(folder: Path, count: int, seconds: int) -> Outcome:
    """Let so many tasks report a number a second, and collect them meanwhile."""
    runtime = LocalRuntime(folder / "data", folder / "logs", folder / "run", gpus_text="none", node_name="n1")
    tasks = make_tasks(count)
    paths = [Path(runtime.machine.scratch_of(task.uuid.hex)) / FILE for task in tasks]
    for path in paths:
        path.parent.mkdir(parents=True)
    took, longest_s = 0.0, 0.0
    with patch.object(loops, "get_runtime", lambda: runtime):
        writer = start_writer(paths, seconds)
        began = time.monotonic()
        while writer.poll() is None:
            time.sleep(EVERY_S)
            cpu, at = time.process_time(), time.monotonic()
            loops.collect_numbers()
            took += time.process_time() - cpu
            longest_s = max(longest_s, time.monotonic() - at)
        lasted_s = time.monotonic() - began
        loops.collect_numbers()
    right = Series.objects.filter(name="loss", count=seconds, last_step=seconds - 1).count()
    numbers = sum(Series.objects.values_list("count", flat=True))
    refused = Report.objects.exclude(refused=0, skipped=0).count()
    return Outcome(numbers, count - right + refused, took / lasted_s, longest_s)


def make_tasks(count: int) -> list[Task]:
    cast = make.cast()
    job = make.job(cast.ada, gpu="0")
    return Task.objects.bulk_create(
        Task(job=job, role="bench", rank=rank, state="RUNNING", node=cast.node) for rank in range(count)
    )


def start_writer(paths: list[Path], seconds: int) -> subprocess.Popen:
    writer = subprocess.Popen([sys.executable, "-c", WRITE, str(seconds)], stdin=subprocess.PIPE, text=True)
    assert writer.stdin is not None
    writer.stdin.write("\n".join(map(str, paths)))
    writer.stdin.close()
    return writer


if __name__ == "__main__":
    sys.exit(main())
