"""A task whose directory somebody removes while it runs: lost, settled by an admin, ended with its processes."""

import shutil

import pytest

from runtimes.local.processes import has_marker, list_processes
from tests.runtimes.worlds import wait_for

pytestmark = pytest.mark.slow


def test_a_task_without_records_is_lost_until_it_is_settled_and_leaves_no_process(stack):
    job = stack.api("POST", "/jobs", {"run": "sleep 600", "cpu": "50m", "memory": "64MiB", "gpu": "1/4"})["id"]
    uuid = stack.wait_for(job, "running")["tasks"][0]["uuid"].replace("-", "")

    def lives() -> bool:
        return any(has_marker(process.pid, uuid) for process in list_processes())

    def state() -> str:
        return stack.api("GET", f"/jobs/{job}")["tasks"][0]["state"]

    wait_for(lives)
    records = stack.data / "tasks" / uuid
    wait_for(lambda: shutil.rmtree(records, ignore_errors=True) or not records.exists())  # it writes there meanwhile
    wait_for(lambda: state() == "lost")
    stack.api("POST", f"/jobs/{job}:stop")
    assert state() == "lost" and lives()  # a stop alone proves nothing
    stack.api("POST", f"/jobs/{job}:settle", {"why": "its directory was removed"})
    ended = stack.wait_for(job, "cancelled")
    assert not lives() and ended["tasks"][0]["detail"] == "admin settled it: its directory was removed"
    events = stack.api("GET", f"/jobs/{job}/events")["results"]
    assert [event["actor"] for event in events if event["verb"] == "settled"] == ["admin"]
