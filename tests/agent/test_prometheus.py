"""Debian's own Prometheus scrapes a portal and an agent, and answers every expression that is delivered."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import suppress
from urllib.parse import urlencode

import pytest

from tests.deploy.dashboards import DASHBOARDS, EXAMPLE, RULES, list_expressions
from tests.runtimes.worlds import wait_for
from tests.web_process import WebProcess

pytestmark = pytest.mark.slow
TOKEN = "scrape-me"
LINTED = 3
"""promtool read it, and does not like all names."""
NO_PROMETHEUS = "NO PROMETHEUS: its test was skipped. Install Debian's package prometheus."
# Of NVIDIA's own dashboard for its exporter, but for the panel of tensor cores.
OF_NVIDIA = (
    'avg(DCGM_FI_DEV_GPU_TEMP{instance=~".*", gpu=~".*"})',
    'sum(DCGM_FI_DEV_POWER_USAGE{instance=~".*", gpu=~".*"})',
    'DCGM_FI_DEV_SM_CLOCK{instance=~".*", gpu=~".*"} * 1000000',
    'DCGM_FI_DEV_GPU_UTIL{instance=~".*", gpu=~".*"}',
    'DCGM_FI_DEV_FB_USED{instance=~".*", gpu=~".*"}',
)
CONFIG = """
global: {{scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 3s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: tessera
    http_sd_configs:
      - url: "{portal}/metrics/targets"
        refresh_interval: 1s
        authorization: {{type: Bearer, credentials: "{token}"}}
    authorization: {{credentials: "{token}"}}
  - job_name: cards
    static_configs: [{{targets: ["127.0.0.1:{agent}"]}}]
"""


@pytest.fixture(scope="module", autouse=True)
def program() -> str:
    found = shutil.which("prometheus")
    if found is None or shutil.which("promtool") is None:
        if os.environ.get("TESSERA_REQUIRE_PROMETHEUS"):
            pytest.fail(NO_PROMETHEUS)
        pytest.skip(NO_PROMETHEUS)
    return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Prometheus:
    def __init__(self, program: str, folder, config: str):
        self.port = free_port()
        file = folder / "prometheus.yml"
        file.write_text(config)
        command = [program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{self.port}"]
        self.log = folder / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)

    def ask(self, path: str, **query: str) -> dict:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)

    def query(self, expression: str) -> list:
        answer = self.ask("query", query=expression)
        assert answer["status"] == "success", (expression, answer)
        return answer["data"]["result"]

    def wait_until_up(self, jobs: set[str]) -> None:
        """Wait until all of these were scraped; else say why not."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(OSError):
                if {one["metric"]["job"] for one in self.query("up == 1")} == jobs:
                    return
            time.sleep(0.2)
        targets = [(one["labels"], one["lastError"]) for one in self.ask("targets")["data"]["activeTargets"]]
        wrong = [line for line in self.log.read_text().splitlines() if "level=info" not in line][-3:]
        pytest.fail(f"{targets} {wrong}")


def fetch(url: str, token: str = "") -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


@pytest.mark.django_db(transaction=True)
def test_every_expression_is_answered(program, machine, script, tmp_path):
    agent, web = free_port(), WebProcess(TESSERA_METRICS_TOKEN=TOKEN)
    machine.start("--server", script.url, "--metrics", f"127.0.0.1:{agent}", TESSERA_AGENT_TOKEN="ten_word")
    web.start()
    prometheus = Prometheus(program, tmp_path, CONFIG.format(rules=RULES, portal=web.url, token=TOKEN, agent=agent))
    try:
        prometheus.wait_until_up({"tessera", "cards"})
        expressions = [each for dashboard in DASHBOARDS for each in list_expressions(dashboard)]
        for expression in expressions:
            prometheus.query(expression)
        assert len(prometheus.query('DCGM_FI_DEV_GPU_UTIL{Hostname=~".*"}')) == 8
        assert all(prometheus.query(expression) for expression in OF_NVIDIA)
        assert prometheus.query("sum(tessera_jobs)") == [] and prometheus.query("tessera_attempts_lost")
        rules = wait_for(
            lambda: [
                rule
                for group in prometheus.ask("rules")["data"]["groups"]
                for rule in group["rules"]
                if rule["health"] == "ok"
            ],
            30,
        )
        assert len(rules) > 15
        for text in (fetch(f"{web.url}/metrics", TOKEN), fetch(f"http://127.0.0.1:{agent}/metrics")):
            told = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
            wrong = [line for line in told.stderr.decode().splitlines() if not line.startswith("DCGM_")]
            assert told.returncode in (0, LINTED) and wrong == []  # DCGM's names are not ours to choose
    finally:
        prometheus.process.terminate()
        prometheus.process.wait(20)
        web.stop()
        web.close()


def test_rules_and_the_example_are_what_promtool_takes(tmp_path):
    shutil.copy(RULES, tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    for name in ("token", "token-with-tasks"):
        (tmp_path / name).write_text(TOKEN)
    for words in (["rules", RULES.name], ["config", EXAMPLE.name]):
        done = subprocess.run(["promtool", "check", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
