"""`--metrics`: what Prometheus is told of the cards, by the names of NVIDIA's exporter."""

import re
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.daemon.metrics_server import Exporter
from agent.gpu.dcgm_fields import CardValues
from tests.runtimes.worlds import wait_for

# Of NVIDIA's own dashboard, as far as NVML tells them.
OF_THE_DASHBOARD = {"GPU_TEMP", "POWER_USAGE", "SM_CLOCK", "GPU_UTIL", "FB_USED"}
NEEDED = OF_THE_DASHBOARD | {"FB_FREE", "XID_ERRORS", "TOTAL_ENERGY_CONSUMPTION"}
FIRST = "GPU-a1000000-0000-4000-8000-000000000000"


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def scrape(port: int) -> dict[str, list]:
    def ask():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return None

    return {family.name: family.samples for family in text_string_to_metric_families(wait_for(ask, 20))}


def test_a_machine_tells_its_cards_as_nvidias_exporter_does(machine, script, port):
    machine.cards("used 0 2048", "xid 0 43")
    machine.start("--server", script.url, "--metrics", f"127.0.0.1:{port}", TESSERA_AGENT_TOKEN="ten_word")
    found = wait_for(lambda: told if "DCGM_FI_DEV_XID_ERRORS" in (told := scrape(port)) else None, 20)
    names = {name.removeprefix("DCGM_FI_DEV_") for name in found}
    assert names >= NEEDED
    first = next(sample for sample in found["DCGM_FI_DEV_FB_USED"] if sample.labels["gpu"] == "0")
    assert (first.value, len(found["DCGM_FI_DEV_FB_USED"])) == (2048, 8)
    assert first.labels == {
        "gpu": "0",
        "UUID": FIRST,
        "pci_bus_id": "0000:07:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "Hostname": socket.gethostname(),
        "DCGM_FI_DRIVER_VERSION": "580.95.05",
    }
    values = {name: found[f"DCGM_FI_DEV_{name}"][0].value for name in NEEDED}
    assert (values["GPU_TEMP"], values["POWER_USAGE"], values["SM_CLOCK"], values["GPU_UTIL"]) == (61, 250.5, 1410, 97)
    xids = {sample.labels["gpu"]: sample.value for sample in scrape(port)["DCGM_FI_DEV_XID_ERRORS"]}
    assert xids["1"] == 0 and wait_for(lambda: scrape(port)["DCGM_FI_DEV_XID_ERRORS"][0].value == 43, 10)


def test_what_the_driver_does_not_tell_is_absent(machine, script, port):
    machine.cards("blind", "lost 3")
    machine.start("--server", script.url, "--metrics", f"127.0.0.1:{port}", TESSERA_AGENT_TOKEN="ten_word")
    found = scrape(port)
    assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" not in found and "DCGM_FI_DEV_SM_CLOCK" not in found
    assert {sample.labels["gpu"] for sample in found["DCGM_FI_DEV_GPU_TEMP"]} == {"0", "1", "2", "4", "5", "6", "7"}


def test_a_machine_without_a_driver_tells_nothing_and_answers(bare, script, port):
    bare.start("--server", script.url, "--metrics", f"127.0.0.1:{port}", TESSERA_AGENT_TOKEN="ten_word")
    assert scrape(port).keys() == {"tessera_agent_info"}


def test_an_address_that_makes_no_sense_is_refused(bare):
    done = bare.run("--server", "http://localhost", "--metrics", "nonsense")
    assert done.returncode == 2 and "--metrics" in done.stderr


def test_the_true_share_of_two_tasks_on_one_card():
    now, busy = [100.0], {"a": 0, "b": 0}
    tasks = lambda: [  # noqa: E731
        {"task": name, "shares": [{"uuid": "U", "busy_ms": ms, "used_mib": 1, "source": "measured"}]}
        for name, ms in busy.items()
    ]
    card = CardValues(3, "U", 'A "card"', "", {})
    exporter = Exporter(tasks, lambda: None, lambda: ("", [card]), lambda: now[0])
    assert "busy_percent" not in exporter.render()  # of one reading there is no mean
    now[0] += 10
    busy |= {"a": 6000, "b": 1500}
    text = exporter.render()
    told = dict(re.findall(r'tessera_share_busy_percent\{task="(.)",gpu="3".*\} (\S+)', text))
    assert told == {"a": "60", "b": "15"} and 'tessera_share_busy_seconds_total{task="a"' in text
    assert "XID" not in text  # nobody listens
    assert exporter.render() is text
