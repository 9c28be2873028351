"""Debian's own Prometheus and VictoriaMetrics, run for a test: from the packages prometheus and victoria-metrics.

Where one is absent, tests of it are skipped, and fail where TESSERA_REQUIRE_PROMETHEUS is set.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.ssh_gateway import free_port


def find_program(name: str) -> str:
    """Return the path of a program; else skip the test, or fail it."""
    if found := shutil.which(name):
        return found
    words = f"NO {name.upper()}: its test was skipped. Install Debian's package {name}."
    if os.environ.get("TESSERA_REQUIRE_PROMETHEUS"):
        pytest.fail(words)
    pytest.skip(words)


class SeriesEngine:
    """A process that answers PromQL, on a port of its own."""

    program = ""

    def __init__(self, folder: Path):
        self.port, self._folder = free_port(), folder
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{self.program}.log"
        self.start()

    def start(self) -> None:
        with open(self.log, "ab") as log:
            command = [find_program(self.program), *self.list_options()]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def list_options(self) -> list[str]:
        raise NotImplementedError

    def ask(self, path: str, **query: str) -> dict:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=10) as answer:
            return json.load(answer)

    def query(self, expression: str, **more: str) -> list:
        answer = self.ask("query", query=expression, **more)
        assert answer["status"] == "success", (expression, answer)
        return answer["data"]["result"]

    def wait_until_it_answers(self) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                self.query("vector(1)")
                return
            except (OSError, urllib.error.HTTPError):
                time.sleep(0.1)
        pytest.fail(self.log.read_text()[-2000:])


class Prometheus(SeriesEngine):
    program = "prometheus"

    def __init__(self, folder: Path, config: str = ""):
        (folder / "prometheus.yml").write_text(config)
        super().__init__(folder)

    def list_options(self) -> list[str]:
        return [
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--web.enable-remote-write-receiver",
        ]


class VictoriaMetrics(SeriesEngine):
    program = "victoria-metrics"

    def list_options(self) -> list[str]:
        return [
            f"-storageDataPath={self._folder / 'victoria'}",
            f"-httpListenAddr=127.0.0.1:{self.port}",
            "-dedup.minScrapeInterval=1ms",
            "-search.latencyOffset=0s",
            "-search.disableCache",
        ]
