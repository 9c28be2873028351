"""bin/start as a whole, beside the test's own servers: in another directory, on another port."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from config.embedded.data_dir import read_running
from config.embedded.supervisor import session_members

pytestmark = pytest.mark.slow


def start(data, port):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    command = [sys.executable, "-m", "config.embedded.start", "--no-demo", "--data", str(data), "--port", str(port)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@dataclass
class Platform:
    process: subprocess.Popen
    data: Path
    port: int


def open_platform(data):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = start(data, port)
    assert any("Ctrl-C stops" in line for line in process.stdout), process.communicate()[1]
    return Platform(process, data, port)


def close_platform(platform):
    if platform.process.poll() is None:
        platform.process.terminate()
    platform.process.communicate(timeout=15)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One platform for the tests that leave it running."""
    platform = open_platform(tmp_path_factory.mktemp("shared") / "data")
    yield platform
    close_platform(platform)


@pytest.fixture
def own(tmp_path):
    platform = open_platform(tmp_path / "data")
    yield platform
    close_platform(platform)


def answers(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": f"localhost:{port}"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def until(condition, within_s=60):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("name", ["postgres", "valkey", "web", "worker", "sender", "beat"])
def test_a_process_killed_in_the_middle_comes_back_and_the_portal_answers(name, shared):
    killed = read_running(shared.data)["children"][name]
    os.kill(killed, signal.SIGKILL)
    until(lambda: read_running(shared.data)["children"][name] != killed)
    until(lambda: answers(shared.port))


def test_a_second_start_says_that_it_runs_and_where(shared):
    second = start(shared.data, shared.port)
    told = second.communicate(timeout=30)[1]
    assert second.returncode == 1
    assert f"runs here already: http://localhost:{shared.port}" in told


def test_a_stop_ends_every_process_within_ten_seconds(own):
    children = read_running(own.data)["children"]
    assert set(children) == {"postgres", "valkey", "web", "worker", "sender", "beat"}
    own.process.terminate()
    assert own.process.wait(timeout=10) == 0
    assert [name for name, pid in children.items() if session_members(pid)] == []
    assert not (own.data / "running.json").exists()
