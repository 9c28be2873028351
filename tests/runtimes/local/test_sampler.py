"""Ticks of a machine: totals that go on from process to process; what is simulated, measured or not known."""

import json
import os
import threading
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gpu.busy_total import BusyTotal
from agent.gpu.counters.gpm import Means
from agent.gpu.share_busy import CardShares, ProcessSample
from runtimes.contract.task import GpuShare
from runtimes.local import sampler
from runtimes.local.gpm_totals import UNTIL, follow_means
from runtimes.local.node.simulated_cards import simulate_cards
from runtimes.local.processes import Process
from runtimes.local.sampler import DriverLook, LocalSampler, TaskLook, Totals, build_tick, look_at_task, read_totals
from runtimes.local.simulated_load import build_load
from tests.runtimes.worlds import LocalWorld, wait_for

BOOT, NOW = "boot-1", 5000.0
CARDS = {card.uuid: card for card in simulate_cards("2xV100-32GB", "n1").gpus}
FIRST, SECOND = CARDS
TASK, OTHER = "a" * 32, "b" * 32
QUARTER = {"uuid": FIRST, "memory_mib": 8000, "compute_percent": 25}
WHOLE = {"uuid": SECOND, "memory_mib": 32000, "compute_percent": 100}


def new_totals() -> Totals:
    return Totals("boot-1/r", NOW)


def tick_at(now_s: float, totals: Totals, *looks: TaskLook, measured=(), cards=CARDS) -> dict:
    return build_tick(list(looks), cards, dict(measured), totals, now_s)


def card_of(tick: dict, uuid: str = FIRST) -> dict:
    return next(card for card in tick["cards"] if card["uuid"] == uuid)


@given(st.lists(st.floats(1, 300), min_size=1, max_size=20))
def test_totals_are_the_same_however_often_a_tick_is_taken(pauses):
    look, totals = TaskLook(TASK, NOW, "train", (QUARTER, WHOLE)), new_totals()
    now = NOW
    for pause in pauses:
        now += pause
        tick = tick_at(now, totals, look)
    wanted = build_load("train", TASK).count_busy_ms(now - NOW)
    assert card_of(tick)["busy_ms"] == pytest.approx(wanted / 4, abs=1)
    assert card_of(tick, SECOND)["busy_ms"] == pytest.approx(wanted, abs=1)
    assert [share["busy_ms"] for share in tick["tasks"][0]["shares"]] == [
        card_of(tick, uuid)["busy_ms"] for uuid in (FIRST, SECOND)
    ]
    assert tick["seq"] == len(pauses) and tick["up_ms"] == round(1000 * (now - NOW))


def test_a_simulated_notebook_works_while_its_program_does():
    totals, cpu_ms, told = new_totals(), 0, []
    for number, works in enumerate([False, True, False, False]):
        cpu_ms += 9_000 * works
        at = NOW + 10 * (number + 1)
        tick = tick_at(at, totals, TaskLook(TASK, NOW, "notebook", (QUARTER,), {"cpu_ms": cpu_ms}, at))
        told.append(card_of(tick))
    silent, worked, *still = (card["busy_ms"] for card in told)
    assert silent == 0 and worked > 800 and still == [worked, worked]
    assert [card["power_w"] for card in told[2:]] == [45, 45]


def test_what_an_ended_task_did_stays_on_the_card():
    totals = new_totals()
    looks = [TaskLook(task, NOW, "hot", (QUARTER,)) for task in (TASK, OTHER)]
    both = tick_at(NOW + 100, totals, *looks)
    one = tick_at(NOW + 200, totals, looks[0])
    before, after = card_of(both)["busy_ms"], card_of(one)["busy_ms"]
    assert after - before == pytest.approx(25_000, rel=0.04) and before == pytest.approx(50_000, rel=0.06)
    assert OTHER not in totals.busy and OTHER not in totals.ran_s


def test_a_card_that_nothing_uses_is_known_to_be_unused():
    assert tick_at(NOW + 60, new_totals())["cards"][0] == {
        "uuid": FIRST, "busy_ms": 0, "used_mib": 0, "temperature_c": 34, "power_w": 45,
        "energy_mj": 45 * 60_000, "source": "simulated",
    }  # fmt: skip


