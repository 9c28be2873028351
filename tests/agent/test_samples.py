"""How busy cards were, as totals, by the samples that the driver keeps; ticks wait while the platform is away."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.client import PlatformUnavailable, Refused
from agent.daemon.sample_sender import KEPT_S, MOST_BYTES, MOST_S, SampleSender, choose_oldest
from agent.gpu.busy_total import ESTIMATED, MEASURED, BusyTotal, add_samples
from agent.gpu.meter import Meter
from agent.state import Identity
from tests.runtimes.worlds import wait_for

SAMPLES = "POST /agents/g1:samples"
PERIOD_US = 166_667


def periods(*percents: int, after_us: int = 1_000_000) -> list[tuple[int, int]]:
    return [(after_us + (number + 1) * PERIOD_US, percent) for number, percent in enumerate(percents)]


def test_the_first_look_begins_the_total():
    assert add_samples(None, periods(97, 97)) == BusyTotal(0.0, 1_000_000 + 2 * PERIOD_US)
    assert add_samples(None, []) is None


def test_without_a_new_sample_nothing_is_known():
    before = add_samples(None, periods(97))
    assert add_samples(before, periods(97)) is None and add_samples(before, []) is None


@given(st.lists(st.integers(0, 100), min_size=2, max_size=60), st.integers(1, 7), st.integers(0, 40))
def test_looks_at_any_moments_add_up_to_the_same(percents, every, kept):
    """However often anybody looks, as long as the driver still keeps what came since."""
    samples = periods(*percents)
    total = whole = add_samples(None, samples[:1])
    for at in range(1, len(samples) + 1, every):
        total = add_samples(total, samples[max(at - every - kept, 0) : at]) or total
    total = add_samples(total, samples) or total
    whole = add_samples(whole, samples)
    assert whole is not None and total.busy_ms == pytest.approx(whole.busy_ms) and total.source == MEASURED
    assert whole.busy_ms == pytest.approx(sum(percents[1:]) * PERIOD_US / 100_000)


def test_what_the_driver_has_forgotten_is_taken_as_the_first_after_it_and_told_as_estimated():
    before = add_samples(None, periods(0))
    lost = add_samples(before, periods(50, after_us=11_000_000))
    assert lost.source == ESTIMATED and lost.busy_ms == pytest.approx(5_000, rel=0.01)
    assert add_samples(lost, periods(50, 50, after_us=11_000_000)).source == MEASURED


@pytest.mark.parametrize("set_by_s", [3600, -3600])
def test_a_clock_that_is_set_by_an_hour_adds_and_hides_no_hour(set_by_s):
    """The driver stamps its samples by it, and keeps some seconds of both times for a while."""
    real = [(round(1e6 * second), 50) for second in range(1, 200)]
    stamped = [(at_us + (set_by_s * 1_000_000 if at_us > 100e6 else 0), percent) for at_us, percent in real]
    total = None
    for second in range(7, 200, 10):
        total = add_samples(total, stamped[max(second - 17, 0) : second], float(second)) or total
    assert total.busy_ms == pytest.approx(190_000 / 2, abs=10_000)


def test_a_driver_that_tells_nothing_new_for_minutes_is_no_clock_that_was_set():
    samples = [(1_000_000, 50), (2_000_000, 50)]
    before = add_samples(None, samples, 2.0)
    assert add_samples(before, samples, 200.0) is None
    later = add_samples(before, [(202_000_000, 50)], 202.0)
    assert (later.busy_ms, later.source) == (100_000, ESTIMATED)


def test_what_a_driver_does_not_tell_is_absent():
    look = {"uuid": "GPU-1", "used_mib": 600, "busy_percent": 97, "temperature_c": None, "power_w": None}
    meter = Meter("boot", look=lambda: [look | {"utilization": []}])
    _, tick = meter.take()
    assert tick["cards"] == [{"uuid": "GPU-1", "used_mib": 600, "source": MEASURED}]
    simulated = Meter("boot", simulated=True, look=lambda: [look | {"utilization": periods(10)}])
    assert simulated.take()[1]["cards"][0]["source"] == "simulated"


class Away:
    """A platform that answers as it is told to, and remembers which ticks it was sent."""

    def __init__(self, *answers):
        self.answers, self.sent = list(answers), []

    def send_samples(self, node, key, said):
        self.sent.append([tick["seq"] for tick in said["ticks"]])
        answer = self.answers.pop(0) if self.answers else {"every_s": 10}
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def build_sender(platform, clock):
    meter = Meter("boot", clock=clock, look=list)
    return SampleSender(platform, lambda: Identity("server", "key", "g1"), meter, clock)


def test_ticks_wait_while_the_platform_is_away_and_come_oldest_first():
    clock, platform = Clock(), Away(PlatformUnavailable("away"), PlatformUnavailable("away", 60))
    sender = build_sender(platform, clock)
    for _ in range(3):
        sender.run_once()
        clock.now += 10
    assert platform.sent == [[1], [1, 2], [1, 2, 3]]
    sender.run_once()
    assert platform.sent[-1] == [4]


def test_only_the_newest_half_hour_waits():
    clock, platform = Clock(), Away(*[PlatformUnavailable("away")] * 200)
    sender = build_sender(platform, clock)
    for _ in range(200):
        sender.run_once()
        clock.now += 10
    assert len(platform.sent[-1]) == KEPT_S / 10 + 1


def test_a_platform_that_knows_no_samples_is_left_alone():
    clock, platform = Clock(), Away(Refused(404, "not_found", "no such thing"))
    sender = build_sender(platform, clock)
    assert sender.run_once() == MOST_S
    clock.now += 10
    sender.run_once()
    assert platform.sent == [[1]]


def test_a_body_has_at_most_what_the_platform_takes_and_at_least_one_tick():
    ticks = [{"seq": number, "words": "x" * 20_000} for number in range(9)]
    assert len(choose_oldest(ticks)) == 2 and len(json.dumps(choose_oldest(ticks))) < MOST_BYTES
    assert choose_oldest([{"words": "x" * 100_000}]) == [{"words": "x" * 100_000}]


def test_a_process_sends_how_busy_its_cards_were(machine, script):
    machine.cards("busy 1 40", "unsampled 2")
    script.on(SAMPLES, (200, {"taken": 1, "next": 2, "every_s": 1}))
    machine.start("--server", script.url, TESSERA_AGENT_TOKEN="ten_word")
    bodies = wait_for(lambda: said if len(said := [json.loads(b) for *_, b in script.of(SAMPLES)]) >= 3 else None, 30)
    first, last = bodies[0]["ticks"][0], bodies[-1]["ticks"][-1]
    assert len(first["cards"]) == 8 and first["cards"][0] | {"busy_ms": 0} == first["cards"][0]
    assert last["cards"][0]["used_mib"] == 1029 and last["cards"][0]["power_w"] == 250
    span_ms = last["up_ms"] - first["up_ms"]
    for place, percent in ((0, 97), (1, 40)):
        assert last["cards"][place]["busy_ms"] == pytest.approx(span_ms * percent / 100, abs=200)
    assert "busy_ms" not in last["cards"][2]
