"""What a machine says of its health: pure judgements, and an agent on a doubled driver that says it."""

import json
import os
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest

from agent.client import read_skew
from agent.gpu.xid_errors import Action, find_action, is_harmless
from agent.health import checker as checker_module
from agent.health.card_checks import HEAT, POWER_BRAKE, CardLook, check_bus, check_card
from agent.health.check import FAIL, OK, UNKNOWN, WARN
from agent.health.checker import Checker, Places
from agent.health.host_looks import ask_engine, look_at_disks, look_at_homes, read_oom_kills
from agent.health.lately import Lately
from agent.health.machine_checks import Disk, Home, MachineLook, check_machine
from tests.runtimes.worlds import wait_for

SOUND = CardLook("GPU-1", 0, (0, 0), 61, 0, (16, 16), 600, {}, (0, 0))
SAMPLES = "POST /agents/g1:samples"


def judge(look=SOUND, xids=Counter(), others={}, **changed) -> dict[str, str]:  # noqa: B006 - nobody changes them
    look = CardLook(**{**look.__dict__, **changed})
    return {check.name: check.state for check in check_card(look, xids, others)}


def judge_machine(**look) -> dict[str, str]:
    disks = (Disk("/", 40, 3, False),)
    sound = {"cards": 8, "expected": 8, "driver": "580", "driver_before": "580", "skew_s": 0.2, "oom_kills": 3}
    return {check.name: check.state for check in check_machine(MachineLook(**{"disks": disks, **sound, **look}))}


def test_a_sound_card_and_machine_have_nothing():
    assert set(judge().values()) == {OK} and set(judge_machine().values()) == {OK}


@pytest.mark.parametrize(
    ("changed", "name", "state"),
    [
        ({"xids": Counter({79: 1})}, "gpu_xid", FAIL),
        ({"xids": Counter({31: 4, 43: 1})}, "gpu_xid", WARN),
        ({"xids": None}, "gpu_xid", UNKNOWN),
        ({"ecc_uncorrected": 2}, "gpu_ecc_uncorrected", FAIL),
        ({"ecc_uncorrected": None}, "gpu_ecc_uncorrected", UNKNOWN),
        ({"remap": (1, 0)}, "gpu_row_remap", WARN),
        ({"remap": (1, 1)}, "gpu_row_remap", FAIL),
        ({"remap": None}, "gpu_row_remap", UNKNOWN),
        ({"temperature_c": 91, "hot_looks": 4}, "gpu_hot", WARN),
        ({"temperature_c": 91, "hot_looks": 5}, "gpu_hot", FAIL),
        ({"held_down": HEAT}, "gpu_hot", FAIL),
        ({"held_down": POWER_BRAKE}, "gpu_power_brake", FAIL),
        ({"link_errors": (9, 1), "link_errors_new": (3, 0)}, "gpu_nvlink_errors", WARN),
        ({"link_errors": (9, 1), "link_errors_new": (3, 1)}, "gpu_nvlink_errors", FAIL),
        ({"link_errors": None}, "gpu_nvlink_errors", UNKNOWN),
        ({"lanes": (8, 16)}, "gpu_pcie_width", WARN),
        ({"lanes": None}, "gpu_pcie_width", UNKNOWN),
        ({"others": {7: 900}}, "gpu_external_process", WARN),
        ({"others": None}, "gpu_external_process", UNKNOWN),
        ({"used_mib": 9000}, "gpu_memory_left", WARN),
        ({"used_mib": 9000, "processes": {7: 8000}}, "gpu_memory_left", OK),
        ({"used_mib": 9000, "processes": None}, "gpu_memory_left", UNKNOWN),
    ],
)
def test_what_is_wrong_with_a_card_changes_one_check_alone(changed, name, state):
    assert judge(**changed) == judge() | {name: state}


def test_a_driver_that_tells_neither_heat_nor_brake_leaves_both_unknown():
    found = judge(temperature_c=None, held_down=None)
    assert (found["gpu_hot"], found["gpu_power_brake"]) == (UNKNOWN, UNKNOWN)


def test_a_card_that_answered_since_the_machine_started_and_does_no_more_is_off_its_bus():
    checks = check_bus({"GPU-1", "GPU-2", "GPU-3"}, {"GPU-1", "GPU-9"}, {"GPU-3": Counter({79: 1})})
    found = {check.card: check for check in checks}
    assert {card: check.state for card, check in found.items()} == {
        "GPU-1": OK,
        "GPU-2": FAIL,
        "GPU-3": FAIL,
        "GPU-9": OK,
    }
    assert "XID 79" in found["GPU-3"].words and "XID" not in found["GPU-2"].words


