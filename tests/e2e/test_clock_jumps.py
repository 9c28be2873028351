"""The clock of PostgreSQL and of every process of the platform jumps by an hour and a day, forth and back.

Jobs run, twenty in the whole of it, cards are lent, and a maintenance is planned; nothing is lost, stopped or started
for it. libfaketime shifts the wall clock of running processes, and leaves the monotonic one and the machine's own
alone, as a step does.
"""

import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from glob import glob
from pathlib import Path

import psycopg
import pytest

from bench.stack import Stack, free_port, nothing_prepared
from tests.whole import WHOLE, part_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.begins_first]

LIBRARY = next(iter(glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")
HELD_S = 2
TIMES = {"time": "30m", "max_time": "35m"}
SMALL = {"cpu": "50m", "memory": "32MiB", **TIMES}
SEEN = """
SELECT id, state, (SELECT array_agg((uuid, state) ORDER BY id) FROM jobs_task WHERE job_id = job.id),
       (SELECT count(*) FROM events_event WHERE kind = 'job' AND object_id = job.id)
FROM jobs_job job WHERE id = ANY(%s)
"""


class Clock:
    """What is added to the wall clock of the platform's processes, at once for all of them."""

    def __init__(self, folder: Path):
        self.file, self.sleep = folder / "shift", folder / "kernel_sleep.so"
        source = Path(__file__).with_name("kernel_sleep.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.sleep, source], check=True)
        self.set("+0")

    @property
    def variables(self) -> dict[str, str]:
        shift = {"FAKETIME_TIMESTAMP_FILE": str(self.file), "FAKETIME_NO_CACHE": "1"}
        return {
            "LD_PRELOAD": f"{self.sleep} {LIBRARY}",
            **shift,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def clear_away(self) -> None:
        """Remove what libfaketime leaves of processes that were killed."""
        for path in [*Path("/dev/shm").glob("faketime_shm_*"), *Path("/dev/shm").glob("sem.faketime_sem_*")]:
            if not Path(f"/proc/{path.name.rpartition('_')[2]}").exists():
                path.unlink(missing_ok=True)

    def set(self, shift: str) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{shift}\n")
        fresh.replace(self.file)


@pytest.fixture
def jumping(tmp_path):
    """A platform and the clock of its processes."""
    assert LIBRARY, "libfaketime is not installed"
    tmp_path.chmod(0o755)
    clock = Clock(tmp_path)
    stack = Stack(tmp_path / "data", free_port(), variables=clock.variables)
    with nothing_prepared(stack.data):
        try:
            stack.start()
            yield stack, clock
        finally:
            clock.set("+0")
            with suppress(OSError):
                stack.end_jobs()
            stack.stop()
            clock.clear_away()


def submit(stack: Stack, run: str, **more) -> str:
    return stack.api("POST", "/jobs", {"run": run, **SMALL, **more}, timeout=30)["id"]


def lend_cards(stack: Stack) -> None:
    """A window that is open now, and closed an hour and a day before and after; then a maintenance."""
    now = datetime.now(UTC)
    begins, ends = now - timedelta(minutes=10), now + timedelta(minutes=40)
    hours = {"begins": f"{begins:%H:%M}", "ends": f"{ends:%H:%M}", "weekdays": [begins.isoweekday()]}
    stack.api("POST", "/windows", {"lender": "dev", "borrower": "train", "zone": "UTC", **hours})
    planned = {
        "begins_at": (now + timedelta(minutes=50)).isoformat(),
        "ends_at": (now + timedelta(hours=3)).isoformat(),
    }
    stack.api("POST", "/maintenance", {"pool": "dev", "stops": True, "why": "new disks", **planned})


@pytest.fixture
def rows(jumping):
    """Read states, tasks and the number of events of jobs as they stand in the database: {job: (state, ...)}."""
    stack, _ = jumping
    with psycopg.connect(host=stack.environment()["PGHOST"], user="tessera", dbname="tessera", autocommit=True) as link:
        yield lambda *jobs: {
            f"job-{job}": tuple(row) for job, *row in link.execute(SEEN, [[int(each[4:]) for each in jobs]])
        }


def until(rows, *jobs: str, state: str) -> None:
    deadline = time.monotonic() + 120
    while {row[0] for row in rows(*jobs).values()} != {state}:
        assert time.monotonic() < deadline, rows(*jobs)
        time.sleep(0.2)


def test_nothing_is_lost_stopped_or_started_when_the_clock_jumps(jumping, rows):
    stack, clock = jumping
    lend_cards(stack)
    borrowers = [submit(stack, "sleep 900", gpu=1, pool="train", preemptible=True) for _ in range(2)]
    others = [submit(stack, "sleep 900") for _ in range(part_of(18, 4))]
    until(rows, *borrowers, *others, state="RUNNING")
    waits = submit(stack, "sleep 900", gpu=1, pool="dev")  # for its lent card, which it gets back after the window
    once = {"run": "true", **SMALL, "hold": True}
    held = stack.api("POST", "/jobs", once, key="once", timeout=30)["id"]
    time.sleep(HELD_S)
    jobs = [*borrowers, *others, waits, held]
    before = rows(*jobs)
    assert [before[job][0] for job in jobs] == ["RUNNING"] * (len(jobs) - 2) + ["QUEUED"] * 2
    for shift in ("+1h", "-1h", "+1d", "-1d") if WHOLE else ("+1h", "-1d"):
        ends_in_it = submit(stack, "sleep 6")
        until(rows, ends_in_it, state="RUNNING")
        clock.set(shift)
        begins_in_it = submit(stack, "true")  # work goes on
        until(rows, ends_in_it, begins_in_it, state="SUCCEEDED")
        time.sleep(HELD_S)
        assert rows(*jobs) == before, shift
        told = {one["about"]: one["words"] for one in stack.api("GET", "/findings", timeout=30)["results"]}
        assert "jumped" in told.get("clock", ""), shift
        clock.set("+0")
        time.sleep(HELD_S)
        assert rows(*jobs) == before, f"{shift} and back"
    assert stack.api("POST", "/jobs", once, key="once", timeout=30)["id"] == held
    assert stack.process.poll() is None
