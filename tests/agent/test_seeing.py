"""What the agent sees of a machine, by the real pynvml over a doubled library."""

import json

from tests.agent.sysfs import add_hca, add_pci

A100 = {"model": "A100-40GB", "product": "NVIDIA A100-SXM4-40GB", "memory_mib": 40960, "reserved_mib": 429}
UNNAMED = "The driver does not say which size this instance has, but calls it NVIDIA A100-SXM4-40GB."
LOST = "The driver lost the card: GPU is lost."


def faults(said: dict) -> dict[int, str]:
    return {gpu["index"]: gpu["fault"] for gpu in said["gpus"] if gpu["fault"]}


def test_eight_a100_with_nvlink(machine):
    said = machine.show()
    assert [gpu["index"] for gpu in said["gpus"]] == list(range(8)) and said["driver"] == "580.95.05"
    assert all(A100.items() <= gpu.items() for gpu in said["gpus"]) and not faults(said)
    assert [gpu["numa"] for gpu in said["gpus"]] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert said["gpus"][7]["bus"] == "0000:bd:00.0" and len({gpu["uuid"] for gpu in said["gpus"]}) == 8
    assert said["links"] == [["X" if i == j else "NV12" for j in range(8)] for i in range(8)]
    assert said["pcie"][2] == ["SYS", "SYS", "X", "PXB", "SYS", "SYS", "SYS", "SYS"]
    assert said["host"]["cpu_milli"] > 0 and said["host"]["memory_mib"] > 0 and said["host"]["numa"]


def test_rdma_adapters_and_how_near_each_is_to_the_cards(machine, tmp_path):
    buses = [gpu["bus"] for gpu in machine.show()["gpus"]]
    switch = ("pci0000:00", "0000:00:01.0", "0000:01:00.0")
    add_pci(tmp_path, *switch, "0000:02:00.0", buses[0], numa=0)
    add_pci(tmp_path, *switch, "0000:02:01.0", "0000:04:00.0", "0000:05:00.0", buses[1], numa=0)
    add_pci(tmp_path, "pci0000:00", "0000:00:03.0", buses[2], numa=0)
    add_pci(tmp_path, "pci0000:20", "0000:20:01.0", buses[3], numa=0)
    add_pci(tmp_path, "pci0000:80", "0000:80:01.0", buses[4], numa=1)
    near = add_pci(tmp_path, *switch, "0000:02:02.0", "0000:08:00.0", numa=0)
    far = add_pci(tmp_path, "pci0000:80", "0000:80:02.0", "0000:81:00.0", numa=1)
    add_hca(tmp_path, "mlx5_10", far, state="1: DOWN", link="Ethernet")
    add_hca(tmp_path, "mlx5_9", near)
    one, two = machine.show("--sys", str(tmp_path))["hcas"]
    known = {"bus": "0000:08:00.0", "numa": 0, "link": "InfiniBand", "rate_gbps": 400, "active": True}
    assert one == {"name": "mlx5_9", **known, "devices": ["uverbs9", "rdma_cm"], "near": one["near"]}
    assert one["near"] == ["PIX", "PXB", "PHB", "NODE", "SYS", "SYS", "SYS", "SYS"]
    assert (two["name"], two["active"], two["link"], two["near"][3:5]) == ("mlx5_10", False, "Ethernet", ["SYS", "PHB"])


def test_what_each_card_does_now(machine):
    (sample,) = (one for one in machine.show()["samples"] if one["uuid"].endswith("4"))
    uuid = sample.pop("uuid")
    assert sample == {"used_mib": 1029, "busy_percent": 97, "temperature_c": 61, "power_w": 250}
    machine.cards("lost 4")
    assert uuid not in [one["uuid"] for one in machine.show()["samples"]]


def test_a_card_that_falls_off_the_bus_is_told_and_the_others_stay_usable(machine):
    before = machine.show()
    machine.cards("lost 3")
    said = machine.show()
    assert faults(said) == {3: LOST} and said["lost"] == []
    assert [gpu for gpu in said["gpus"] if not gpu["fault"]] == [gpu for gpu in before["gpus"] if gpu["index"] != 3]
    assert said["gpus"][3]["uuid"] == before["gpus"][3]["uuid"]
    assert said["links"][2] == ["NV12", "NV12", "X", "SYS", "NV12", "NV12", "NV12", "NV12"]
    machine.cards()
    assert machine.show()["gpus"] == before["gpus"]


def test_a_card_that_was_lost_before_the_agent_came_has_no_name(machine):
    machine.cards("lost 0")
    said = machine.show()
    assert said["lost"] == [{"index": 0, "why": "GPU is lost"}] and len(said["gpus"]) == len(said["links"]) == 7


def test_where_the_driver_fails_as_a_whole_no_card_is_gone_and_none_is_usable(machine):
    machine.show()
    for wrong in ("broken", "init 18"):
        machine.cards(wrong)
        said = machine.show()
        assert len(said["gpus"]) == len(faults(said)) == 8


