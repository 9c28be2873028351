"""Back up a platform that runs, restore it on an empty place and in its own, and compare everything."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from bench.stack import ROOT, Stack, free_port, nothing_prepared
from runtimes.local.processes import has_marker, list_processes
from tests.runtimes.worlds import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.begins_first]

SMALL = {"cpu": "50m", "memory": "64MiB"}
COMPARED = [
    "accounts.user",
    "accounts.team",
    "accounts.membership",
    "accounts.apitoken",
    "quotas.quota",
    "cluster.pool",
]


def tessera(*words) -> str:
    """What a command of the admin says; its last word is the exit code."""
    command = [sys.executable, "-m", "cli", *map(str, words)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "TESSERA_"))}
    done = subprocess.run(command, cwd=ROOT, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return f"{done.stdout}\n{done.returncode}"


def saved(stack: Stack, jobs: list[str]) -> dict:
    """Everything that people see of these jobs, and the rows of people and quotas."""
    rows = json.loads(stack.manage("dumpdata", *COMPARED))
    for row in rows:
        row["fields"].pop("last_used_at", None)
    seen = {
        "rows": sorted(rows, key=lambda row: (row["model"], row["pk"])),
        **{job: stack.api("GET", f"/jobs/{job}") for job in jobs},
        **{f"events of {job}": stack.api("GET", f"/jobs/{job}/events")["results"] for job in jobs},
        **{f"log of {job}": stack.text(f"/jobs/{job}/logs") for job in jobs},
    }
    return json.loads(json.dumps(seen).replace(stack.url, "URL"))


def submit(stack: Stack, run: str, **more) -> str:
    return stack.api("POST", "/jobs", {"run": run, **SMALL, **more})["id"]


@pytest.fixture(scope="module")
def backup(stack, tmp_path_factory):
    """A platform with an ended job, a running and a held one, and its backup. After it another job began."""
    place = tmp_path_factory.mktemp("backup")
    ended = submit(stack, "echo hello; echo kept > ~/result.txt; chmod 600 ~/result.txt")
    stack.wait_for(ended, "succeeded")
    runs = submit(stack, "while sleep 0.01; do date +%N; done", gpu="1/4")
    waits = submit(stack, "true", gpu="1/4", hold=True)
    stack.wait_for(runs, "running")
    before = saved(stack, [ended, waits])
    assert tessera("backup-key", place / "key").endswith("\n0")
    said = tessera("backup", "--data", stack.data, "--key", place / "key.pub", place / "backups")
    assert said.endswith("\n0"), said
    (folder,) = (place / "backups").glob("tessera-*Z")
    later = submit(stack, "echo later; sleep 600")
    stack.wait_for(later, "running")
    uuids = [stack.api("GET", f"/jobs/{job}")["tasks"][0]["uuid"] for job in (runs, later)]
    stack.stop()
    yield place, folder, before, ended, runs, waits, later
    wait_for(lambda: not any(kill_processes(uuid) for uuid in uuids))  # what still wrote would refill its folder


def restored(folder: Path, key: Path, data: Path, *words) -> str:
    said = tessera("restore", "--data", data, "--key", key, *words, folder)
    assert said.endswith("\n0"), said
    return said


def test_an_empty_place_has_everything_again_and_touches_nothing_that_runs(stack, backup):
    place, folder, before, ended, runs, waits, _ = backup
    second = Stack(place / "data", free_port())
    place.chmod(0o755)
    with nothing_prepared(second.data):
        said = restored(folder, place / "key", second.data)
        assert f"{runs} main.0 still runs, but not under this platform's records" in said
        try:
            second.token = stack.token
            second.start()
            assert saved(second, [ended, waits]) == before
            home = next((second.data / "files/home").glob("2*"))
            assert (home / "result.txt").read_text() == "kept\n"
            assert (home / "result.txt").stat().st_mode & 0o777 == 0o600
            for name in ("secret_key", "ssh_host_ed25519_key"):
                assert (second.data / name).read_text() == (stack.data / name).read_text()
            found = second.api("GET", f"/jobs/{runs}")["tasks"][0]
            assert found["state"] == "lost"  # it runs, and not here: nobody has its share, and nothing ends it
            assert is_alive(found["uuid"])
            number = submit(second, "true")
            assert int(number.removeprefix("job-")) > 1000
            second.wait_for(number, "succeeded")
        finally:
            second.stop()
    shutil.rmtree(second.data)


def test_in_its_own_place_it_finds_what_runs_and_names_what_it_does_not_know(stack, backup):
    place, folder, before, ended, runs, waits, later = backup
    said = tessera("restore", "--data", stack.data, "--key", place / "key", folder)
    assert f"{stack.data} holds an installation" in said and "--database-only" in said and said.endswith("\n1")
    (stack.data / "postgres").rename(place / "postgres")
    said = restored(folder, place / "key", stack.data, "--database-only")
    assert f"{runs} main.0 still runs, and is this job's again." in said
    (unknown,) = [line.split()[0] for line in said.splitlines() if "belongs to no job of the backup" in line]
    stack.start()
    assert saved(stack, [ended, waits]) == before
    wait_for(lambda: stack.api("GET", f"/jobs/{runs}")["tasks"][0]["state"] == "running")
    assert is_alive(unknown) and int(later.removeprefix("job-")) < int(submit(stack, "true").removeprefix("job-"))
    stack.api("POST", f"/jobs/{runs}:stop")
    stack.wait_for(runs, "cancelled")
    assert is_alive(unknown)
    assert f"{unknown} has ended" in stack.manage("strangers", "--end", unknown)
    assert not is_alive(unknown)


def is_alive(uuid: str) -> bool:
    return bool(find_processes(uuid))


def kill_processes(uuid: str) -> list[int]:
    """Return those that there were."""
    found = find_processes(uuid)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def find_processes(uuid: str) -> list[int]:
    return [process.pid for process in list_processes() if has_marker(process.pid, uuid.replace("-", ""))]