def test_counts_are_of_the_last_ten_looks_and_one_that_fell_began_anew():
    lately = Lately()
    assert [lately.add("a", count) for count in (7, 7, 9)] == [0, 0, 2]
    assert [lately.add("a", 9) for _ in range(10)][-1] == 0
    assert [lately.add("a", count) for count in (1, 3, None, 8, 9)] == [0, 2, 0, 0, 1]


@pytest.mark.parametrize(
    ("changed", "name", "state"),
    [
        ({"cards": 7}, "gpu_count", FAIL),
        ({"cards": None}, "gpu_count", UNKNOWN),
        ({"nvml_silent_s": 31}, "nvml_hangs", FAIL),
        ({"driver": "590"}, "driver_changed", WARN),
        ({"mismatch": True, "driver": ""}, "driver_changed", FAIL),
        ({"driver": "", "driver_before": ""}, "driver_changed", UNKNOWN),
        ({"disks": (Disk("/", 91, 3, False), Disk("/data", 40, 3, False))}, "disk_full", WARN),
        ({"disks": (Disk("/", 98, 3, False),)}, "disk_full", FAIL),
        ({"disks": (Disk("/", 40, 99, False),)}, "inodes", FAIL),
        ({"disks": (Disk("/", 40, 3, True),)}, "disk_read_only", FAIL),
        ({"skew_s": -9}, "clock_skew", WARN),
        ({"skew_s": 3600}, "clock_skew", FAIL),
        ({"skew_s": None}, "clock_skew", UNKNOWN),
        ({"oom_kills_new": 2}, "oom_kills", WARN),
        ({"oom_kills": None}, "oom_kills", UNKNOWN),
        ({"engine": "Connection refused"}, "container_engine", FAIL),
        ({"engine": ""}, "container_engine", OK),
        ({"dcgm": "Connection refused"}, "dcgm_exporter", WARN),
        ({"dcgm": ""}, "dcgm_exporter", OK),
        ({"homes": [Home("/homes", True)]}, "homes_mounted", OK),
        ({"homes": [Home("/homes", True), Home("/data", False)]}, "homes_mounted", FAIL),
        ({"homes": None, "homes_silent_s": 31}, "homes_mounted", FAIL),
    ],
)
def test_what_is_wrong_with_a_machine_changes_one_check_alone(changed, name, state):
    assert judge_machine(**changed) == judge_machine() | {name: state}


def test_every_check_that_is_not_ok_says_a_sentence_that_the_platform_takes():
    bad = check_card(
        CardLook("GPU-1", 2, (1, 1), 99, 0xE0, (8, 16), 9000, {}, (9, 9), (9, 9), 9), Counter(range(200)), {7: 9}
    )
    bad += check_card(CardLook("GPU-1"), None, None)
    bad += check_machine(MachineLook(None, 8, mismatch=True, nvml_silent_s=60, engine="gone", homes_silent_s=40))
    bad += check_machine(MachineLook(None, 8, homes=[Home("/homes", False, "Stale file handle")]))
    bad += check_bus({"GPU-1"}, (), {})
    told = [check.tell() for check in bad if check.state != OK]
    assert len(told) > 20 and all(0 < len(check["words"]) <= 300 for check in told)


@pytest.mark.parametrize(
    ("xid", "action"),
    [
        (79, Action.RESTART_BM),
        (95, Action.RESET_GPU),
        (31, Action.RESTART_APP),
        (63, Action.IGNORE),
        (74, Action.CHECK_NVLINK),
        (999, Action.CONTACT_SUPPORT),
    ],
)
def test_the_catalogue_says_what_to_do_and_what_it_does_not_know_is_a_fault(xid, action):
    assert find_action(xid) == action
    assert is_harmless(xid) == (xid in (31, 63))


def test_the_clock_is_compared_with_the_date_of_an_answer():
    date, at = "Fri, 27 Nov 2026 10:00:00 GMT", 1795773600
    assert read_skew(date, at + 7) == 7 and read_skew("", at) is None and read_skew("yesterday", at) is None


