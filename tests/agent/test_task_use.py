"""What tasks of a node use: the kernel's files as fixtures, of both versions of control groups and their drivers."""

from pathlib import Path

import pytest

from agent.usage.task_pods import TaskPods
from agent.usage.task_reader import TaskReader, join_tasks
from tests.runtimes.local.test_task_counters import VERSION_1, VERSION_2

TASK, OTHER = "a" * 32, "b" * 32
UID, OTHER_UID, THEIRS = (f"{n}e8a4f5d-0c1b-4f0e-9d3c-5b6a7c8d9e0f" for n in (1, 2, 3))
RECEIVED, SENT = (2_097_152, 1024), (10_240, 0)
NET = f"""Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 9999999 10 0 0 0 0 0 0 9999999 10 0 0 0 0 0 0
  eth0: {RECEIVED[0]} 20 0 0 0 0 0 0 {SENT[0]} 11 0 0 0 0 0 0
  net1: {RECEIVED[1]} 1 0 0 0 0 0 0 {SENT[1]} 0 0 0 0 0 0 0
"""


class Kernel:
    """A machine's files. Pods have a container of its sandbox and one of the task."""

    def __init__(self, folder: Path):
        self.logs, self.cgroups, self.proc = folder / "pods", folder / "cgroup", folder / "proc"
        self.logs.mkdir()

    def log(self, task: str, uid: str, namespace: str = "tessera-team-7") -> None:
        (self.logs / f"{namespace}_t-{task}_{uid}" / "main").mkdir(parents=True)

    def group(self, path: str, files: dict[str, str]) -> None:
        folder = self.cgroups / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)

    def process(self, pid: int, name: str = "python") -> None:
        folder = self.proc / str(pid)
        (folder / "net").mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "net/dev").write_text(NET)

    def read(self, install: str = "tessera") -> list[dict]:
        return self.reader(install).read()

    def reader(self, install: str = "tessera") -> TaskReader:
        return TaskReader(TaskPods(self.logs, install, self.cgroups), self.proc)


@pytest.fixture
def kernel(tmp_path):
    kernel = Kernel(tmp_path)
    for pid in (102, 103):
        kernel.process(pid)
    kernel.process(101, "pause")
    return kernel


SLICE = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice"
DRIVERS = {
    "cgroupfs": (f"kubepods/pod{UID}", "0123abc", "4567def"),
    "systemd": (SLICE.format(UID.replace("-", "_")), "cri-containerd-01.scope", "cri-containerd-45.scope"),
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_pod_of_version_2_is_found_and_its_sandbox_is_no_process_of_the_task(kernel, driver):
    pod, sandbox, container = DRIVERS[driver]
    kernel.group("", {"cgroup.controllers": "cpu io memory pids\n"})
    kernel.log(TASK, UID)
    kernel.group(pod, VERSION_2)
    kernel.group(f"{pod}/{sandbox}", {"cgroup.procs": "101\n"})
    kernel.group(f"{pod}/{container}", {"cgroup.procs": "102\n"})
    kernel.group(f"{pod}/{container}/inner", {"cgroup.procs": "103\n"})
    assert kernel.read() == [
        {
            "task": TASK,
            "age_ms": 0,
            "cpu_ms": 81234,
            "memory_mib": 1536,
            "peak_mib": 3072,
            "processes": 2,
            "read_kib": 1025,
            "write_kib": 4,
            "net_rx_kib": 2049,
            "net_tx_kib": 10,
        }
    ]


def test_a_pod_of_version_1_has_a_group_in_each_tree(kernel):
    """Who wrote is not known: those of a page cache are counted for whoever flushes it, and processes do not tell."""
    kernel.log(TASK, UID)
    memory = {name: text for name, text in VERSION_1.items() if name.startswith("memory")}
    kernel.group(f"memory/kubepods/burstable/pod{UID}", memory)
    kernel.group(f"memory/kubepods/burstable/pod{UID}/4567", {"cgroup.procs": "102\n"})
    kernel.group(f"cpuacct/kubepods/burstable/pod{UID}", {"cpuacct.usage": "81234567890\n"})
    moved = "8:0 Read 1048576\n8:0 Write 4096\n8:0 Sync 1\n8:0 Total 1052672\n8:16 Read 2048\nTotal 1054720\n"
    kernel.group(f"blkio/kubepods/burstable/pod{UID}", {"blkio.throttle.io_service_bytes_recursive": moved})
    (task,) = kernel.read()
    assert task | {"write_kib": 0} == {
        "task": TASK,
        "age_ms": 0,
        "cpu_ms": 81234,
        "memory_mib": 1536,
        "peak_mib": 3072,
        "processes": 1,
        "read_kib": 1026,
        "write_kib": 0,
        "net_rx_kib": 2049,
        "net_tx_kib": 10,
    }


def test_only_running_tasks_of_this_installation_are_told(kernel):
    kernel.group("", {"cgroup.controllers": ""})
    kernel.log(TASK, UID)
    kernel.log(OTHER, OTHER_UID, "other-team-7")
    for uid, pids in ((UID, "101\n"), (OTHER_UID, "102\n"), (THEIRS, "103\n")):
        kernel.group(f"kubepods/pod{uid}/45", {"cgroup.procs": pids})
    assert kernel.read() == []  # only its sandbox is left
    assert [task["task"] for task in kernel.read("other")] == [OTHER]


def test_a_total_never_decreases_while_its_pod_lives(kernel):
    kernel.group("", {"cgroup.controllers": ""})
    kernel.log(TASK, UID)
    reader = kernel.reader()
    for usec in ("5000000", "3000000"):
        kernel.group(f"kubepods/pod{UID}", {"cpu.stat": f"usage_usec {usec}\n"})
        kernel.group(f"kubepods/pod{UID}/45", {"cgroup.procs": "102\n"})
        assert reader.read()[0]["cpu_ms"] == 5000


def test_shares_and_counters_of_a_task_are_told_together():
    share = {"uuid": "GPU-1", "busy_ms": 3, "source": "measured"}
    counted = {"task": TASK, "age_ms": 0, "cpu_ms": 7}
    told = join_tasks([{"task": TASK, "shares": [share]}, {"task": OTHER, "shares": [share]}], [counted])
    assert told == [counted | {"shares": [share]}, {"task": OTHER, "shares": [share]}]
