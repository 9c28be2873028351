"""What a machine uses: the kernel's files as fixtures."""

import os
from pathlib import Path

import pytest

from agent.usage.disks import Mount, find_mount, read_disks, read_mounts
from agent.usage.group_counters import TICK_MS
from agent.usage.machine import MachineReader

FILES = {
    "stat": "cpu  100 20 30 9000 400 5 6 70 50 0\ncpu0 50 10 15 4500 200 2 3 35 25 0\ncpu1 50 10 15 4500 200 3\n",
    "loadavg": "1.25 0.50 0.10 3/410 7\n",
    "meminfo": "MemTotal: 8192000 kB\nMemAvailable: 6144000 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB\n",
    "1/net/dev": "a\nb\n lo: 5 0 0 0 0 0 0 0 5 0\n eno1: 2048 1 0 0 0 0 0 0 1024 1\n cni0: 9999 1 0 0 0 0 0 0 9999 1\n",
    "self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "30 22 8:1 /var/log/pods /var/log/pods ro,relatime - ext4 /dev/sda1 rw\n"
    "31 22 8:2 / /data\\040dir rw - xfs /dev/sdb ro,attr2\n"
    "32 22 0:50 / /home rw - nfs4 server:/home rw\n",
}
CPU_MS = round((100 + 20 + 30 + 5 + 6) * TICK_MS)
USED = {"cpu_ms": CPU_MS, "cores": 2, "load_centi": 125, "memory_mib": 2000, "memory_all_mib": 8000}


@pytest.fixture
def proc(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_machine_is_read_with_the_network_of_its_hardware_only(proc):
    assert MachineReader([], proc=proc).read() == USED | {
        "swap_mib": 1,
        "swap_all_mib": 2,
        "net_rx_kib": 2,
        "net_tx_kib": 1,
    }


def test_what_the_kernel_does_not_tell_is_absent(proc):
    for name in FILES:
        (proc / name).unlink()
    assert MachineReader([Path("/")], proc=proc).read() == {}


def test_a_container_that_sees_itself_alone_tells_no_network_of_the_machine(proc, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert not {"net_rx_kib", "net_tx_kib"} & MachineReader([], proc=proc).read().keys()


def test_the_agent_tells_its_own_cost(proc):
    told = MachineReader([], with_agent=True).read()
    assert 5 < told["agent_mib"] < 4000 and told["agent_cpu_ms"] > 0


def test_each_disk_is_told_once_and_none_of_a_file_server_is_asked(proc, monkeypatch):
    asked = []

    def statvfs(path):
        asked.append(str(path))
        return os.statvfs_result((4096, 1 << 20, 1000, 600, 500, 100, 40, 40, 0, 255))

    monkeypatch.setattr(os, "statvfs", statvfs)
    disks = read_disks([Path("/var/lib/x"), Path("/var/log/pods"), Path("/data dir/y"), Path("/home/ada")], proc)
    assert asked == ["/var/lib/x", "/data dir/y"]
    mib = (1 << 20) * 400 >> 20, (1 << 20) * 900 >> 20
    one = {"used_mib": mib[0], "all_mib": mib[1], "inodes": 60, "all_inodes": 100}
    assert disks == [
        {"path": "/var/lib/x", "read_only": False} | one,
        {"path": "/data dir/y", "read_only": True} | one,  # its file system, not only this mount of it
    ]


def test_a_path_lies_on_the_newest_of_the_nearest_mounts(proc):
    mounts = [*read_mounts(proc), Mount("/", "0:9", "overlay", False)]
    places = {path: find_mount(path, mounts).device for path in ("/var/log/pods", "/var/log/podsx", "/home/ada")}
    assert places == {"/var/log/pods": "8:1", "/var/log/podsx": "0:9", "/home/ada": "0:50"}