def test_disks_are_told_once_and_only_the_agents_own_has_to_be_written(tmp_path):
    (disk,) = look_at_disks(tmp_path, [tmp_path, tmp_path / "not there"])
    assert disk.path == str(tmp_path) and 0 <= disk.full_percent <= 100 and not disk.read_only
    system = [each for each in look_at_disks(tmp_path, [Path("/sys")]) if each.path == "/sys"]
    assert not any(each.read_only for each in system)


def test_homes_are_mounted_where_another_file_system_is_than_the_machines_own(tmp_path):
    here, system, none = look_at_homes([tmp_path, Path("/proc"), tmp_path / "none"], [tmp_path, tmp_path / "gone"])
    assert (here.mounted, here.trouble) == (False, "") and system == Home("/proc", True)
    assert not none.mounted and "No such file" in none.trouble


def test_a_file_server_that_hangs_is_a_check_and_no_silent_agent(tmp_path, monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(checker_module, "PATIENCE_S", 0.01)
    monkeypatch.setattr(checker_module, "look_at_homes", lambda homes, own: never.wait(20))
    checker = Checker(Places(tmp_path, homes=[tmp_path]), set, dict, dict, lambda: 0.0)
    found = {check.name: check.state for check in checker.check()}
    assert found["homes_mounted"] == FAIL and found["disk_full"] in (OK, WARN, FAIL)
    never.set()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n\r\nOK", b"\0\0\0\4", b""])
def test_any_answer_of_an_engine_counts(tmp_path, answer):
    """Of Docker; of one that speaks HTTP/2; of one that only hangs up."""
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        engine.listen()

        def serve():
            client, _ = engine.accept()
            with client:
                client.recv(1)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert ask_engine(path, 5) == ""
        thread.join()


def test_an_engine_that_hangs_or_is_not_there_has_trouble(tmp_path):
    path = tmp_path / "engine.sock"
    assert "No such file" in ask_engine(path)
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        assert "refused" in ask_engine(path)
        engine.listen()
        assert "did not answer" in ask_engine(path, 0.05)


def test_what_the_kernel_ended_is_read_where_it_counts(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free 1\noom_kill 7\n")
    assert read_oom_kills(tmp_path / "vmstat") == 7 and read_oom_kills(tmp_path / "none") is None


def test_a_driver_that_hangs_is_a_check_and_no_silent_agent(tmp_path, monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(checker_module, "PATIENCE_S", 0.01)
    monkeypatch.setattr(checker_module, "look_at_driver", lambda: never.wait(20))
    checker = Checker(Places(tmp_path), lambda: {"GPU-1"}, dict, dict, lambda: 0.0)
    for _ in range(2):
        checker.run_once()
    found = {check["name"]: check["state"] for check in checker.tell()}
    assert (found["nvml_hangs"], found["gpu_count"], found["disk_full"]) == (FAIL, UNKNOWN, found["disk_full"])
    assert checker.round == 2
    never.set()


@pytest.mark.slow
def test_an_agent_says_what_is_wrong_with_its_cards(machine, script):
    machine.cards(
        "used 0 9000", "ecc 1 3", "pending 2", "slowed 3", "narrow 4", "process 5 7 10 900", "xid 6 79", "braked 7"
    )
    script.on(SAMPLES, (200, {"taken": 1, "next": 2, "every_s": 1}))
    options = ("--homes", str(machine.folder / "none"), "--engine", str(machine.folder / "engine.sock"))
    machine.start("--server", script.url, "--pods", str(machine.folder), *options, TESSERA_AGENT_TOKEN="ten_word")

    def told():
        bodies = [json.loads(body) for *_, body in script.of(SAMPLES)]
        return [check for body in bodies for check in body.get("checks", ())]

    checks = wait_for(told, 30)
    wrong = {(check["name"], check.get("card", "")[-1:]) for check in checks if check["state"] in (WARN, FAIL)}
    assert wrong >= {
        ("gpu_memory_left", "0"),
        ("gpu_ecc_uncorrected", "1"),
        ("gpu_row_remap", "2"),
        ("gpu_hot", "3"),
        ("gpu_pcie_width", "4"),
        ("gpu_external_process", "5"),
        ("gpu_power_brake", "7"),
        ("homes_mounted", ""),
        ("container_engine", ""),
    }
    assert len(json.dumps(checks)) < 16_000 and os.path.exists(machine.folder)
