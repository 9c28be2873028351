"""The file that tells whether a worker or the beat goes round: real processes on a real broker."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from django.conf import settings
from redis import Redis

from tests.runtimes.worlds import wait_for

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CALM = ["-Q", "alive-tests", "--without-gossip", "--without-mingle"]
PROCESSES = {
    "worker": ["worker", "-c", "1", *CALM],
    "sender": ["worker", "-P", "solo", *CALM],
    "beat": ["beat"],
}
"""As docker-compose.yml and the chart start them, but for a queue in which nothing is."""
# A round each tenth of a second instead of ten seconds: tests have no time.
QUICK = (
    "import config.heartbeat, runpy; config.heartbeat.EVERY_S = 0.1; runpy.run_module('celery', run_name='__main__')"
)
STALE_S, WITHIN_S = 3.0, 40
BROKER = 15
"""The Valkey database of these processes alone."""


@pytest.fixture(params=PROCESSES)
def process(request, tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}",
        "TESSERA_ROLE": "worker",
        "TESSERA_SECRET_KEY": settings.SECRET_KEY,
        "TESSERA_VALKEY_DB": str(BROKER),
        "TESSERA_ALIVE": str(tmp_path / "alive"),
    }
    command = [sys.executable, "-c", QUICK, "-A", "config.celery", *PROCESSES[request.param]]
    with open(tmp_path / "log", "wb") as log:
        there = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    yield there
    there.send_signal(signal.SIGCONT)
    there.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        there.wait(20)
    there.kill()  # Celery's beat misses a signal now and then, and this is no test of that
    there.wait()


def age_s(tmp_path: Path) -> float:
    file = tmp_path / "alive"
    return time.time() - file.stat().st_mtime if file.exists() else float("inf")


@pytest.mark.timeout(180)
def test_the_file_is_young_while_the_process_goes_round_and_old_while_it_is_stuck(process, tmp_path):
    wait_for(lambda: age_s(tmp_path) < STALE_S, WITHIN_S)
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: age_s(tmp_path) > STALE_S, WITHIN_S)
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: age_s(tmp_path) < STALE_S, WITHIN_S)


@pytest.mark.timeout(180)
def test_a_process_whose_connections_broke_goes_round_again(process, tmp_path):
    wait_for(lambda: age_s(tmp_path) < STALE_S, WITHIN_S)
    with Redis(unix_socket_path=settings.VALKEY_SOCKET) as valkey:

        def connections() -> set[str]:
            return {one["id"] for one in valkey.client_list() if one["db"] == str(BROKER)}

        for _ in range(3):
            before = wait_for(connections, WITHIN_S)
            for one in before:
                valkey.client_kill_filter(_id=one)
            wait_for(lambda before=before: connections() - before, WITHIN_S)
            broken_at = time.time()
            wait_for(lambda at=broken_at: (tmp_path / "alive").stat().st_mtime > at + STALE_S, WITHIN_S)
