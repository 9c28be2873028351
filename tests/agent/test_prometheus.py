"""Debian's own Prometheus scrapes a portal and an agent, and answers every expression that is delivered."""

import shutil
import subprocess
import time
import urllib.request
from contextlib import suppress

import pytest

from tests.deploy.dashboards import DASHBOARDS, EXAMPLE, RULES, list_expressions
from tests.runtimes.worlds import wait_for
from tests.series_engines import Prometheus, find_program
from tests.ssh_gateway import free_port
from tests.web_process import WebProcess

pytestmark = pytest.mark.slow
TOKEN = "scrape-me"
LINTED = 3
"""promtool read it, and does not like all names."""
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
def programs() -> None:
    find_program("prometheus")
    find_program("promtool")


def wait_until_up(prometheus: Prometheus, jobs: set[str]) -> None:
    """Wait until all of these were scraped; else say why not."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(OSError):
            if {one["metric"]["job"] for one in prometheus.query("up == 1")} == jobs:
                return
        time.sleep(0.2)
    targets = [(one["labels"], one["lastError"]) for one in prometheus.ask("targets")["data"]["activeTargets"]]
    wrong = [line for line in prometheus.log.read_text().splitlines() if "level=info" not in line][-3:]
    pytest.fail(f"{targets} {wrong}")


def fetch(url: str, token: str = "") -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


@pytest.mark.django_db(transaction=True)
def test_every_expression_is_answered(machine, script, tmp_path):
    agent, web = free_port(), WebProcess(TESSERA_METRICS_TOKEN=TOKEN)
    machine.start("--server", script.url, "--metrics", f"127.0.0.1:{agent}", TESSERA_AGENT_TOKEN="ten_word")
    web.start()
    prometheus = Prometheus(tmp_path, CONFIG.format(rules=RULES, portal=web.url, token=TOKEN, agent=agent))
    try:
        wait_until_up(prometheus, {"tessera", "cards"})
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
        prometheus.stop()
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
