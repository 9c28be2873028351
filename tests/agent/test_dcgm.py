"""What dcgm-exporter tells of cards is read in place of GPM; one that hangs, lies or goes holds up no sample."""

import socket
import time

import pytest

from agent.daemon.options import parse_arguments
from agent.gpu.counters.dcgm import STALE_S, DcgmReader, DcgmWatch, Reading, fetch_text, read_text
from agent.gpu.counters.gpm import Means
from agent.health import checker
from agent.health.card_checks import CardLook
from agent.health.check import FAIL, OK, UNKNOWN, WARN
from agent.health.checker import Places
from agent.health.driver_looks import DriverLook
from tests.agent.test_counters import take_ticks
from tests.agent.test_metrics import FIRST, port, scrape  # noqa: F401 - a fixture
from tests.agent.test_samples import SAMPLES
from tests.runtimes.worlds import wait_for

EXPORTER = "GET /dcgm"
TEXT = f"""\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="{FIRST}",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="550.54.15"}} 1410
# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="{FIRST}",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1",err_code="48",err_msg="Double Bit ECC Error"}} 48
DCGM_FI_DEV_XID_ERRORS{{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1",err_code="0",err_msg="No Error"}} 0
# HELP DCGM_FI_DEV_ECC_DBE_VOL_TOTAL Total number of double-bit volatile ECC errors.
# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu="0",UUID="{FIRST}",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1"}} 2
# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE Ratio of time the graphics engine is active.
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="{FIRST}",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1",container="train",namespace="team-a",pod="a \\"b\\" }} 9"}} 0.753918
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="node-1"}} 0.25
# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned.
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{FIRST}",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1"}} 0.6
DCGM_FI_PROF_SM_ACTIVE{{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="node-1"}} 0.2
# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0",UUID="{FIRST}",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1"}} 0.3
# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge
DCGM_FI_PROF_DRAM_ACTIVE{{gpu="0",UUID="{FIRST}",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1"}} 9.223372036854775794e+18
# TYPE DCGM_FI_PROF_PCIE_TX_BYTES gauge
DCGM_FI_PROF_PCIE_TX_BYTES{{gpu="0",UUID="{FIRST}",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-1"}} 2097152
"""  # noqa: E501 - as NVIDIA's exporter writes it


def test_ratios_become_percents_of_cards_and_instances_and_blanks_are_absent():
    told = read_text(TEXT)
    assert told.means == {
        (FIRST, ""): {"graphics": 75.3918, "sm": 60, "tensor": 30, "pcie_tx": 2},
        ("GPU-2", "7"): {"graphics": 25, "sm": 20},
    }
    assert (told.ecc, told.xids) == ({FIRST: 2}, {FIRST: 48})


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-0.1", "1.4", "2147483632", "much", ""])
def test_a_value_that_is_none_is_absent(value):
    assert read_text(f'DCGM_FI_PROF_SM_ACTIVE{{UUID="{FIRST}"}} {value}') == Reading()


@pytest.mark.parametrize("text", ["", "<html>", "DCGM_FI_PROF_SM_ACTIVE 0.5", 'other{UUID="GPU-1"} 1', "{" * 10_000])
def test_another_text_tells_nothing(text):
    assert read_text(text) == Reading()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_was_told_counts_between_looks_until_it_is_stale(script):
    clock = Clock()
    script.on(EXPORTER, (200, TEXT.encode(), "text/plain"), (500, b"", "text/plain"))
    watch = DcgmWatch(f"{script.url}/dcgm", clock)
    reader = DcgmReader(watch, clock)
    assert watch.trouble == ""  # it may still come
    watch.run_once()
    assert reader.read(FIRST, None) is None and watch.trouble == ""
    clock.now += 10
    assert reader.read(FIRST, None) == Means(10, read_text(TEXT).means[FIRST, ""])
    assert reader.read("GPU-unknown", None) is None
    clock.now += STALE_S - 15
    watch.run_once()
    assert reader.read(FIRST, None).span_s == STALE_S - 15 and watch.trouble == ""
    clock.now += 10
    assert reader.read(FIRST, None) is None and watch.trouble == "it answered with 500"
    assert watch.read_newest() == Reading() and watch.list_xids() == {}
    script.on(EXPORTER, (200, TEXT.encode(), "text/plain"))
    watch.run_once()
    assert watch.trouble == "" and watch.list_xids() == {FIRST: {48: 1}}


