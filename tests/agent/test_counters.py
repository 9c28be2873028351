"""What only some cards count: traffic, clocks that are held down, and what GPM tells, on a doubled driver."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gpu.counters.gpm import Means, add_means
from agent.gpu.meter import Meter
from tests.agent.test_metrics import port, scrape  # noqa: F401 - a fixture
from tests.agent.test_samples import SAMPLES
from tests.runtimes.worlds import wait_for

PROFILED = "DCGM_FI_PROF_"


@given(st.lists(st.tuples(st.floats(0.5, 60), st.floats(0, 100) | st.none()), max_size=30))
def test_means_add_up_to_the_time_that_they_were_of(looks):
    totals: dict[str, float] = {}
    for span_s, percent in looks:
        totals = add_means(totals, Means(span_s, {} if percent is None else {"sm": percent}))
    truth = sum(10 * span_s * percent for span_s, percent in looks if percent is not None)
    assert totals.get("sm", 0) == pytest.approx(truth)


def test_a_total_is_absent_from_a_tick_to_which_nothing_was_told():
    """Else the platform would take what is not known for nothing done."""
    told = iter([Means(10, {"sm": 50, "tensor": 20}), Means(10, {"tensor": 20}), None, Means(10, {"sm": 50})])
    meter = Meter("boot", look=lambda: [{"uuid": "GPU-1", "utilization": [], "counters": {}, "means": next(told)}])
    ticks = [meter.take()[1]["cards"][0] for _ in range(4)]
    assert [(tick.get("sm_ms"), tick.get("tensor_ms")) for tick in ticks] == [
        (5000, 2000),
        (None, 4000),
        (None, None),
        (10000, None),
    ]


def take_ticks(machine, script, *words: str) -> list[dict]:
    """Return three ticks of an agent, a second apart."""
    script.on(SAMPLES, (200, {"taken": 1, "next": 2, "every_s": 1}))
    machine.start("--server", script.url, *words, TESSERA_AGENT_TOKEN="ten_word")
    bodies = wait_for(lambda: said if len(said := [json.loads(b) for *_, b in script.of(SAMPLES)]) >= 4 else None, 30)
    return [tick for body in bodies for tick in body["ticks"]]


def test_a_card_tells_its_traffic_and_for_how_long_its_clocks_were_held_down(machine, script):
    machine.cards("heated 1 250")
    ticks = take_ticks(machine, script)
    first, last = ticks[0]["cards"], ticks[-1]["cards"]
    span_s = (ticks[-1]["up_ms"] - ticks[0]["up_ms"]) / 1000
    for name, rate in (
        ("pcie_rx_kib", 3072),
        ("pcie_tx_kib", 1024),
        ("nvlink_rx_kib", 20480),
        ("nvlink_tx_kib", 10240),
    ):
        assert last[0][name] - first[0][name] == pytest.approx(rate * span_s, abs=1.5 * rate)
    assert last[0]["throttle_power_ms"] - first[0]["throttle_power_ms"] == pytest.approx(100 * span_s, abs=20)
    assert last[1]["throttle_heat_ms"] - first[1]["throttle_heat_ms"] == pytest.approx(250 * span_s, abs=50)
    assert last[0]["throttle_heat_ms"] == last[0]["throttle_brake_ms"] == 0
    assert not {"sm_ms", "tensor_ms", "dram_ms"} & last[0].keys()  # an A100 has no GPM


def test_a_driver_that_counts_nothing_leaves_it_absent(machine, script):
    machine.cards("blind", "count 1")
    (card,) = take_ticks(machine, script)[-1]["cards"]
    assert card.keys() == {"uuid", "source", "busy_ms", "used_mib", "temperature_c", "power_w"}


def test_what_gpm_tells_adds_up_and_what_is_out_of_range_is_absent(machine, script):
    """The double says that the memory's bandwidth is used to 1.4e17 %."""
    machine.cards("gpm 0 60", "count 2")
    ticks = take_ticks(machine, script)
    first, last = (tick["cards"] for tick in (ticks[1], ticks[-1]))
    span_ms = ticks[-1]["up_ms"] - ticks[1]["up_ms"]
    assert last[0]["sm_ms"] - first[0]["sm_ms"] == pytest.approx(0.6 * span_ms, abs=30)
    assert last[0]["tensor_ms"] - first[0]["tensor_ms"] == pytest.approx(0.3 * span_ms, abs=30)
    assert "dram_ms" not in last[0] and "sm_ms" not in last[1] and "sm_ms" not in ticks[0]["cards"][0]


def test_instances_of_mig_have_a_gpm_of_their_own(machine, script):
    machine.cards("count 1", "mig 0", "instance 0 3", "instance 1 2", "gpm 0 70", "gpm 1 30")
    ticks = take_ticks(machine, script)
    span_ms = ticks[-1]["up_ms"] - ticks[1]["up_ms"]
    first, last = (
        {card["uuid"][:4] + card["uuid"][-1]: card for card in tick["cards"]} for tick in (ticks[1], ticks[-1])
    )
    for uuid, percent in (("MIG-0", 70), ("MIG-1", 30)):
        for name in ("sm_ms", "busy_ms"):
            assert last[uuid][name] - first[uuid][name] == pytest.approx(span_ms * percent / 100, abs=40)
        assert "used_mib" in last[uuid] and not {"pcie_rx_kib", "throttle_heat_ms"} & last[uuid].keys()


def test_prometheus_hears_what_gpm_tells_by_nvidias_names(machine, script, port):  # noqa: F811
    machine.cards("gpm 0 60")
    machine.start("--server", script.url, "--metrics", f"127.0.0.1:{port}", TESSERA_AGENT_TOKEN="ten_word")
    assert not [name for name in scrape(port) if name.startswith(PROFILED)]  # of one reading there is no mean
    found = wait_for(lambda: told if f"{PROFILED}SM_ACTIVE" in (told := scrape(port)) else None, 20)
    values = {name.removeprefix(PROFILED): found[name] for name in found if name.startswith(PROFILED)}
    told = {name: (len(samples), samples[0].value) for name, samples in values.items()}
    assert told == {
        "GR_ENGINE_ACTIVE": (1, 0.6),
        "SM_ACTIVE": (1, 0.6),
        "PIPE_TENSOR_ACTIVE": (1, 0.3),
        "PCIE_TX_BYTES": (1, 2**20),
        "PCIE_RX_BYTES": (1, 2**20),
    }