def test_a_real_card_has_what_its_driver_tells_and_is_said_to_be_busy_as_its_samples_are():
    cards = {FIRST: replace(CARDS[FIRST], simulated=False)}
    sample = {"uuid": FIRST, "used_mib": 900, "busy_percent": 70, "temperature_c": None, "power_w": 80}
    sample["utilization"] = [(1_000_000, 50), (1_500_000, 70)]
    use = {FIRST: {"used_mib": 512, "limit_mib": 8000, "peak_mib": 600, "refused": 0}}
    look = TaskLook(TASK, NOW, "train", (QUARTER,), {"cpu_ms": 70}, NOW + 9, use)
    totals = new_totals()
    tick = tick_at(NOW + 10, totals, look, measured={FIRST: sample}.items(), cards=cards)
    told = {"uuid": FIRST, "used_mib": 900, "power_w": 80, "source": "measured"}
    assert tick["cards"] == [told | {"busy_ms": 0}]
    sample["utilization"] += [(2_500_000, 40)]
    again = tick_at(NOW + 20, totals, look, measured={FIRST: sample}.items(), cards=cards)
    assert again["cards"] == [told | {"busy_ms": 400}]
    unknown = tick_at(NOW + 30, totals, look, measured={FIRST: sample | {"utilization": []}}.items(), cards=cards)
    assert unknown["cards"] == [told]
    shares = [{"uuid": FIRST, "used_mib": 512, "source": "measured"}]
    assert tick["tasks"] == [{"task": TASK, "age_ms": 1000, "cpu_ms": 70, "shares": shares}]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100)), min_size=12, max_size=60))
def test_what_gpm_tells_adds_up_though_processes_look_in_turn(ticks):
    """Each tick is ten seconds after the one before: which process takes it, and how much was at work until then."""
    at_work, last_look, totals, now_s = [], {}, {}, 0.0
    for process, percent in ticks:
        now_s, at_work = now_s + 10, [*at_work, percent]
        begun, last_look[process] = last_look.get(process), len(at_work)
        mean = None if begun is None else sum(at_work[begun:]) / len(at_work[begun:])
        means = None if mean is None else Means(10.0 * len(at_work[begun:]), {"sm": mean})
        before = totals
        totals, known = follow_means(totals, means, now_s)
        if "sm" in known and before.get(UNTIL) is not None:
            grown, seen = totals["sm"] - before.get("sm", 0.0), at_work[begun:]
            assert min(seen) - 1e-6 <= grown / 10 / (now_s - before[UNTIL]) <= max(seen) + 1e-6
    if UNTIL in totals:
        assert totals["sm"] <= 10_000 * len(at_work)  # never more than time has passed


def test_of_a_longer_time_than_a_process_looked_back_nothing_is_known():
    totals, known = follow_means({UNTIL: 100.0, "sm": 5.0}, Means(10, {"sm": 50}), 120.0)
    assert (totals, set(known)) == ({UNTIL: 120.0, "sm": 5.0}, set())
    totals, known = follow_means(totals, Means(20, {"sm": 50}), 130.0)
    assert (totals, set(known)) == ({UNTIL: 130.0, "sm": 5005.0}, {"sm"})


def test_a_real_card_tells_what_gpm_does():
    cards, totals = {FIRST: replace(CARDS[FIRST], simulated=False)}, new_totals()
    sample = {"uuid": FIRST, "utilization": [], "is_instance": True, "counters": {"pcie_rx_kib": 7}}
    told = []
    for seconds, means in ((10, None), (20, Means(10, {"sm": 40, "graphics": 90})), (30, Means(10, {"sm": 60}))):
        measured = {FIRST: sample | {"means": means}}.items()
        told += tick_at(NOW + seconds, totals, measured=measured, cards=cards)["cards"]
    assert [(card.get("sm_ms"), card.get("busy_ms"), card["pcie_rx_kib"]) for card in told] == [
        (None, None, 7),
        (4000, 9000, 7),
        (10_000, None, 7),
    ]


def test_shares_of_a_real_card_are_told_apart_by_their_processes(monkeypatch):
    cards = {FIRST: replace(CARDS[FIRST], simulated=False)}
    tree = [Process(pid, parent, 10, 1, "S") for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1))]
    monkeypatch.setattr(sampler, "list_processes", lambda: tree)
    looks = [TaskLook(task, NOW, "", (QUARTER,), pid=pid) for task, pid in ((TASK, 10), (OTHER, 20))]
    totals, sample = new_totals(), {"uuid": FIRST, "utilization": [], "processes": []}
    for second, percents in enumerate(({}, {12: 60, 99: 30}, {12: 40, 11: 10})):
        at_us = (100 + second) * 1_000_000
        sample["processes"] = [ProcessSample(pid, at_us, percent) for pid, percent in percents.items()]
        sampler.count_real_shares(looks, {FIRST: sample}, totals, 100 + second)
    tick = tick_at(NOW + 10, totals, *looks, measured={FIRST: sample}.items(), cards=cards)
    told = {"uuid": FIRST, "source": "measured"}
    assert [task["shares"] for task in tick["tasks"]] == [[told | {"busy_ms": 1100}], [told | {"busy_ms": 0}]]
    sampler.count_real_shares(looks, {FIRST: sample | {"processes": None}}, totals, 103)
    silent = tick_at(NOW + 20, totals, *looks, measured={FIRST: sample}.items(), cards=cards)
    assert [task["shares"] for task in silent["tasks"]] == [[], []]


