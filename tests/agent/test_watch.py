"""What the agent sees of containers' slices and tells of them: real accounts of slices, a made-up driver and /proc."""

import json
import shutil
from types import SimpleNamespace

import pynvml
import pytest

from agent.client import Platform
from agent.gpu.memory_by_process import LISTS
from agent.kubelet import watch
from agent.kubelet.watch import SliceWatch, find_container, read_memory_by_container
from agent.state import Identity
from tests.agent_slice import CARDS, MIB

TASK, BOX = "ab" * 16, "c0" * 32
LIMIT = 4096


class Host:
    """home: as the hook leaves it with one container. held: MiB by pid, as the driver tells of the first card."""

    def __init__(self, folder, built):
        self.home, self.proc, self.control, self.held = folder / "home", folder / "proc", built.slicectl, {}
        self.box = self.home / "tasks" / BOX
        self.box.mkdir(parents=True)
        (self.box / "task").write_text(TASK)
        words = [built.slicectl, "create", self.box / "slice", f"{CARDS[0]}={LIMIT}MiB"]
        watch.subprocess.run([str(word) for word in words], check=True)

    def runs(self, pid: int, group: str) -> None:
        (self.proc / str(pid)).mkdir(parents=True)
        (self.proc / str(pid) / "cgroup").write_text(group)

    def watch(self, url: str = "http://127.0.0.1:9", above_s: float = 6.0) -> SliceWatch:
        who = Identity(url, "tag_x", "g1")
        return SliceWatch(Platform(url), lambda: who, self.home, self.control, above_s, self.proc)


@pytest.fixture
def host(tmp_path, built, monkeypatch):
    host = Host(tmp_path, built)

    def processes(handle):
        return [SimpleNamespace(pid=pid, usedGpuMemory=mib * MIB) for pid, mib in host.held.items()]

    for name in LISTS:
        monkeypatch.setattr(f"pynvml.{name}", processes)
    monkeypatch.setattr("pynvml.nvmlInit", lambda: None)
    monkeypatch.setattr("pynvml.nvmlShutdown", lambda: None)
    monkeypatch.setattr("pynvml.nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr("pynvml.nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr("pynvml.nvmlDeviceGetUUID", lambda handle: CARDS[0])
    return host


@pytest.mark.parametrize(
    "path",
    [
        f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{BOX}.scope\n",
        f"0::/kubepods/pod1/{BOX}\n",
        f"0::/../../kubepods-pod1.slice/crio-{BOX}.scope\n",
        f"5:memory:/kubepods/pod1/{BOX}\n1:name=systemd:/kubepods/pod1/{BOX}\n",
    ],
)
def test_a_process_belongs_to_the_container_that_its_control_group_names(host, path):
    host.runs(7, path)
    assert find_container(7, host.proc) == BOX
    host.held = {7: 100, 8: 50, 9: 20}  # 8 has ended, 9 is no container's
    host.runs(9, "0::/system.slice/sshd.service\n")
    assert read_memory_by_container({BOX}, host.proc) == {BOX: {CARDS[0]: 100}}


def test_a_task_is_told_by_its_account_and_by_the_driver(host):
    host.runs(7, f"0::/kubepods/pod1/{BOX}\n")
    host.runs(8, f"0::/kubepods/pod1/{BOX}\n")
    host.held = {7: 100, 8: 50}
    (card,) = host.watch().read_uses()[TASK].values()
    assert card == {
        "limit_mib": LIMIT, "used_mib": 150, "peak_mib": 150, "refused": 0, "watched": True, "over": ""
    }  # fmt: skip


def test_who_stays_above_its_slice_is_told_with_the_figures_and_stays_so(host):
    host.runs(7, f"0::/kubepods/pod1/{BOX}\n")
    host.held = {7: LIMIT + 300}
    seen = host.watch(above_s=3 * watch.LOOK_S)
    over = [seen.read_uses()[TASK][CARDS[0]]["over"] for _ in range(3)]
    assert over[:2] == ["", ""]
    assert f"It used {LIMIT + 300} MiB" in over[2] and f"its slice is {LIMIT} MiB" in over[2] and "had 0 MiB" in over[2]
    host.held = {}
    assert seen.read_uses()[TASK][CARDS[0]]["over"] == over[2]


def test_a_container_that_is_gone_or_whose_files_broke_says_nothing(host):
    seen = host.watch()
    assert seen.read_uses()
    (host.box / "slice/limits").write_text("garbled")
    assert seen.read_uses() == {}
    shutil.rmtree(host.box)
    assert seen.read_uses() == {} and not seen.policies


def test_only_what_changed_is_sent_and_all_of_it_now_and_then(host, script, monkeypatch):
    script.on("POST /agents/g1:slices", (200, {"taken": 1}))
    seen = host.watch(script.url)
    host.runs(7, f"0::/kubepods/pod1/{BOX}\n")
    for mib in (100, 101, 100 + LIMIT // 100):
        host.held = {7: mib}
        seen.report(seen.read_uses())
    said = [json.loads(body) for *_, body in calls(script)]
    assert [one["slices"][0]["cards"][0]["used_mib"] for one in said] == [100, 100 + LIMIT // 100]
    assert said[0]["slices"][0]["task"] == TASK
    monkeypatch.setattr(watch, "AGAIN_S", 0.0)
    seen.report(seen.read_uses())
    assert len(calls(script)) == 3


def calls(script) -> list:
    return script.of("POST /agents/g1:slices")


def test_a_driver_that_knows_no_lists_of_processes_leaves_the_account(host, monkeypatch):
    def unknown(handle):
        raise pynvml.NVMLLibraryMismatchError("Function Not Found")

    for name in LISTS:
        monkeypatch.setattr(f"pynvml.{name}", unknown)
    assert host.watch().read_uses()[TASK][CARDS[0]]["used_mib"] == 0


def test_a_look_that_fails_is_not_the_last_one(host, script, monkeypatch):
    script.on("POST /agents/g1:slices", (200, {"taken": 1}))
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    seen, looks = host.watch(script.url), iter([ValueError("no such thing")])
    read_uses = seen.read_uses

    def stumble():
        for error in looks:
            raise error
        return read_uses()

    monkeypatch.setattr(seen, "read_uses", stumble)
    seen.start()
    assert script.came.wait(20)
    seen.stop()
    assert calls(script)


def test_an_agent_that_nobody_let_in_says_nothing(host, script):
    seen = host.watch(script.url)
    seen.who = lambda: Identity(script.url, "tag_x")
    seen.report(seen.read_uses())
    assert calls(script) == []
