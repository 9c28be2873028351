"""A machine with eight doubled A100 cards, on which the agent runs as a process of its own with the real pynvml."""

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests import agent_slice
from tests.cli_server import Handler, Script

ROOT = Path(__file__).resolve().parents[2]
NO_COMPILER = "NO C COMPILER: the tests of the agent's eyes were skipped. Install gcc."
WARNINGS = ["-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-pedantic"]


@pytest.fixture(scope="session")
def built() -> agent_slice.Built:
    """The slice library and the doubled driver, for all who read them."""
    if not (shutil.which("gcc") and shutil.which("make")):
        pytest.skip(agent_slice.NO_COMPILER)
    return agent_slice.build_once()


class Machine:
    """cards: what is different from eight sound ones, in words of double_nvml.c; may change while an agent runs."""

    def __init__(self, library: Path | None, folder: Path):
        self.folder, self.state, self.started = folder, folder / "state", []
        self.profile = folder / "cards"
        self.cards()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
        self.environment |= {"PYTHONPATH": str(ROOT), "NVML_DOUBLE": str(self.profile)}
        self.environment |= {"LD_LIBRARY_PATH": str(library or folder)}

    def cards(self, *lines: str) -> None:
        fresh = self.profile.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self.profile)

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*words), env=self.environment | environment, capture_output=True, text=True, timeout=60
        )

    def show(self, *words: str) -> dict:
        done = self.run("--show", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, *words: str, **environment: str) -> subprocess.Popen:
        process = subprocess.Popen(
            self.command(*words), env=self.environment | environment, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "agent", "--state", str(self.state), *words]

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            process.stderr.close()


@pytest.fixture(scope="session")
def doubled(tmp_path_factory) -> Path:
    """The folder of a libnvidia-ml.so.1 that is double_nvml.c."""
    if not shutil.which("gcc"):
        pytest.skip(NO_COMPILER)
    folder = tmp_path_factory.mktemp("nvml")
    library, source = folder / "libnvidia-ml.so.1", Path(__file__).with_name("double_nvml.c")
    subprocess.run(["gcc", *WARNINGS, "-Wl,-soname,libnvidia-ml.so.1", source, "-o", library], check=True)
    return folder


@pytest.fixture
def machine(doubled, tmp_path):
    made = Machine(doubled, tmp_path)
    yield made
    made.end()


@pytest.fixture
def bare(tmp_path):
    """A machine without any driver."""
    made = Machine(None, tmp_path)
    yield made
    made.end()


@pytest.fixture
def script():
    """A small server in the platform's place, which lets an agent in and takes what it says."""
    http: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.script = Script(f"http://127.0.0.1:{http.server_port}")
    http.script.on("POST /agents:enrol", (200, {"node": "g1"}))
    http.script.on("POST /agents/g1:report", (200, {"held_back": [], "next_in_s": 5}))
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield http.script
    http.shutdown()
    thread.join()
    http.server_close()