def test_who_holds_a_whole_real_card_takes_all_of_its_time():
    cards = {SECOND: replace(CARDS[SECOND], simulated=False)}
    sample = {"uuid": SECOND, "used_mib": 900, "utilization": [(1_000_000, 50)]}
    look, totals = TaskLook(TASK, NOW, "", (WHOLE | {"whole": True},)), new_totals()
    tick_at(NOW, totals, look, measured={SECOND: sample}.items(), cards=cards)
    sample["utilization"] += [(2_000_000, 50)]
    tick = tick_at(NOW + 1, totals, look, measured={SECOND: sample}.items(), cards=cards)
    assert tick["tasks"][0]["shares"] == [{"uuid": SECOND, "busy_ms": 500, "used_mib": 900, "source": "measured"}]


def test_totals_begin_anew_with_the_machine_or_when_their_file_cannot_be_read(tmp_path):
    file, kept = (
        tmp_path / "samples",
        replace(new_totals(), seq=7, real={FIRST: BusyTotal(7.5, 9)}, real_shares={FIRST: CardShares(7)}),
    )
    file.write_text(json.dumps(asdict(kept)))
    assert read_totals(file, BOOT, NOW + 1) == kept
    fresh = read_totals(file, "boot-2", NOW + 1)
    assert fresh.run.startswith("boot-2/") and (fresh.seq, fresh.began_s) == (0, NOW + 1)
    for text in ("", "{", "[]", '{"run": 1}', '{"run": "boot-1/r"}'):
        file.write_text(text)
        assert read_totals(file, BOOT, NOW).seq == 0


def test_a_driver_that_hangs_costs_its_values_and_no_second_thread(monkeypatch):
    answers, asked = threading.Event(), []
    monkeypatch.setattr(sampler, "NVML_PATIENCE_S", 0.01)
    monkeypatch.setattr(sampler, "take_samples", lambda gpm: asked.append(1) or (answers.wait() and [{"uuid": FIRST}]))
    driver = DriverLook()
    assert driver.look() == driver.look() == {} and asked == [1]
    answers.set()
    assert wait_for(driver.look) == {FIRST: {"uuid": FIRST}}


def test_a_machine_tells_of_its_running_tasks_and_two_processes_go_on_from_each_other():
    world = LocalWorld()
    try:
        card = next(iter(world.runtime.machine.cards))
        shares = (GpuShare(card, 0, 8000, 25, False),)
        spec = world.spec("sleep 60", gpus=shares, simulated_trace="hot")
        world.runtime.start(spec)
        world.until(spec.uuid, "running")
        first = LocalSampler(world.runtime).take()
        again = LocalSampler(world.another_runtime()).take()
        assert (again["run"], again["first"]) == (first["run"], first["first"] + 1)
        before, after = (body["ticks"][0]["tasks"][0]["shares"][0]["busy_ms"] for body in (first, again))
        assert 0 <= before <= after
        world.runtime.resize(spec.uuid, {card: 4000}, serial=1)
        look = look_at_task(world.task(spec.uuid))
        assert (look.trace, look.shares[0]["memory_mib"]) == ("hot", 4000)
        world.runtime.stop(spec.uuid, 0, epoch=5)
        world.until(spec.uuid, "exited")
        assert LocalSampler(world.runtime).take()["ticks"][0]["tasks"] == []
        assert not [name for name in os.listdir(world.base / "data") if name.startswith(".samples")]
    finally:
        world.close()


def test_a_new_run_counts_what_its_tasks_do_from_its_own_begin():
    look = TaskLook(TASK, NOW - 500, "hot", (WHOLE,))
    totals = new_totals()
    assert [tick_at(NOW + after, totals, look)["tasks"][0]["shares"][0]["busy_ms"] for after in (0, 10)] == [0, 9937]