def test_one_without_profiling_is_told(script):
    script.on(EXPORTER, (200, TEXT.partition("# HELP DCGM_FI_PROF")[0].encode(), "text/plain"))
    watch = DcgmWatch(f"{script.url}/dcgm")
    watch.run_once()
    assert "DCGM_FI_PROF_" in watch.trouble and watch.read_newest().ecc == {FIRST: 2}


def drip(handler) -> None:
    """Never long enough between two bytes for a timeout of the socket."""
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
    for _ in range(100):
        try:
            handler.wfile.write(b"#")
        except OSError:
            return
        time.sleep(0.1)


@pytest.mark.parametrize("answer", [drip, lambda handler: time.sleep(3)], ids=["drips", "hangs"])
def test_one_that_hangs_is_left_in_time(answer, script):
    script.on(EXPORTER, answer)
    began = time.monotonic()
    with pytest.raises(OSError):
        fetch_text(f"{script.url}/dcgm", 0.5)
    assert time.monotonic() - began < 2


def test_a_redirect_is_not_followed(script):
    def redirect(handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/secret")
        handler.end_headers()

    script.on(EXPORTER, redirect)
    with pytest.raises(OSError, match="302"):
        fetch_text(f"{script.url}/dcgm", 5)
    assert not script.of("GET /secret")


def test_a_card_before_hopper_tells_what_the_exporter_does_in_place_of_nvml(machine, script):
    machine.cards("count 2", "gpm 0 90")
    script.on(EXPORTER, (200, TEXT.encode(), "text/plain"))
    ticks = take_ticks(machine, script, "--dcgm", f"{script.url}/dcgm")
    first, last = ticks[1]["cards"], ticks[-1]["cards"]
    span_ms = ticks[-1]["up_ms"] - ticks[1]["up_ms"]
    assert last[0]["sm_ms"] - first[0]["sm_ms"] == pytest.approx(0.6 * span_ms, abs=30)
    assert last[0]["tensor_ms"] - first[0]["tensor_ms"] == pytest.approx(0.3 * span_ms, abs=30)
    assert "dram_ms" not in last[0] and "sm_ms" not in last[1]
    assert last[0]["pcie_tx_kib"] - first[0]["pcie_tx_kib"] == pytest.approx(1.024 * span_ms, rel=0.6)  # the driver's


def test_instances_of_mig_are_told_apart_by_their_number(machine, script):
    machine.cards("count 1", "mig 0", "instance 0 3", "instance 1 2")
    line = 'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{}",GPU_I_PROFILE="3g.20gb",GPU_I_ID="{}"}} {}\n'
    text = "".join(line.format(FIRST, number, ratio) for number, ratio in ((0, 0.7), (1, 0.3)))
    script.on(EXPORTER, (200, text.encode(), "text/plain"))
    ticks = take_ticks(machine, script, "--dcgm", f"{script.url}/dcgm")
    span_ms = ticks[-1]["up_ms"] - ticks[1]["up_ms"]
    first, last = ({card["uuid"]: card.get("sm_ms") for card in tick["cards"]} for tick in (ticks[1], ticks[-1]))
    grown = sorted(last[uuid] - first[uuid] for uuid in last if uuid.startswith("MIG-"))
    assert grown == [pytest.approx(0.3 * span_ms, abs=30), pytest.approx(0.7 * span_ms, abs=30)]


def test_one_that_hangs_holds_up_no_sample(machine, script):
    machine.cards("count 1")
    script.on(EXPORTER, lambda handler: time.sleep(20))
    began = time.monotonic()
    ticks = take_ticks(machine, script, "--dcgm", f"{script.url}/dcgm")
    assert time.monotonic() - began < 20 and "busy_ms" in ticks[-1]["cards"][0]
    assert not {"sm_ms", "tensor_ms", "dram_ms"} & ticks[-1]["cards"][0].keys()


def test_traffic_that_the_driver_does_not_count_is_the_exporters_for_all_of_the_run(machine, script):
    machine.cards("blind", "count 1")
    script.on(EXPORTER, (200, TEXT.encode(), "text/plain"))
    ticks = take_ticks(machine, script, "--dcgm", f"{script.url}/dcgm")
    (first,), (last,) = ticks[1]["cards"], ticks[-1]["cards"]
    span_s = (ticks[-1]["up_ms"] - ticks[1]["up_ms"]) / 1000
    assert last["pcie_tx_kib"] - first["pcie_tx_kib"] == pytest.approx(2048 * span_s, rel=0.1)
    assert "pcie_rx_kib" not in last


def test_what_is_told_on_is_what_the_exporter_told(machine, script, port):  # noqa: F811
    machine.cards("count 1")
    script.on(SAMPLES, (200, {"taken": 1, "next": 2, "every_s": 1}))
    script.on(EXPORTER, (200, TEXT.encode(), "text/plain"))
    words = ("--dcgm", f"{script.url}/dcgm", "--metrics", f"127.0.0.1:{port}")
    machine.start("--server", script.url, *words, TESSERA_AGENT_TOKEN="ten_word")
    found = wait_for(lambda: told if "DCGM_FI_PROF_SM_ACTIVE" in (told := scrape(port)) else None, 20)
    assert [sample.value for sample in found["DCGM_FI_PROF_SM_ACTIVE"]] == [0.6]


def test_health_tells_of_one_without_profiling_and_takes_errors_that_nvml_does_not_tell(script, tmp_path, monkeypatch):
    looks = [CardLook(FIRST), CardLook("GPU-2"), CardLook("GPU-3", ecc_uncorrected=0)]
    found_there = DriverLook()
    found_there.cards = looks
    monkeypatch.setattr(checker, "look_at_driver", lambda: found_there)
    script.on(EXPORTER, (200, TEXT.partition("# HELP DCGM_FI_PROF")[0].encode(), "text/plain"))
    watch = DcgmWatch(f"{script.url}/dcgm")
    watch.run_once()
    found = checker.Checker(Places(tmp_path), set, watch.list_xids, dict, lambda: 0.0, watch).check()
    told = {(check.name, check.card): check for check in found}
    assert told["dcgm_exporter", ""].state == WARN and "DCGM_FI_PROF_" in told["dcgm_exporter", ""].words
    ecc, xid = told["gpu_ecc_uncorrected", FIRST], told["gpu_xid", FIRST]
    assert (ecc.state, ecc.count) == (FAIL, 2) and xid.state == FAIL and "48" in xid.words
    assert told["gpu_ecc_uncorrected", "GPU-2"].state == UNKNOWN and told["gpu_xid", "GPU-2"].state == OK


@pytest.mark.parametrize("words, complaint", [
    (("--dcgm", "localhost:9400"), "--dcgm is the address of metrics"),
    (("--dcgm", "http://127.0.0.1:9400/metrics", "--metrics", "0.0.0.0:9400"), "give --metrics another, such as"),
    (("--dcgm", f"http://{socket.gethostname()}:9400", "--metrics", "0.0.0.0:9400"), "has port 9400 already"),
    (("--dcgm", "http://x:y/metrics"), "--dcgm is the address of metrics"),
    (("--dcgm", "http://a:b@x/metrics"), "--dcgm is the address of metrics"),
])  # fmt: skip
def test_addresses_that_cannot_work_are_refused_in_words(words, complaint, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--server", "http://portal", *words])
    assert complaint in capsys.readouterr().err


def test_another_machines_exporter_may_have_the_same_port():
    parse_arguments(["--server", "http://portal", "--dcgm", "http://10.0.0.7:9400", "--metrics", "0.0.0.0:9400"])


def test_a_port_that_is_taken_is_named(machine, script):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = machine.run("--server", script.url, "--metrics", f"127.0.0.1:{port}", TESSERA_AGENT_TOKEN="ten_word")
    assert done.returncode == 2 and f"port {port} of --metrics is taken, as 9400 is by dcgm-exporter" in done.stderr