def test_a_driver_that_fails_from_the_beginning_is_told(machine):
    machine.cards("init 18")
    said = machine.show()
    assert said["gpus"] == [] and "NVML does not start" in said["lost"][0]["why"]


def test_a_machine_without_a_driver_has_no_cards(bare):
    said = bare.show()
    assert said["gpus"] == said["lost"] == said["samples"] == [] and said["driver"] == ""


def test_a_row_that_stays_bad_and_a_card_in_mig_mode(machine):
    machine.cards("remap_failed 6", "mig 1")
    said = machine.show()
    assert list(faults(said)) == [6] and "exchanged" in faults(said)[6]
    assert [gpu["mig"] for gpu in said["gpus"]] == [False, True, *[False] * 6]


CUT = ("mig 1", "instance 10 3", "instance 13 1", "instance 14 1")
"""Card 1 is a 3g.20gb and two 1g.5gb, with a gap between them."""


def test_the_instances_of_a_card_are_told_beside_the_card(machine):
    machine.cards(*CUT)
    said = machine.show()
    card, parts = said["gpus"][1], said["gpus"][8:]
    assert (card["mig"], card["part_of"]) == (True, "") and said["lost"] == []
    assert [part["index"] for part in parts] == [1100, 1103, 1104]
    assert [part["model"] for part in parts] == ["A100-40GB-3g.20gb", "A100-40GB-1g.5gb", "A100-40GB-1g.5gb"]
    one = {"product": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "memory_mib": 4864, "reserved_mib": 0}
    one |= {"numa": 3, "bus": card["bus"], "part_of": card["uuid"], "mig": False}
    assert one.items() <= parts[1].items()
    assert len({part["uuid"] for part in parts}) == 3 and all(part["uuid"].startswith("MIG-") for part in parts)
    assert said["links"][0][7:] == ["NV12", "SYS", "SYS", "SYS"]
    assert said["links"][9] == [*["SYS"] * 9, "X", "SYS"] == said["pcie"][9]


def test_what_each_instance_does_now_is_told_beside_its_card(machine):
    machine.cards(*CUT)
    said = machine.show()
    assert [sample["uuid"] for sample in said["samples"][:3]] == [said["gpus"][n]["uuid"] for n in (0, 1, 8)]
    assert len(said["samples"]) == 11 and said["samples"][2]["used_mib"] == 1029
    machine.cards(*CUT, "lost 1")
    assert len(machine.show()["samples"]) == 7


def test_instances_go_where_their_card_goes(machine):
    machine.cards(*CUT)
    machine.show()
    machine.cards(*CUT, "lost 1")
    said = machine.show()
    assert faults(said) == dict.fromkeys((1, 1100, 1103, 1104), LOST) and len(said["links"]) == len(said["gpus"]) == 11
    machine.cards(*CUT, "remap_failed 1")
    assert set(faults(machine.show())) == {1, 1100, 1103, 1104}
    seen = json.loads((machine.state / "seen.json").read_text())
    seen["faults"] = {seen["cards"]["1"]["uuid"]: "XID 79"}
    (machine.state / "seen.json").write_text(json.dumps(seen))
    machine.cards(*CUT)
    assert faults(machine.show()) == dict.fromkeys((1, 1100, 1103, 1104), "XID 79")


def test_a_card_that_is_cut_anew_forgets_its_instances(machine):
    machine.cards(*CUT)
    machine.show()
    machine.cards("mig 1", "instance 11 4")
    assert [gpu["index"] for gpu in machine.show()["gpus"][8:]] == [1101]
    machine.cards("lost 1")
    assert [gpu["index"] for gpu in machine.show()["gpus"] if gpu["fault"]] == [1, 1101]


def test_an_instance_that_shares_its_memory_is_out_of_service(machine):
    machine.cards("mig 0", "instance 0 0", "instance 1 1")
    said = machine.show()
    assert list(faults(said)) == [1000] and "shares the memory" in faults(said)[1000]


def test_an_instance_without_a_size_is_not_told_as_one(machine):
    machine.cards("mig 0", "instance 0 5", "instance 1 1")
    said = machine.show()
    assert [gpu["index"] for gpu in said["gpus"][8:]] == [1001]
    assert said["lost"] == [{"index": 1000, "why": UNNAMED}]


def test_another_boot_knows_nothing_of_the_faults_before(machine):
    machine.show()
    seen = json.loads((machine.state / "seen.json").read_text())
    uuid = seen["cards"]["5"]["uuid"]
    for boot, expected in ((seen["boot_id"], {5: "XID 79"}), ("another", {})):
        (machine.state / "seen.json").write_text(json.dumps({**seen, "boot_id": boot, "faults": {uuid: "XID 79"}}))
        assert faults(machine.show()) == expected


def test_faults_are_forgotten_when_an_admin_says_so(machine):
    machine.show()
    seen = json.loads((machine.state / "seen.json").read_text())
    seen["faults"] = {seen["cards"]["5"]["uuid"]: "XID 79"}
    (machine.state / "seen.json").write_text(json.dumps(seen))
    assert faults(machine.show("--forget-faults")) == {} == faults(machine.show())
